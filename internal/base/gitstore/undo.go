package gitstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Undone says what an undo did.
type Undone struct {
	Of       Commit   `json:"of"`                 // the commit it was about
	Commit   string   `json:"commit,omitempty"`   // made by the undo; empty if nothing had to change
	Snapshot string   `json:"snapshot,omitempty"` // of changes that had not been committed before
	Files    []string `json:"files"`
}

// ConflictError says that one commit cannot be undone by itself because the
// same lines changed again later. Nothing was changed.
type ConflictError struct{ Files []string }

func (e *ConflictError) Error() string {
	return "the same lines changed again later in " + strings.Join(e.Files, ", ")
}

// Restore brings the tracked files back to what they were before a commit, and
// so undoes it and everything since; files made since then go. Changes that
// were not committed are committed first, so nothing is lost. The first commit
// that is kept cannot be undone: the error is ErrFirst.
func (s *Store) Restore(ctx context.Context, prefix string) (Undone, error) {
	return s.undo(ctx, prefix, "revert: undo %s", func(before, _, _ filesOf) (filesOf, []string) { return before, nil })
}

// UndoOnly takes back what one commit changed and keeps what came later. If the
// same lines changed again the error is a *ConflictError.
func (s *Store) UndoOnly(ctx context.Context, prefix string) (Undone, error) {
	return s.undo(ctx, prefix, "revert: undo only %s", revert)
}

// undo commits the files that decide chooses from those before and after a
// commit and those of now.
func (s *Store) undo(ctx context.Context, prefix, subject string, decide func(before, after, now filesOf) (filesOf, []string)) (u Undone, err error) {
	err = s.write(ctx, func(r *repo, t *tip) error {
		c, err := r.find(ctx, t, prefix)
		if err != nil {
			return err
		}
		if len(c.parents) == 0 {
			return ErrFirst
		}

		u.Of = c
		saved, err := s.record(ctx, r, t, "snapshot: before the undo of "+Short(c.ID), "")
		if err != nil {
			return err
		}

		if saved {
			u.Snapshot = t.id.String()
		}

		before, after, err := s.around(r, c)
		if err != nil {
			return err
		}

		base, err := r.commit(t.id)
		if err != nil {
			return err
		}

		now, err := r.contents(base.tree, s.patterns())
		if err != nil {
			return err
		}

		want, conflicts := decide(before, after, now)
		if len(conflicts) > 0 {
			return &ConflictError{Files: conflicts}
		}

		u.Files = differing(now, want)
		if len(u.Files) == 0 {
			return nil
		}

		u.Commit, err = s.move(ctx, r, t, move{
			subject: fmt.Sprintf(subject, Short(c.ID)),
			body:    fmt.Sprintf("%s%s %s", undoes, c.ID, c.Subject),
			base:    base,
			now:     now,
			want:    want,
			from:    []filesOf{before, after, now},
		})
		return err
	})
	return u, noRepo(err)
}

// move is a change from the files of now to others.
type move struct {
	subject, body string
	base          Commit
	now, want     filesOf
	from          []filesOf // of which want was made
}

// undoes is before the id of the commit that a move undoes, in its body.
const undoes = "Undoes: "

// checkoutMark with a commit behind it means that its files are being written.
const checkoutMark = "checkout "

// move commits other files and then writes them. If the process dies in
// between, the next one finishes it.
func (s *Store) move(ctx context.Context, r *repo, t *tip, m move) (string, error) {
	old, err := r.tracked(m.base.tree, s.patterns())
	if err != nil {
		return "", err
	}

	changes, err := r.changes(old, m.want, nil)
	if err != nil {
		return "", err
	}

	tree, err := r.change(m.base.tree, changes)
	if err == nil && tree.zero() {
		tree, err = r.storeTree(nil)
	}

	if err != nil {
		return "", err
	}
	if err := s.advance(ctx, r, t, Commit{Subject: m.subject, Body: m.body, tree: tree, written: true}); err != nil {
		return "", err
	}
	return t.id.String(), s.apply(ctx, m.now, m.want, m.from)
}

// completeMove completes a move whose process died. Files that changed meanwhile stay.
func (s *Store) completeMove(ctx context.Context, r *repo, t *tip) error {
	c, err := r.commit(t.id)
	if err != nil {
		return err
	}

	before, after, err := s.around(r, c)
	if err != nil {
		return err
	}

	from := []filesOf{before}
	if id, ok := strings.CutPrefix(c.Body, undoes); ok {
		id, _, _ = strings.Cut(id, " ")
		if undone, err := r.find(ctx, t, id); err == nil {
			older, newer, err := s.around(r, undone)
			if err != nil {
				return err
			}
			from = append(from, older, newer)
		}
	}

	return s.apply(ctx, before, after, from)
}

