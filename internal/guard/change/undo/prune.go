package undo

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// slack is how many turns too many are tolerated before the log is rewritten.
const slack = 10

// Forget gives up everything that is kept. A store whose calls or commands have
// not ended, in any process, is left as it is.
func (s *Store) Forget(ctx context.Context) error {
	leave, err := s.hold(ctx, false)
	if err != nil {
		return fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	if len(s.calls) > 0 {
		return ErrRunning
	}

	for key := range s.log.model.open {
		lock, err := diskio.TryLock(s.runLock(key)) // held as long as the command runs
		if err != nil {
			return err
		}
		if err := lock.Unlock(); err != nil {
			return err
		}
	}

	if s.log.f == nil {
		return nil
	}
	if err := s.log.close(); err != nil { // Windows removes no open file
		return err
	}
	return os.Remove(s.log.path())
}

// overfull reports whether it is time to prune.
func (s *Store) overfull() bool {
	if s.log.size > s.MaxBytes || len(s.log.model.turns) > 4*(s.Keep+slack) {
		return true
	}

	n, oldest := 0, s.Now()
	for _, t := range s.log.model.turns {
		if len(t.files) > 0 {
			n++
		}
		if t.at.Before(oldest) {
			oldest = t.at
		}
	}

	return n > s.Keep+slack || s.Now().Sub(oldest) > s.MaxAge+s.MaxAge/8
}

// shorten forgets turns that are too old or too many, and rewrites the log
// without them.
func (s *Store) shorten(ctx context.Context) error {
	keep := s.keepers()
	target := s.MaxBytes / 5 * 4
	for len(keep) > 0 && s.log.model.liveBytes(keep) > target {
		keep = keep[1:]
	}
	if err := s.log.rewrite(ctx, keep); err != nil {
		return fmt.Errorf("shorten the undo log: %w", err)
	}
	return nil
}

// keepers returns the turns worth keeping by age and number, oldest first. A turn
// at work is always among them.
func (s *Store) keepers() []*turnState {
	busy := map[string]bool{}
	for _, o := range s.log.model.open {
		busy[o.turn] = true
	}

	for _, r := range s.calls {
		busy[r.turn] = true
	}

	var keep []*turnState
	n := 0
	for _, t := range slices.Backward(s.log.model.ordered()) {
		worth := len(t.changed()) > 0 || len(t.gaps) > 0
		if worth && n < s.Keep && s.Now().Sub(t.at) <= s.MaxAge || busy[t.id] {
			keep = append(keep, t)
			n++
		}
	}

	slices.Reverse(keep)
	return keep
}

// live is every content that turns, the watched workspace or a running command need.
func (m *model) live(keep []*turnState) map[string]bool {
	need := map[string]bool{}
	add := func(st state) {
		if st.Kind == kindFile {
			need[st.Hash] = true
		}
	}
	for _, t := range keep {
		for _, f := range t.files {
			add(f.before)
			if f.after != nil {
				add(*f.after)
			}
		}
	}

	for _, e := range m.tree {
		add(e.state)
	}

	for _, o := range m.open {
		for _, e := range o.was {
			add(e.state)
		}
	}
	return need
}

func (m *model) liveBytes(keep []*turnState) (n int64) {
	for hash := range m.live(keep) {
		n += m.blobs[hash].size
	}
	return n
}

// rewrite makes a new log of the turns to keep and puts it in place of the old.
func (l *logFile) rewrite(ctx context.Context, keep []*turnState) (err error) {
	temp := filepath.Join(l.dir, "log.tmp")
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}

	c := &copier{w: bufio.NewWriterSize(f, 256<<10)}
	for hash := range l.model.live(keep) {
		if err = ctx.Err(); err != nil {
			break
		}
		if at, ok := l.model.blobs[hash]; ok {
			data := make([]byte, at.size)
			if _, err = l.f.ReadAt(data, at.off); err != nil {
				break
			}
			if hashOf(data) != hash {
				continue // damaged on the disk; the next turn that finds this content keeps it again
			}
			c.add(record{Op: opBlob, Hash: hash}, data)
		}
	}

	for _, t := range keep {
		c.turn(t)
	}

	l.model.copyHistory(c, keep)
	err = cmp.Or(err, c.err, c.w.Flush())
	if err == nil {
		err = f.Sync()
	}

	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := l.close(); err != nil { // Windows replaces no open file
		return err
	}
	if err := diskio.Replace(temp, l.path()); err != nil {
		return err
	}
	return l.refresh(ctx)
}

// copyHistory writes what turns changed and how the watched workspace was when
// each command that still runs began, in the order it happened.
func (m *model) copyHistory(c *copier, keep []*turnState) {
	open := slices.SortedFunc(maps.Keys(m.open), func(a, b string) int {
		return cmp.Compare(m.open[a].seq, m.open[b].seq)
	})
	last, since := map[string]entry{}, 0
	step := func(tree map[string]entry, until int) {
		for _, t := range keep {
			c.changes(t, since, until)
		}
		if d := (&walker{tree: tree}).delta(last); len(d) > 0 {
			c.addJSON(record{Op: opTree}, d)
		}
		last, since = tree, until
	}
	for _, key := range open {
		o := m.open[key]
		tree := maps.Clone(m.tree)
		for p, e := range o.was {
			if e.Kind == kindGone {
				delete(tree, p)
			} else {
				tree[p] = e
			}
		}

		step(tree, o.seq)
		c.add(record{Op: opCommand, Turn: o.turn, Call: key, At: o.at.UnixMilli()}, nil)
	}

	step(m.tree, math.MaxInt)
}

// copier writes a log from memory.
type copier struct {
	w   *bufio.Writer
	at  int64 // where the next byte goes
	err error
}

func (c *copier) add(rec record, body []byte) {
	rec.Pos = c.at
	_, n, err := rec.write(c.w, body)
	c.at += n
	c.err = cmp.Or(c.err, err)
}

func (c *copier) addJSON(rec record, v any) {
	body, err := json.Marshal(v)
	c.err = cmp.Or(c.err, err)
	c.add(rec, body)
}

func (c *copier) turn(t *turnState) {
	c.add(record{Op: opTurn, Turn: t.id, Session: t.session, At: t.at.UnixMilli(), Undoes: t.undoes, Late: t.late, Skipped: t.skipped}, nil)
	for _, why := range t.gaps {
		c.add(record{Op: opGap, Turn: t.id, Why: why}, nil)
	}
}

// changes writes what a turn changed last between two moments of the log.
func (c *copier) changes(t *turnState, since, until int) {
	var list []change
	for p, f := range t.files {
		if f.seq > since && f.seq <= until {
			list = append(list, change{Path: p, Before: &f.before, After: f.after, Mixed: f.mixed, Kept: &f.kept})
		}
	}

	if len(list) > 0 {
		slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.Path, b.Path) })
		c.addJSON(record{Op: opChanges, Turn: t.id}, list)
	}
}
