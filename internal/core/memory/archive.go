package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

const (
	dirKept    = "kept"
	suffixKept = ".json"
)

// kept is the end of a conversation that was started again before memory had
// taken it in. It waits in a file of its own, so that neither a crash nor a
// provider that fails loses it.
type kept struct {
	Key      string           `json:"session_key"`
	Born     int64            `json:"born"` // unix ms
	From     int              `json:"from"` // records before it were taken in
	Attempts int              `json:"attempts,omitempty"`
	Next     int64            `json:"next,omitempty"`  // unix ms
	Clean    bool             `json:"clean,omitempty"` // the summary before From holds no words from outside
	Records  []session.Record `json:"records"`
}

// Keep puts aside what a session holds that was not taken in yet, before the
// session is cleared. It returns the name to give to Archive, "" when there is
// nothing worth it. It is quick and calls no model.
func (c *Consolidator) Keep(s *session.Session) (name string, err error) {
	v := viewOf(s)
	p := v.passage(len(v.live))
	if len(p.parts()) == 0 {
		return "", nil
	}

	k := kept{Key: v.key, Born: v.born.UnixMilli(), From: v.from, Clean: !v.dirty, Records: v.live}
	if err := c.saveKept(p.rng, k); err != nil {
		return "", fmt.Errorf("keep the end of %q: %w", v.key, err)
	}
	return p.rng, nil
}

// Kept lists the names that Keep gave and Archive has not finished.
func (c *Consolidator) Kept() ([]string, error) {
	var names []string
	for f, err := range c.state().Docs(context.Background(), dirKept) {
		if err != nil {
			return names, err
		}
		names = append(names, strings.TrimSuffix(path.Base(f.Name), suffixKept))
	}
	return names, nil
}

// Archive turns what Keep put aside into history entries. again is when it
// should be tried again; zero when it is done.
func (c *Consolidator) Archive(ctx context.Context, name string, e Engine) (again time.Time, err error) {
	if e.Scale <= 0 {
		e.Scale = 1
	}

	release, err := c.state().Lock(ctx, "kept-"+name)
	if err != nil {
		if _, busy := errors.AsType[*store.LockedError](err); busy {
			return time.Time{}, nil // another process is at it
		}
		return time.Time{}, err
	}

	defer release() //nolint:errcheck // the end of the process gives it up, too
	k, err := c.loadKept(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("archive %s: %w", name, err)
	}
	if next := time.UnixMilli(k.Next); k.Next > c.o.Now().UnixMilli() {
		return next, nil
	}

	for k.From < len(k.Records) {
		failed, err := c.archivePassage(ctx, &k, e)
		if err != nil {
			return time.Time{}, fmt.Errorf("archive %s: %w", name, err)
		}
		if err := c.saveKept(name, k); err != nil {
			return time.Time{}, err
		}
		if failed {
			return time.UnixMilli(k.Next), nil
		}
	}

	return time.Time{}, c.state().Remove(ctx, keptName(name))
}

// archivePassage takes in the next passage, or notes that it could not.
func (c *Consolidator) archivePassage(ctx context.Context, k *kept, e Engine) (failed bool, err error) {
	v := view{key: k.Key, born: time.UnixMilli(k.Born), live: k.Records, from: k.From, dirty: !k.Clean}
	to, begun, err := v.begun(ctx, c.o.History)
	if err != nil {
		return false, err
	}

	if !begun {
		to = v.wholeEnd(e, true)
	}

	w := work{passage: v.passage(to), whole: true}
	entries, err := c.summarise(ctx, w, e)
	if err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}

		k.Attempts++
		k.Next = c.o.Now().Add(backoff(k.Attempts)).UnixMilli()
		c.o.Log.WarnContext(ctx, "summary failed", "session", k.Key, "attempt", k.Attempts, "err", err)
		if k.Attempts < maxAttempts {
			return true, nil
		}
		if entries, err = c.raw(ctx, w.passage); err != nil {
			return false, err
		}
	}

	for _, entry := range entries {
		if _, err := c.o.History.Append(ctx, entry); err != nil {
			return false, err
		}
	}

	k.From = to
	k.Attempts = 0
	k.Next = 0
	return false, nil
}

func (c *Consolidator) state() store.Store { return c.o.History.o.Store }

func keptName(name string) string { return dirKept + "/" + path.Base(name) + suffixKept }

func (c *Consolidator) saveKept(name string, k kept) error {
	data, err := json.Marshal(k) //nolint:gosec // the key names a conversation and opens nothing
	if err != nil {
		return err
	}
	_, err = c.state().Put(context.Background(), keptName(name), data, store.Any, true)
	return err
}

func (c *Consolidator) loadKept(ctx context.Context, name string) (kept, error) {
	var k kept
	data, version, err := c.state().Doc(ctx, keptName(name))
	if err != nil {
		return k, err
	}
	if version == store.Missing {
		return k, fs.ErrNotExist
	}
	if err := json.Unmarshal(data, &k); err != nil {
		// Nothing can be made of it; out of the way it goes.
		return k, errors.Join(err, setAside(ctx, c.state(), keptName(name), data))
	}

	k.From = min(max(k.From, 0), len(k.Records))
	return k, nil
}
