package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Names of the authoritative files.
const (
	fileHistory   = "history.jsonl"
	fileState     = "state.json"
	fileStateCopy = "state.json.copy"
	fileRejected  = "rejected.jsonl" // lines that could not be read, before a rewrite dropped them
	lockName      = "history"
)

// state is the content of the state file.
type state struct {
	Cursor      int64           `json:"cursor"` // a hint; the log is the truth
	DreamCursor int64           `json:"dream_cursor"`
	Dream       json.RawMessage `json:"dream,omitempty"`
	Check       string          `json:"check"` // over the rest: a damaged digit is a digit all the same
}

func (s state) check() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", s.Cursor, s.DreamCursor, s.Dream))
	return hex.EncodeToString(sum[:8])
}

func (s state) equal(o state) bool {
	return s.Cursor == o.Cursor && s.DreamCursor == o.DreamCursor && bytes.Equal(s.Dream, o.Dream)
}

// add appends a whole line and makes it durable.
func (h *History) add(ctx context.Context, line []byte) error {
	if err := h.log.Append(ctx, h.read.At, line, true); err != nil {
		return err
	}
	info, err := h.log.Info(ctx)
	if err != nil {
		return err
	}
	return h.read.Reached(h.log, info)
}

// view runs fn with the history as it is on disk now.
func (h *History) view(ctx context.Context, fn func() error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}

	defer func() { <-h.turn }()
	if !h.opened {
		return h.locked(ctx, fn)
	}
	if err := h.refresh(ctx); err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	return fn()
}

// update runs fn with the history locked against other processes, and keeps
// what it did to the state.
func (h *History) update(ctx context.Context, fn func() error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}

	defer func() { <-h.turn }()
	return h.locked(ctx, func() error {
		before := h.st
		if err := fn(); err != nil {
			h.read, h.stSeen = store.Cursor{}, store.Info{} // the disk is the truth
			return err
		}

		if !h.st.equal(before) {
			if err := h.saveState(ctx); err != nil {
				return err
			}
		}

		if _, err := h.writeCopies(ctx); err != nil {
			// The entry is safe; the copy is made right on the next occasion.
			h.o.Log.WarnContext(ctx, "cannot copy the history into the workspace", "err", err)
		}
		return nil
	})
}

