package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
)

// Turns lists the turns of a session that changed files or are not covered,
// newest first. An empty session means all.
func (r *Record) Turns(ctx context.Context, session string) ([]undo.Turn, error) {
	folders := r.all(ctx)
	defer r.release(folders...)

	var all []undo.Turn
	for _, f := range folders {
		list, err := f.Turns(ctx, session)
		if err != nil {
			return nil, err
		}

		for _, t := range list {
			if i := slices.IndexFunc(all, func(o undo.Turn) bool { return o.ID == t.ID }); i >= 0 {
				all[i] = merged(all[i], t)
			} else {
				all = append(all, t)
			}
		}
	}

	if len(folders) > 1 { // else they are in the order in which they happened
		slices.SortStableFunc(all, func(a, b undo.Turn) int { return b.At.Compare(a.At) })
	}
	return all, nil
}

// merged returns a turn that changed several folders.
func merged(a, b undo.Turn) undo.Turn {
	if b.At.Before(a.At) {
		a.At = b.At
	}

	switch { // a part that still has its changes can be undone
	case len(a.Changes) == 0:
		a.UndoneBy = b.UndoneBy
	case len(b.Changes) > 0 && b.UndoneBy == "":
		a.UndoneBy = ""
	}

	a.Undoes = max(a.Undoes, b.Undoes)
	a.Changes = append(a.Changes, b.Changes...)
	a.Gaps = union(a.Gaps, b.Gaps)
	a.Skipped = union(a.Skipped, b.Skipped)
	a.Interrupted = a.Interrupted || b.Interrupted
	a.Running = a.Running || b.Running
	return a
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// Last returns the newest turn of a session that changed files and is not undone;
// undos do not count. An empty session means all.
func (r *Record) Last(ctx context.Context, session string) (undo.Turn, error) {
	turns, err := r.Turns(ctx, session)
	if err != nil {
		return undo.Turn{}, err
	}
	return undo.LastOf(turns)
}

// Find returns the turn with an id, or with an id that begins like this.
func (r *Record) Find(ctx context.Context, id string) (undo.Turn, error) {
	folders := r.all(ctx)
	defer r.release(folders...)
	t, _, err := r.find(ctx, folders, id)
	return t, err
}

// find returns a turn and the folders that know it.
func (r *Record) find(ctx context.Context, folders []*folder, id string) (undo.Turn, []*folder, error) {
	var found []undo.Turn
	var where [][]*folder
	for _, f := range folders {
		t, err := f.Find(ctx, id)
		switch {
		case errors.Is(err, undo.ErrNoTurn):
			continue
		case err != nil:
			return undo.Turn{}, nil, err
		}

		if i := slices.IndexFunc(found, func(o undo.Turn) bool { return o.ID == t.ID }); i >= 0 {
			found[i], where[i] = merged(found[i], t), append(where[i], f)
		} else {
			found, where = append(found, t), append(where, []*folder{f})
		}
	}

	exact := slices.IndexFunc(found, func(t undo.Turn) bool { return t.ID == id })
	switch {
	case exact >= 0:
		return found[exact], where[exact], nil
	case len(found) == 1:
		return found[0], where[0], nil
	case len(found) > 1:
		return undo.Turn{}, nil, fmt.Errorf("%q: %w", id, undo.ErrAmbiguous)
	}

	return undo.Turn{}, nil, fmt.Errorf("%q: %w", id, undo.ErrNoTurn)
}

// Diff shows what a turn changed as a unified diff.
func (r *Record) Diff(ctx context.Context, turn string) (string, error) {
	folders := r.all(ctx)
	defer r.release(folders...)
	t, where, err := r.find(ctx, folders, turn)
	if err != nil {
		return "", err
	}

	var out strings.Builder
	for _, f := range where {
		diff, err := f.Diff(ctx, t.ID)
		if err != nil {
			return "", err
		}
		out.WriteString(diff)
	}

	return out.String(), nil
}

// Preview says what Undo would do now, and changes nothing.
func (r *Record) Preview(ctx context.Context, turn string, force bool) (undo.Report, error) {
	return r.each(ctx, turn, func(f *folder, id string) (undo.Report, error) { return f.Preview(ctx, id, force) })
}

// Undo brings the files of a turn back to what they were before it; see
// undo.Store.Undo. In each folder it is done wholly or not at all.
func (r *Record) Undo(ctx context.Context, turn string, how undo.Choice) (undo.Report, error) {
	if how.ID == "" {
		how.ID = undo.NewID()
	}
	return r.each(ctx, turn, func(f *folder, id string) (undo.Report, error) { return f.Undo(ctx, id, how) })
}

// each does something about a turn in each folder that knows it.
func (r *Record) each(ctx context.Context, turn string, do func(f *folder, id string) (undo.Report, error)) (undo.Report, error) {
	folders := r.all(ctx)
	defer r.release(folders...)
	t, where, err := r.find(ctx, folders, turn)
	if err != nil {
		return undo.Report{}, err
	}
	if t.Running {
		return undo.Report{}, undo.ErrRunning
	}

	all := undo.Report{Turn: t.ID}
	for _, f := range where {
		one, ferr := do(f, t.ID)
		all.Undo = max(all.Undo, one.Undo)
		all.Restored = append(all.Restored, one.Restored...)
		all.Deleted = append(all.Deleted, one.Deleted...)
		all.Skipped = append(all.Skipped, one.Skipped...)
		all.Gaps = union(all.Gaps, one.Gaps)
		all.Outside = union(all.Outside, one.Outside)
		all.Interrupted = all.Interrupted || one.Interrupted
		err = errors.Join(err, ferr)
	}

	return all, err
}
