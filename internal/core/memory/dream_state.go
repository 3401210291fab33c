package memory

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// dreamState holds what is known about earlier runs.
type dreamState struct {
	Cursor     int64     `json:"cursor"`   // of Dream when the attempts were made
	Attempts   int       `json:"attempts"` // failed runs in a row
	Failures   int       `json:"failures"` // those that the entries may be to blame for; each halves the batch
	Single     int       `json:"single"`   // those on a single entry
	LastError  string    `json:"last_error,omitempty"`
	NextTry    time.Time `json:"next_try,omitzero"`
	LastRun    time.Time `json:"last_run,omitzero"` // last success
	LastCommit string    `json:"last_commit,omitempty"`
}

// maxSingle is how often an entry may fail by itself before it is passed over.
const maxSingle = 3

// DreamStatus tells how Dream gets on.
type DreamStatus struct {
	LastRun   time.Time `json:"last_run,omitzero"`
	Commit    string    `json:"commit,omitempty"`
	Attempts  int       `json:"attempts,omitempty"` // failed runs since
	LastError string    `json:"last_error,omitempty"`
	NextTry   time.Time `json:"next_try,omitzero"`
	Pending   int       `json:"pending"` // entries not taken in
}

// Status tells how Dream gets on.
func (d *Dream) Status(ctx context.Context) (DreamStatus, error) {
	st, pending, err := d.readState(ctx)
	return DreamStatus{st.LastRun, st.LastCommit, st.Attempts, st.LastError, st.NextTry, len(pending)}, err
}

// failed notes a failure and decides when and how to go on. It returns what
// the owner should know.
func (d *Dream) failed(ctx context.Context, st dreamState, batch []Entry, cause error) (note string) {
	if ctx.Err() != nil {
		return "" // stopped, which says nothing about the entries
	}

	st.Attempts++
	st.LastError = text.Ellipsis(cause.Error(), 300)
	st.NextTry = d.o.Now().Add(d.o.Interval << min(st.Attempts-1, 2))

	if entriesFault(cause) {
		st.Failures++
		if len(batch) == 1 {
			st.Single++
		}
	}

	if st.Single >= maxSingle {
		if passed, ok := d.passOver(ctx, batch[0], cause); ok {
			st = dreamState{LastRun: st.LastRun, LastCommit: st.LastCommit}
			note = passed.String()
			d.o.Notify(ctx, passed)
		}
	}

	if err := d.o.History.setDreamState(ctx, st); err != nil {
		d.o.Log.ErrorContext(ctx, "cannot save the state of the dream", "err", err)
	}
	return note
}

// entriesFault reports whether other entries, or fewer, could fare better.
func entriesFault(err error) bool {
	if errors.Is(err, errRunTokens) {
		return true
	}
	if errors.Is(err, errMeanwhile) {
		return false
	}

	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return true
	}

	switch e.Kind {
	case llm.Auth, llm.Permission, llm.Billing, llm.NotFound, llm.Configuration, llm.BudgetExceeded, llm.UnsupportedParam:
		return false
	default:
		return !e.Retryable()
	}
}

// passOver puts an entry aside that no run gets through.
func (d *Dream) passOver(ctx context.Context, e Entry, cause error) (phrase.Sentence, bool) {
	row := failedEntry{Time: stamp(d.o.Now()), Error: text.Ellipsis(cause.Error(), 300), Entry: json.RawMessage(e.line())}
	err := appendRows(d.state(), fileFailed, []failedEntry{row}, 1000)
	if err == nil {
		err = d.o.History.SetDreamCursor(ctx, e.Cursor)
	}

	if err != nil {
		d.o.Log.ErrorContext(ctx, "cannot pass over a history entry", "cursor", e.Cursor, "err", err)
		return phrase.Sentence{}, false
	}

	d.o.Log.WarnContext(ctx, "dream passed over a history entry", "cursor", e.Cursor, "err", cause)
	return phrase.Later("Dream failed %d times on history entry %d of %s and passed over it: %s. The entry is kept in %s.",
		maxSingle, e.Cursor, e.Time, text.Ellipsis(cause.Error(), 200), fileFailed), true
}

type failedEntry struct {
	Time  string          `json:"time"`
	Error string          `json:"error"`
	Entry json.RawMessage `json:"entry"`
}

// Pauses of Serve.
const (
	firstLook = time.Minute      // after the start
	backlog   = 10 * time.Minute // while there are more entries than one run takes
)

// Serve runs Dream on its schedule until ctx ends. Nothing but an interrupted
// run is looked at before a first pause, so that short lives cost nothing.
func (d *Dream) Serve(ctx context.Context) error {
	if err := d.repair(ctx); err != nil && !errors.Is(err, ErrDreaming) {
		d.o.Log.ErrorContext(ctx, "cannot finish an interrupted dream", "err", err)
	}
	for wait := firstLook; ; {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		wait = d.tick(ctx)
	}
}

// tick runs if a run is due and returns when to look again.
func (d *Dream) tick(ctx context.Context) time.Duration {
	if st, err := d.Status(ctx); err == nil && !st.LastRun.IsZero() && st.Pending <= d.o.MaxBatch {
		if early := st.LastRun.Add(d.o.Interval).Sub(d.o.Now()); early > 0 {
			return min(early, d.o.Interval) // another process may have run it
		}
	}

	rep, err := d.Run(ctx, false)
	switch {
	case err != nil && ctx.Err() == nil && !errors.Is(err, ErrDreaming):
		d.o.Log.ErrorContext(ctx, "dream failed", "err", err)
	case err == nil && rep.Remaining > 0 && rep.Waiting.IsZero():
		return min(d.o.Interval, backlog)
	}
	return d.o.Interval
}
