package undo

import (
	"slices"
	"time"
)

// whyDamaged is the gap of a turn that a damaged entry of the log may concern. Such
// a turn is shown and not undone: what its files held before may be missing.
const whyDamaged = "a part of the record of this turn was damaged on the disk, so it is not undone"

// hurt holds what is known of damaged entries while a log is read.
type hurt struct {
	// suspects are the turns that were known before a damaged entry which says no
	// turn. It may concern those that go on after it.
	suspects map[string]bool
	// tree says that what is known of the watched workspace may be wrong.
	tree bool
}

// damaged reports whether a damaged entry of the log may concern a turn.
func (t Turn) damaged() bool { return slices.Contains(t.Gaps, whyDamaged) }

func (t *turnState) isDamaged() bool { return t.hasGap(whyDamaged) }

func (t *turnState) damage() {
	if !t.isDamaged() {
		t.gaps = append(t.gaps, whyDamaged)
	}
}

// isUnfinished reports whether a call of a turn was not told to have ended.
func (t *turnState) isUnfinished() bool {
	for _, f := range t.files {
		if f.after == nil {
			return true
		}
	}
	return false
}

// damaged takes over that an entry is damaged. Of one whose header is whole the
// operation and the turn are known.
func (m *model) damaged(rec record) {
	m.seq++
	if m.hurt == nil {
		m.hurt = &hurt{suspects: map[string]bool{}}
	}

	if rec.Op == opChanges {
		m.goesOn(rec)
		m.turns[rec.Turn].damage()
		return
	}

	m.hurt.tree = true
	m.closeDamaged()
	if rec.Op != "" {
		return
	}

	for id, t := range m.turns {
		if id == m.last || t.isUnfinished() {
			t.damage()
		}
		m.hurt.suspects[id] = true
	}
}

// goesOn takes over that an entry names a turn.
func (m *model) goesOn(rec record) {
	if rec.Turn == "" {
		return
	}

	m.last = rec.Turn
	if m.hurt == nil || rec.Op == opTurn {
		return
	}

	t := m.turns[rec.Turn]
	if t == nil { // the entry about its beginning is damaged
		t = &turnState{id: rec.Turn, files: map[string]*fileState{}, seq: m.seq}
		m.turns[rec.Turn] = t
		m.hurt.suspects[rec.Turn] = true
	}

	if m.hurt.suspects[rec.Turn] {
		t.damage()
	}
}

// closeDamaged gives up the commands that have not ended: what the workspace was
// when they began cannot be told.
func (m *model) closeDamaged() {
	for key, o := range m.open {
		if t := m.turns[o.turn]; t != nil {
			t.damage()
		}
		delete(m.open, key)
	}
}

// repairDamage makes the model of a log with damaged entries one that can be used.
func (m *model) repairDamage() {
	if m.hurt.tree {
		m.closeDamaged()
		clear(m.tree) // the next command looks at everything again
	}

	for _, t := range m.turns { // one whose beginning is damaged has no time of its own
		if t.at.IsZero() {
			t.at = m.timeNear(t)
		}
	}

	m.hurt = nil
}

// timeNear returns when the turn before this one began, or the one after it.
func (m *model) timeNear(t *turnState) time.Time {
	var at time.Time
	for _, o := range m.ordered() {
		if o.seq > t.seq && !at.IsZero() {
			break
		}
		if !o.at.IsZero() {
			at = o.at
		}
	}

	return at
}
