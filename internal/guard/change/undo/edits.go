package undo

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// What one call may show: the rest of it is in Diff.
const (
	maxEditFiles = 50
	maxEditBytes = 1 << 20  // of all contents that are compared
	maxEditDiff  = 32 << 10 // of one file
)

// edits describes what a call changed, for who watches. Folders are left out.
func (s *Store) edits(call string, changes []change) []bus.Edit {
	var out []bus.Edit
	budget := maxEditBytes
	for _, c := range changes {
		if c.Before.Kind == kindDir || c.After.Kind == kindDir {
			continue
		}
		if len(out) == maxEditFiles {
			break
		}

		e := bus.Edit{CallID: call, Path: s.shown(c.Path), What: "changed"}
		switch {
		case c.Before.Kind == kindGone:
			e.What = "created"
		case c.After.Kind == kindGone:
			e.What = "deleted"
		}

		size := int(min(c.Before.Size+c.After.Size, maxEditBytes+1))
		if size <= budget {
			budget -= size
			s.log.compareInto(&e, c)
		}
		out = append(out, e)
	}

	return out
}

// compareInto counts the lines of an edit and shows them, if both sides are
// text that is kept.
func (l *logFile) compareInto(e *bus.Edit, c change) {
	a, okA := l.sideOf(*c.Before)
	b, okB := l.sideOf(*c.After)
	if !okA || !okB || !a.text() || !b.text() {
		return
	}

	e.Lines = true
	var diff strings.Builder
	e.Added, e.Deleted = writeChange(&diff, e.Path, a, b)
	if diff.Len() <= maxEditDiff {
		e.Diff = diff.String()
	}
}

func (l *logFile) sideOf(st state) (side, bool) {
	if st.Kind != kindFile {
		return side{state: st}, true
	}
	data, err := l.content(st.Hash)
	return side{st, data}, err == nil
}
