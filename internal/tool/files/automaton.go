package files

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// maxStates bounds an automaton's memory, at 2 KiB a state. Expressions that
// need more fall back to the standard matcher.
const maxStates = 1000

// automaton decides which lines an expression matches, many times faster than
// the standard matcher because it follows all alternatives at once and
// remembers what it worked out (a lazily built DFA). It does not say where in
// the line the match is. Not safe for concurrent use.
type automaton struct {
	prog    *syntax.Prog
	states  map[string]*state
	start   *state // at the start of a line
	matched *state
	full    bool
	// scratch space
	closed []uint32
	onPath []bool
}

// state holds what is known between two characters: which instructions wait
// for the next one, and what kind of character came before.
type state struct {
	next    [utf8.RuneSelf]*state // by ASCII character
	wide    map[rune]*state       // by other characters
	waiting []uint32
	before  neighbour
}

// neighbour is the kind of character at a border.
type neighbour byte

const (
	lineBorder neighbour = iota
	wordChar
	otherChar
)

func newAutomaton(prog *syntax.Prog) *automaton {
	a := &automaton{prog: prog, states: map[string]*state{}, matched: &state{}, onPath: make([]bool, len(prog.Inst))}
	a.start = a.intern(nil, lineBorder)
	return a
}

// find returns a position inside the first line of data that matches. data
// starts at the start of a line. ok is false if the expression is too complex.
func (a *automaton) find(data []byte) (at int, ok bool) {
	s := a.start
	for i := 0; i < len(data); {
		c := data[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(data[i:])
			if s = a.stepWide(s, r); s == a.matched {
				return i, true
			}

			i += size
			if a.full {
				return 0, false
			}
			continue
		}

		n := s.next[c]
		if n == nil {
			if n = a.step(s, rune(c)); a.full {
				return 0, false
			}
			s.next[c] = n
		}

		if n == a.matched {
			return i, true
		}

		s = n
		i++
	}

	if n := len(data); n > 0 && data[n-1] != '\n' && a.step(s, '\n') == a.matched {
		return n, true
	}
	return -1, true
}

func (a *automaton) stepWide(s *state, r rune) *state {
	n := s.wide[r]
	if n == nil {
		n = a.step(s, r)
		if s.wide == nil {
			s.wide = map[rune]*state{}
		}
		if len(s.wide) < maxStates {
			s.wide[r] = n
		}
	}

	return n
}

// step works out what follows a character; '\n' stands for the end of a line.
func (a *automaton) step(s *state, r rune) *state {
	after := kindOf(r)
	flags := emptyFlags(s.before, after)
	a.closed = a.closed[:0]
	clear(a.onPath)
	found := a.follow(uint32(a.prog.Start), flags) //nolint:gosec // an index into the program
	for _, pc := range s.waiting {
		found = found || a.follow(pc, flags)
	}

	switch {
	case found:
		return a.matched
	case r == '\n':
		return a.start
	}

	var waiting []uint32
	for _, pc := range a.closed {
		if in := &a.prog.Inst[pc]; accepts(in, r) {
			waiting = append(waiting, in.Out)
		}
	}
	return a.intern(waiting, after)
}

// follow collects the instructions reachable without a character; it reports
// whether the match is among them.
func (a *automaton) follow(pc uint32, flags syntax.EmptyOp) bool {
	if a.onPath[pc] {
		return false
	}

	a.onPath[pc] = true
	in := &a.prog.Inst[pc]
	switch in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return a.follow(in.Out, flags) || a.follow(in.Arg, flags)
	case syntax.InstCapture, syntax.InstNop:
		return a.follow(in.Out, flags)
	case syntax.InstEmptyWidth:
		//nolint:gosec // the argument of this instruction is an EmptyOp
		return syntax.EmptyOp(in.Arg)&^flags == 0 && a.follow(in.Out, flags)
	case syntax.InstMatch:
		return true
	case syntax.InstFail:
		return false
	}

	a.closed = append(a.closed, pc)
	return false
}

func accepts(in *syntax.Inst, r rune) bool {
	switch in.Op {
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true // line ends never get here
	}
	return in.MatchRune(r)
}

// intern returns the one state for a set of waiting instructions.
func (a *automaton) intern(waiting []uint32, before neighbour) *state {
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	key := []byte{byte(before)}
	for _, pc := range waiting {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}

	if s := a.states[string(key)]; s != nil {
		return s
	}

	s := &state{waiting: waiting, before: before}
	if len(a.states) >= maxStates {
		a.full = true
		return s
	}

	a.states[string(key)] = s
	return s
}

func kindOf(r rune) neighbour {
	switch {
	case r == '\n':
		return lineBorder
	case r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		return wordChar
	}
	return otherChar
}

// emptyFlags returns the assertions that hold between two characters.
func emptyFlags(before, after neighbour) syntax.EmptyOp {
	var f syntax.EmptyOp
	if before == lineBorder {
		f |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	if after == lineBorder {
		f |= syntax.EmptyEndLine | syntax.EmptyEndText
	}

	if (before == wordChar) != (after == wordChar) {
		return f | syntax.EmptyWordBoundary
	}
	return f | syntax.EmptyNoWordBoundary
}