// apply turns the files of now into those that are wanted. One that is not
// what it was taken for is left alone. from are the states of which those that
// are wanted were made.
func (s *Store) apply(ctx context.Context, now, want filesOf, from []filesOf) error {
	w, err := s.openWork()
	if err != nil {
		return err
	}

	defer w.close()
	for _, name := range differing(now, want) {
		if err := ctx.Err(); err != nil {
			return err
		}

		is, there, err := w.read(name)
		was, had := now[name]
		if err != nil || there != had || !bytes.Equal(is, was) {
			s.o.Log.WarnContext(ctx, "a file changed during an undo and stays", "file", name)
			continue
		}
		if err := w.setFile(name, want, from); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := s.broken("file"); err != nil {
			return err
		}
	}

	return nil
}

// setFile makes a file what it is in a state, which was made of others.
func (w *work) setFile(name string, state filesOf, from []filesOf) error {
	data, wanted := state[name]
	if !wanted {
		return w.remove(name)
	}

	var parts [][]byte
	for _, f := range from {
		part, there := f[name]
		if there && bytes.Equal(part, data) {
			return w.write(name, data) // as it was, and not put together
		}
		parts = append(parts, part)
	}

	return w.write(name, data, parts...)
}

// differing names the files two states do not agree about.
func differing(a, b filesOf) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		x, was := a[name]
		y, is := b[name]
		return was == is && bytes.Equal(x, y)
	})
}

// revert undoes the step from before to after in the files of now.
func revert(before, after, now filesOf) (want filesOf, conflicts []string) {
	want = maps.Clone(now)
	for _, name := range differing(before, after) {
		old, was := before[name]
		changed, is := after[name]
		current, there := now[name]
		if !is && there || is && !there && was {
			conflicts = append(conflicts, name) // made again, or gone since
			continue
		}

		switch {
		case there == is && bytes.Equal(current, changed):
			if !was {
				delete(want, name)
			} else {
				want[name] = old
			}

		case !there: // it was new then and is gone already
		case !isText(old) || !isText(changed) || !isText(current):
			conflicts = append(conflicts, name)
		default:
			merged, ok := merge(changed, current, old)
			if !ok {
				conflicts = append(conflicts, name)
				continue
			}
			want[name] = merged
		}
	}

	return want, conflicts
}

// merge applies to ours what leads from base to theirs. Changes may touch but
// not overlap; the same change on both sides counts once.
func merge(base, ours, theirs []byte) ([]byte, bool) {
	b, o, t := bareLines(base), bareLines(ours), bareLines(theirs)
	mine, other := text.DiffLines(b, o), text.DiffLines(b, t)
	var out []string
	at, i, j := 0, 0, 0
	take := func(s text.Span, lines []string) {
		out = append(append(out, b[at:s.A0]...), lines[s.B0:s.B1]...)
		at = s.A1
	}
	for i < len(mine) || j < len(other) {
		switch {
		case j == len(other) || i < len(mine) && before(mine[i], other[j]):
			take(mine[i], o)
			i++
		case i == len(mine) || before(other[j], mine[i]):
			take(other[j], t)
			j++
		case mine[i].A0 == other[j].A0 && mine[i].A1 == other[j].A1 && slices.Equal(o[mine[i].B0:mine[i].B1], t[other[j].B0:other[j].B1]):
			take(mine[i], o)
			i, j = i+1, j+1
		default:
			return nil, false
		}
	}

	out = append(out, b[at:]...)
	if len(out) == 0 {
		return []byte{}, true
	}

	joined := strings.Join(out, "\n")
	if len(ours) == 0 || bytes.HasSuffix(ours, []byte("\n")) {
		joined += "\n"
	}
	return []byte(joined), true
}

// before reports whether a change ends where another one begins or earlier.
// Two insertions at one place have no order.
func before(s, o text.Span) bool {
	return s.A1 <= o.A0 && (s.A0 != o.A0 || s.A1 != o.A1)
}

// bareLines returns the lines of a text without their newlines.
func bareLines(data []byte) []string {
	out := text.SplitLines(string(data))
	for i, l := range out {
		out[i] = strings.TrimSuffix(l, "\n")
	}
	return out
}
