package undo

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// kind says what a name stands for.
type kind string

const (
	kindGone  kind = "gone"  // nothing
	kindFile  kind = "file"  // a regular file whose content is kept
	kindDir   kind = "dir"   // a folder
	kindLink  kind = "link"  // a symbolic link, never followed
	kindHeavy kind = "heavy" // a file too large to be kept
	kindShut  kind = "shut"  // a file that cannot be read
	kindOther kind = "other" // a pipe, socket or device
)

// state describes what a name stood for at some moment. Two states are the
// same if they are equal.
type state struct {
	Kind kind        `json:"k"`
	Mode fs.FileMode `json:"m,omitempty"` // permission bits
	Size int64       `json:"s,omitempty"`
	Hash string      `json:"h,omitempty"` // SHA-256 of a file, the time stamp of a heavy one
	Link string      `json:"l,omitempty"` // where a link points
}

// kept reports whether a name can be brought back to this state.
func (s state) kept() bool {
	return s.Kind == kindGone || s.Kind == kindFile || s.Kind == kindDir || s.Kind == kindLink
}

// entry is a name in the watched workspace: its state and what tells, without
// reading it, that it is unchanged.
type entry struct {
	state
	Mtime int64  `json:"t,omitempty"` // nanoseconds; 0 means that the file must be read again
	Ctime int64  `json:"c,omitempty"`
	Inode uint64 `json:"i,omitempty"`
	// Says holds the answer of the record of outside files when the workspace was
	// looked at.
	Says origin.Says `json:"o,omitempty"`
	// At is when the file had changed last, where the system does not tell Ctime.
	At int64 `json:"ot,omitempty"`
}

// kept returns where the content of an entry comes from.
func (e entry) kept() *kept { return &kept{Says: e.Says, At: cmp.Or(e.Ctime, e.At)} }

// delta is a name whose entry is new. Of a name that vanished only Path is set.
type delta struct {
	Path  string `json:"p"`
	Entry *entry `json:"e,omitempty"`
}

// change holds what a call found at a path, or left there.
type change struct {
	Path   string `json:"p"`
	Before *state `json:"b,omitempty"`
	After  *state `json:"a,omitempty"`
	Mixed  bool   `json:"x,omitempty"` // something else changed it too during the turn
	// Kept is where the content of Before comes from; nil in logs of earlier versions.
	Kept *kept `json:"o,omitempty"`
}

// kept is where a content comes from, as far as it was known when it was kept.
type kept struct {
	Says origin.Says `json:"s,omitempty"`
	At   int64       `json:"t,omitempty"` // when the file had changed last, in nanoseconds
}

// model holds what the log says.
type model struct {
	blobs map[string]span
	tree  map[string]entry
	turns map[string]*turnState
	open  map[string]*openCommand
	seq   int
	last  string // turn of the last entry
	hurt  *hurt  // nil: no entry was damaged
}

// turnState holds what is known of a turn.
type turnState struct {
	id, session string
	at          time.Time
	undoes      string
	undoneBy    string
	files       map[string]*fileState
	gaps        []string
	skipped     []string
	late        bool
	seq         int
}

// fileState is a path as a turn found it first and left it last.
type fileState struct {
	before state
	kept   kept   // where before comes from
	after  *state // nil while a call is at it, or because it never ended
	mixed  bool
	seq    int // of the last change
}

// openCommand is a command that has not ended. was holds what the names it
// changed so far were when it began; all others are as in the tree.
type openCommand struct {
	turn string
	at   time.Time // by the system's clock, like the time stamps of files
	was  map[string]entry
	seq  int
}

func newModel() *model {
	return &model{
		blobs: map[string]span{}, tree: map[string]entry{}, turns: map[string]*turnState{}, open: map[string]*openCommand{},
	}
}

func (m *model) apply(rec record, body span) {
	m.seq++
	t := m.turns[rec.Turn]
	switch rec.Op {
	case opBlob:
		m.blobs[rec.Hash] = body
	case opTurn:
		m.turns[rec.Turn] = &turnState{
			id: rec.Turn, session: rec.Session, at: time.UnixMilli(rec.At), undoes: rec.Undoes,
			files: map[string]*fileState{}, late: rec.Late, skipped: rec.Skipped, seq: m.seq,
		}
		m.markUndone()

	case opCommand:
		m.open[rec.Call] = &openCommand{turn: rec.Turn, at: time.UnixMilli(rec.At), was: map[string]entry{}, seq: m.seq}
		if t != nil {
			t.skipped = union(t.skipped, rec.Skipped)
		}

	case opDone:
		delete(m.open, rec.Call)
		if t != nil {
			t.late = t.late || rec.Late
		}

	case opGap:
		if t != nil && !t.hasGap(rec.Why) {
			t.gaps = append(t.gaps, rec.Why)
		}
	}
}