func (h *History) enter(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// locked runs fn holding the lock against other processes, everything read.
func (h *History) locked(ctx context.Context, fn func() error) error {
	release, err := store.WaitLock(ctx, h.o.Store, lockName, h.o.LockWait)
	if err != nil {
		return err
	}
	err = h.prepare(ctx)
	if err == nil {
		err = fn()
	}
	return errors.Join(err, release())
}

// prepare reads the files, makes them on the first occasion, and mends what a
// crash left.
func (h *History) prepare(ctx context.Context) error {
	info, err := h.log.Info(ctx)
	if err != nil {
		return err
	}

	if !info.Exists() {
		h.opened = false
		if err := h.beginLog(ctx); err != nil {
			return err
		}
	}

	if err := h.refresh(ctx); err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if h.opened {
		return nil
	}

	h.opened = true
	if _, err := h.writeCopies(ctx); err != nil {
		h.o.Log.WarnContext(ctx, "cannot copy the history into the workspace", "err", err)
	}
	return nil
}

// refresh makes memory agree with the disk: nothing to do when the files are
// as they were left, only the new end is read when another process appended.
func (h *History) refresh(ctx context.Context) error {
	if err := h.readState(ctx); err != nil {
		return err
	}

	info, change, err := h.read.Inspect(ctx, h.log)
	if err != nil || change == store.Same {
		return err
	}

	if change == store.Another {
		h.read = store.Cursor{}
		h.entries = nil
		h.ranges = map[string]int64{}
	}

	for line, err := range store.Lines(h.log, h.read.At, info.Size) {
		if err != nil {
			return err
		}
		if e, ok := parseEntry(line.Bytes); ok && e.Cursor > 0 {
			h.insert(e)
		} else if len(bytes.TrimSpace(line.Bytes)) > 0 {
			h.o.Log.WarnContext(ctx, "passed over an unreadable history line", "file", h.o.Store.Where(fileHistory), "offset", line.Offset)
		}
	}

	return h.read.Reached(h.log, info)
}

// rewrite replaces the log. Lines that could not be read are kept aside. change is
// what becomes of the entries in the copy, also of those of other programs.
func (h *History) rewrite(ctx context.Context, entries []Entry, change func(Entry) (e Entry, keep bool)) error {
	info, err := h.log.Info(ctx)
	if err != nil {
		return err
	}

	old := make([]byte, info.Size)
	if _, err := h.log.ReadAt(old, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	var bad []byte
	for line := range bytes.Lines(old) {
		if e, ok := parseEntry(line); (!ok || e.Cursor <= 0) && len(bytes.TrimSpace(line)) > 0 {
			bad = append(append(bad, bytes.TrimRight(line, "\n")...), '\n')
		}
	}

	if len(bad) > 0 {
		if err := store.AppendLines(ctx, h.o.Store, fileRejected, bad); err != nil {
			return fmt.Errorf("keep unreadable lines aside: %w", err)
		}
	}

	// The copy goes first: entries that only it has would look like another program's.
	if err := h.copies.edit(change); err != nil {
		h.o.Log.WarnContext(ctx, "cannot change the copy of the history in the workspace", "err", err)
	}

	high := h.high() // the hint must not go back with what is dropped
	if err := h.log.Replace(ctx, info.Size, render(entries)); err != nil {
		return err
	}

	h.st.Cursor = high
	h.read = store.Cursor{}
	h.entries, h.ranges = nil, map[string]int64{}
	for _, e := range entries {
		h.insert(e)
	}
	return nil
}

func render(entries []Entry) []byte {
	var b []byte
	for _, e := range entries {
		b = append(append(b, e.line()...), '\n')
	}
	return b
}

// readState reads the state file when it changed. One that cannot be read is
// put aside; its copy stands in for what it held.
func (h *History) readState(ctx context.Context) error {
	now, err := h.o.Store.Stat(ctx, fileState)
	if err != nil {
		return err
	}

	if !now.Exists() {
		if h.stSeen.Exists() || !h.opened {
			h.stSeen = store.Info{}
			h.st = h.stateWithoutFile(ctx)
		}
		return nil
	}

	if h.stSeen == now {
		return nil
	}

	data, _, err := h.o.Store.Doc(ctx, fileState)
	if err != nil {
		return err
	}

	var st state
	if err := json.Unmarshal(data, &st); err != nil || st.Check != st.check() {
		h.o.Log.WarnContext(ctx, "the state of memory cannot be read, using what is left", "file", h.o.Store.Where(fileState), "err", err)
		if _, err := h.o.Store.Put(ctx, fileState+".bad", data, store.Any, true); err != nil {
			return err
		}
		st = h.stateWithoutFile(ctx)
	}

	h.st, h.stSeen = st, now
	return nil
}

// stateWithoutFile returns the best guess about a lost state: what is known in
// memory, else the copy beside it. What the workspace says counts only for a
// history that begins with it.
func (h *History) stateWithoutFile(ctx context.Context) state {
	st := h.st
	var kept state
	if data, _, err := h.o.Store.Doc(ctx, fileStateCopy); err == nil && json.Unmarshal(data, &kept) == nil && kept.Check == kept.check() {
		st.Cursor, st.DreamCursor = max(st.Cursor, kept.Cursor), max(st.DreamCursor, kept.DreamCursor)
	}

	if !h.o.Import {
		return st
	}

	if cursor, ok := h.copies.cursor(fileCursor); ok {
		st.Cursor = max(st.Cursor, cursor)
	}
	if dream, ok := h.copies.cursor(fileDreamCursor); ok {
		st.DreamCursor = max(st.DreamCursor, dream)
	}
	return st
}

func (h *History) saveState(ctx context.Context) error {
	h.st.Check = h.st.check()
	data, err := json.Marshal(h.st)
	if err != nil {
		return err
	}

	data = append(data, '\n')
	if _, err := h.o.Store.Put(ctx, fileState, data, store.Any, true); err != nil {
		return fmt.Errorf("save the state of memory: %w", err)
	}
	if _, err := h.o.Store.Put(ctx, fileStateCopy, data, store.Any, true); err != nil {
		return fmt.Errorf("copy the state of memory: %w", err)
	}

	h.stSeen, err = h.o.Store.Stat(ctx, fileState)
	return err
}

// line is the entry as one JSON object; keys come in a fixed order, the first
// four are those of the Python generations.
func (e Entry) line() []byte {
	b := strconv.AppendInt([]byte(`{"cursor":`), e.Cursor, 10)
	str := func(key, v string, always bool) {
		if v != "" || always {
			b = append(b, `,"`+key+`":`...)
			b = text.AppendJSON(b, v)
		}
	}

	str("timestamp", e.Time, true)
	str("content", e.Content, true)
	str("session_key", e.Session, false)
	str("scope", e.Scope, false)
	str("sender", e.Sender, false)
	if e.Tainted {
		b = append(b, `,"tainted":true`...)
	}

	str("range", e.Range, false)
	for _, k := range slices.Sorted(maps.Keys(e.Extra)) {
		var flat bytes.Buffer
		if json.Compact(&flat, e.Extra[k]) == nil {
			b = append(b, ',')
			b = text.AppendJSON(b, k)
			b = append(append(b, ':'), flat.Bytes()...)
		}
	}

	return append(b, '}')
}

// parseEntry reads a line. Entries without a text or a time are none; a cursor
// that is not a whole positive number leaves Cursor 0.
func parseEntry(line []byte) (Entry, bool) {
	var top map[string]json.RawMessage
	if json.Unmarshal(line, &top) != nil {
		return Entry{}, false
	}

	var e Entry
	take := func(key string, into any) bool {
		v, ok := top[key]
		delete(top, key)
		return ok && string(v) != "null" && json.Unmarshal(v, into) == nil
	}

	cursor := top["cursor"]
	delete(top, "cursor")
	if take("content", &e.Content); e.Content == "" || !take("timestamp", &e.Time) {
		return Entry{}, false
	}

	take("session_key", &e.Session)
	take("scope", &e.Scope)
	take("sender", &e.Sender)
	take("tainted", &e.Tainted)
	take("range", &e.Range)
	if len(top) > 0 {
		e.Extra = top
	}

	e.Cursor = parseCursor(cursor)
	return e, true
}

// parseCursor accepts whole numbers, also in quotes; everything else is 0.
func parseCursor(raw json.RawMessage) int64 {
	s := string(raw)
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		s = quoted
	}

	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return usable(n)
}
