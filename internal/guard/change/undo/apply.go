package undo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Report says what Undo did.
type Report struct {
	Turn string `json:"turn"`
	// Undo is the id under which this undo can itself be undone; empty when
	// nothing had to be done.
	Undo     string   `json:"undo,omitempty"`
	Restored []string `json:"restored,omitempty"` // brought back to what they held before
	Deleted  []string `json:"deleted,omitempty"`  // made by the turn
	Skipped  []Skip   `json:"skipped,omitempty"`
	Gaps     []string `json:"gaps,omitempty"` // see Turn
	Outside  []string `json:"outside,omitempty"`
	// Interrupted is that of Turn.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Skip is a path that Undo left alone.
type Skip struct {
	Path string `json:"path"`
	Why  string `json:"why"`
	// Conflict means that it changed after the turn, so that force would help.
	Conflict bool `json:"conflict,omitempty"`
}

// item is a path to be brought back.
type item struct {
	path string
	want state
	from kept  // where the content of want comes from
	now  state // as it was found and kept
	held kept  // where the content of now comes from
}

// Choice says how a turn is undone.
type Choice struct {
	Force bool   // also replace what changed after the turn
	ID    string // of the undo; "" makes one
}

// Undo brings the files of a turn back to what they were before it. A path that
// changed again since then is left alone unless forced. What is there now
// is kept first, so an undo can be undone and nothing is ever lost; what cannot
// be kept is not replaced. A content from outside comes back as one from outside.
func (s *Store) Undo(ctx context.Context, turn string, how Choice) (Report, error) {
	leave, err := s.enter(ctx, false)
	if err != nil {
		return Report{}, fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	t, err := s.log.model.find(turn)
	if err != nil {
		return Report{}, err
	}
	if s.log.model.isRunning(t) {
		return Report{}, ErrRunning
	}

	r := Report{Turn: t.id, Gaps: slices.Clone(t.gaps), Outside: s.named(t.skipped), Interrupted: t.late}
	b := s.log.batch(ctx)
	items, err := s.plan(t, how.Force, b, &r)
	if err != nil || len(items) == 0 {
		return r, b.abandon(err)
	}

	r.Undo = cmp.Or(how.ID, NewID())
	b.head(record{Op: opTurn, Turn: r.Undo, Session: t.session, At: s.Now().UnixMilli(), Undoes: t.id})
	kept := make([]change, len(items))
	for i, it := range items {
		kept[i] = change{Path: it.path, Before: &it.now, Kept: &it.held}
	}

	s.ask(kept)
	b.changes(r.Undo, kept)
	if err := b.commit(true); err != nil {
		return Report{}, fmt.Errorf("keep the files as they are: %w", err)
	}
	if err := s.restore(ctx, items, &r); err != nil {
		return r, err
	}
	return r, s.record(ctx, r.Undo, items)
}

// Preview says what Undo would do now, and changes nothing.
func (s *Store) Preview(ctx context.Context, turn string, force bool) (Report, error) {
	leave, err := s.enter(ctx, false)
	if err != nil {
		return Report{}, fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	t, err := s.log.model.find(turn)
	if err != nil {
		return Report{}, err
	}

	r := Report{Turn: t.id, Gaps: slices.Clone(t.gaps), Outside: s.named(t.skipped), Interrupted: t.late}
	b := s.log.batch(ctx)
	items, err := s.plan(t, force, b, &r)
	for _, it := range items {
		if it.want.Kind == kindGone {
			r.Deleted = append(r.Deleted, s.shown(it.path))
		} else {
			r.Restored = append(r.Restored, s.shown(it.path))
		}
	}

	slices.Sort(r.Restored)
	slices.Sort(r.Deleted)
	return r, b.abandon(err)
}

// plan decides what has to be done and keeps what is there now in b.
func (s *Store) plan(t *turnState, force bool, b *batch, r *Report) ([]item, error) {
	var items []item
	skip := func(path, why string, conflict bool) {
		r.Skipped = append(r.Skipped, Skip{Path: s.shown(path), Why: why, Conflict: conflict})
	}
	for _, p := range t.changed() {
		f := t.files[p]
		if t.isDamaged() {
			skip(p, "the record of this turn is damaged", false)
			continue
		}
		if err := s.area.allowed(p); err != nil {
			skip(p, err.Error(), false)
			continue
		}

		now, changed, err := s.area.observe(p, b)
		if err != nil {
			skip(p, reason(err), false)
			continue
		}

		changedSince := f.mixed || f.after != nil && *f.after != now
		switch {
		case now == f.before:
		case !f.before.kept():
			skip(p, "it could not be kept before the turn ("+unkept(f.before)+")", false)
		case !now.kept():
			skip(p, "what is there now could not be kept ("+unkept(now)+")", false)
		case changedSince && !force:
			skip(p, "it changed again after the turn", true)
		default:
			items = append(items, item{path: p, want: f.before, from: f.kept, now: now, held: kept{At: changed}})
		}
	}

	return s.withParents(items), b.err
}

// withParents adds the folders that are missing for files to come back.
func (s *Store) withParents(items []item) []item {
	have := map[string]bool{}
	for _, it := range items {
		have[it.path] = true
	}

	for _, it := range slices.Clone(items) {
		if it.want.Kind == kindGone {
			continue
		}
		for _, dir := range s.area.missingParents(it.path) {
			if !have[dir] {
				have[dir] = true
				items = append(items, item{path: dir, want: state{Kind: kindDir, Mode: 0o755}, now: state{Kind: kindGone}})
			}
		}
	}

	return items
}

// restore does the work in an order in which no step stands in the way of
// another: files that were made go first, then folders from the inside out,
// then folders come back from the outside in, then files, then permissions.
func (s *Store) restore(ctx context.Context, items []item, r *Report) error {
	deep := func(it item) int { return strings.Count(it.path, "/") }
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(deep(b), deep(a)) })
	outward := slices.Clone(items)
	slices.Reverse(outward)

	for _, step := range []struct {
		list []item
		pick func(it item) bool
	}{
		{items, func(it item) bool { return it.want.Kind == kindGone && it.now.Kind != kindDir }},
		{items, func(it item) bool { return it.want.Kind == kindGone && it.now.Kind == kindDir }},
		{outward, func(it item) bool { return it.want.Kind == kindDir }},
		{outward, func(it item) bool { return it.want.Kind == kindFile || it.want.Kind == kindLink }},
	} {
		for _, it := range step.list {
			if !step.pick(it) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			s.restoreOne(it, r)
		}
	}

	for _, it := range items {
		if it.want.Kind == kindDir {
			s.permit(it, r)
		}
	}

	slices.Sort(r.Restored)
	slices.Sort(r.Deleted)
	return nil
}

func (s *Store) restoreOne(it item, r *Report) {
	err := s.bringBack(it)
	switch {
	case err == nil && it.want.Kind == kindGone:
		r.Deleted = append(r.Deleted, s.shown(it.path))
	case err == nil:
		r.Restored = append(r.Restored, s.shown(it.path))
	default:
		r.Skipped = append(r.Skipped, Skip{Path: s.shown(it.path), Why: reason(err)})
	}
}

func (s *Store) bringBack(it item) error {
	var data []byte
	if it.want.Kind == kindFile {
		var err error
		if data, err = s.log.content(it.want.Hash); err != nil {
			return err
		}
	}

	sp, err := s.area.spot(it.path)
	if err != nil {
		return err
	}

	defer sp.close()
	now, _, info, err := s.area.inspect(sp)
	if err != nil {
		return err
	}
	if now != it.now {
		return diskio.ErrChanged
	}
	return s.restoreContent(it, func() error { return setState(sp, it.want, data, info) })
}

func (s *Store) permit(it item, r *Report) {
	sp, err := s.area.spot(it.path)
	if err == nil {
		err = chmodDir(sp, it.want.Mode)
		sp.close()
	}
	if err != nil && !slices.ContainsFunc(r.Skipped, func(k Skip) bool { return k.Path == s.shown(it.path) }) {
		r.Skipped = append(r.Skipped, Skip{Path: s.shown(it.path), Why: reason(err)})
	}
}

// record logs what an undo left behind.
func (s *Store) record(ctx context.Context, id string, items []item) error {
	b := s.log.batch(context.WithoutCancel(ctx))
	list := make([]change, 0, len(items))
	for _, it := range items {
		st, _, err := s.area.observe(it.path, b)
		if err != nil {
			return b.abandon(err)
		}
		list = append(list, change{Path: it.path, After: &st})
	}

	b.changes(id, list)
	return b.commit(false)
}

func unkept(s state) string {
	switch s.Kind {
	case kindHeavy:
		return fmt.Sprintf("%d MiB are too much", s.Size>>20)
	case kindShut:
		return "it cannot be read"
	}
	return "it is not a regular file"
}

// reason returns an error in a few words for a report.
func reason(err error) string {
	switch {
	case errors.Is(err, errOrigin):
		return errOrigin.Error()
	case errors.Is(err, diskio.ErrChanged):
		return "it changed just now"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, fs.ErrNotExist):
		return "its folder is gone"
	case errors.Is(err, fs.ErrExist), strings.Contains(err.Error(), "not empty"):
		return "the folder holds other files"
	}

	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// NewID makes the id of an undo.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "u" + hex.EncodeToString(b[:])[1:]
}