// markUndone finds out which turns are taken back at the moment: an undo that
// was itself undone does not count.
func (m *model) markUndone() {
	order := m.ordered()
	for _, t := range order {
		t.undoneBy = ""
	}
	for _, t := range slices.Backward(order) {
		if target := m.turns[t.undoes]; target != nil && t.undoneBy == "" {
			target.undoneBy = t.id
		}
	}
}

// ordered lists the turns, oldest first.
func (m *model) ordered() []*turnState {
	out := make([]*turnState, 0, len(m.turns))
	for _, t := range m.turns {
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b *turnState) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

func (m *model) applyTree(list []delta) {
	m.seq++
	for _, d := range list {
		old := entryIn(m.tree, d.Path)
		for _, o := range m.open {
			if _, seen := o.was[d.Path]; !seen {
				o.was[d.Path] = old
			}
		}

		if d.Entry == nil {
			delete(m.tree, d.Path)
		} else {
			m.tree[d.Path] = *d.Entry
		}
	}
}

func (m *model) applyChanges(turn string, list []change) {
	m.seq++
	t := m.turns[turn]
	if t == nil {
		return
	}

	for _, c := range list {
		f := t.files[c.Path]
		switch {
		case f == nil && c.Before == nil:
			continue
		case f == nil:
			f = &fileState{before: *c.Before}
			if c.Kept != nil {
				f.kept = *c.Kept
			}
			t.files[c.Path] = f

		case c.Before != nil && f.after != nil && *f.after != *c.Before:
			f.mixed = true
		}

		if c.Before != nil {
			f.after = nil
		}
		if c.After != nil {
			f.after = c.After
		}

		f.mixed = f.mixed || c.Mixed
		f.seq = m.seq
	}
}

// commandChanges says what a command changed: the names that differ now from
// when it began, except those another turn's call changed meanwhile. moved
// counts files that are new here but older than the command: they were in a
// folder that is not watched, could not be put back there, and stay.
func (m *model) commandChanges(o *openCommand, now map[string]entry, fresh []delta) (out []change, moved int) {
	touched := map[string]entry{}
	maps.Copy(touched, o.was)
	for _, d := range fresh {
		if _, ok := touched[d.Path]; !ok {
			touched[d.Path] = entryIn(m.tree, d.Path)
		}
	}

	known := sync.OnceValue(func() map[uint64]bool { return m.inodes(o) })
	for p, was := range touched {
		before, after := was.state, entryIn(now, p).state
		switch {
		case after == before || m.othersChange(o, p, after):
		case before.Kind == kindGone && olderThan(now[p], o.at) && !known()[now[p].Inode]:
			moved++
		default:
			out = append(out, change{Path: p, Before: &before, After: &after, Kept: was.kept()})
		}
	}

	slices.SortStableFunc(out, func(a, b change) int { return cmp.Compare(a.Path, b.Path) })
	return out, moved
}

// olderThan reports whether a file certainly existed before t.
func olderThan(e entry, t time.Time) bool {
	return e.Ctime != 0 && e.Ctime < t.Add(-provenAge).UnixNano()
}

// inodes returns the files the workspace held when a command began.
func (m *model) inodes(o *openCommand) map[uint64]bool {
	out := make(map[uint64]bool, len(m.tree))
	for p, e := range m.tree {
		if _, changed := o.was[p]; !changed {
			out[e.Inode] = true
		}
	}

	for _, e := range o.was {
		out[e.Inode] = true
	}
	return out
}

func (m *model) othersChange(o *openCommand, path string, now state) bool {
	for id, t := range m.turns {
		if f := t.files[path]; id != o.turn && f != nil && f.seq > o.seq && f.after != nil && *f.after == now {
			return true
		}
	}
	return false
}

// overlapping reports whether a command of another turn runs beside o.
func (m *model) overlapping(o *openCommand) bool {
	for _, other := range m.open {
		if other.turn != o.turn {
			return true
		}
	}
	return false
}

func entryIn(tree map[string]entry, path string) entry {
	if e, ok := tree[path]; ok {
		return e
	}
	return entry{state: state{Kind: kindGone}}
}

// changed lists the paths of a turn that are different after it, in order.
func (t *turnState) changed() []string {
	var out []string
	for p, f := range t.files {
		if f.after == nil || *f.after != f.before || f.mixed {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (t *turnState) hasGap(why string) bool { return slices.Contains(t.gaps, why) }

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
