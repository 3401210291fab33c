package approve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	maxGrants   = 256  // remembered per conversation; the oldest goes
	maxSessions = 4096 // beyond it conversations without a lasting yes are dropped
)

// coverage holds what a yes for a turn or conversation would extend to.
type coverage struct {
	what      string // in words, of which of are the names; empty: it cannot be remembered
	of        []any
	programs  []string // harmless programs with any arguments, and what decides what they run
	wholeText bool     // every argument must be shown completely
}

// coverage decides what may be remembered about a call: the harmless programs
// of a command, or exactly the same call again. Whatever runs other programs
// or sets variables is asked about every time.
func (p *Policy) coverage(s *subject) coverage {
	c := coverage{what: "exactly this call", wholeText: true}
	switch cmd := s.command(); {
	case s.tool.Sink == tool.SinkCommand && cmd == "":
		c.what = "" // typed into a running program
	case s.byOutside && slices.ContainsFunc(s.outside, func(o Outside) bool { return o.Key == "" && o.State == "" }):
		c.what = "" // it could not be told later whether it is still the same
	case s.byOutside && !slices.ContainsFunc(s.outside, func(o Outside) bool { return o.Key == "" }):
		var what []string
		for _, o := range s.outside {
			place := ""
			if o.At != "" {
				f := p.file(o.At)
				place = fmt.Sprintf("%d:%d", f.dev, f.ino)
			}
			c.programs = append(c.programs, outsideKey(o, place, o.State))
			what = append(what, o.Covers)
		}

		slices.Sort(what)
		c.what, c.of = "running %s", []any{strings.Join(slices.Compact(what), ", ")}

	case cmd != "":
		if p.CommandPrefix != nil && s.usualShell() {
			if words, ok := p.CommandPrefix(cmd); ok {
				if c.programs, ok = p.bound(s, words); ok {
					c.what, c.of = "every command made of %s with options that only show something", []any{list(words)}
					return c
				}
			}
		}
		if !parseCommand(cmd).repeatable {
			c.what = ""
		}

	case s.tool.Sink == tool.SinkWrite:
		c.wholeText = slices.ContainsFunc(s.paths(), func(name string) bool {
			f := p.file(name)
			return special(p.relative(f.abs)) != ""
		})
	}

	return c
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "\"" + text.Reveal(w, "") + "\""
	}
	return strings.Join(quoted, ", ")
}

// grant is a yes that holds on. It is worth something only in the conversation
// and for the person it came from.
type grant struct {
	turn     string // empty: the whole conversation
	person   string
	sum      string   // of exactly one call
	programs []string // of any command
	tool     string
}

// memory holds what one conversation answered.
type memory struct {
	asking  chan struct{} // capacity 1: one question at a time
	waiters int
	grants  []grant
	refused map[string]bool // turn and call: what was refused is not asked again
	silent  string          // the turn in which a question was not answered
}

// sessions holds the memories by session key.
type sessions struct {
	mu sync.Mutex
	m  map[string]*memory
}

// enter waits for the turn of a call to ask; leave must follow.
func (ss *sessions) enter(ctx context.Context, key string) (*memory, error) {
	ss.mu.Lock()
	m := ss.m[key]
	if m == nil {
		if ss.m == nil {
			ss.m = map[string]*memory{}
		}
		ss.prune()
		m = &memory{asking: make(chan struct{}, 1), refused: map[string]bool{}}
		ss.m[key] = m
	}

	m.waiters++
	ss.mu.Unlock()
	select {
	case m.asking <- struct{}{}:
		return m, nil
	case <-ctx.Done():
		ss.mu.Lock()
		m.waiters--
		ss.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

func (ss *sessions) leave(m *memory) {
	ss.mu.Lock()
	m.waiters--
	ss.mu.Unlock()
	<-m.asking
}

func (ss *sessions) prune() {
	if len(ss.m) < maxSessions {
		return
	}
	for key, m := range ss.m {
		if m.waiters == 0 && !slices.ContainsFunc(m.grants, func(g grant) bool { return g.turn == "" }) {
			delete(ss.m, key)
		}
	}
}

func (ss *sessions) forget(key string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if m := ss.m[key]; m != nil { // those who wait in it must not find a yes either
		m.grants, m.silent = nil, ""
		clear(m.refused)
		if m.waiters == 0 {
			delete(ss.m, key)
		}
	}
}

// allowed reports whether an earlier yes covers the call.
func (ss *sessions) allowed(m *memory, s *subject, sum string, cover coverage) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()

	c := s.call
	mine := func(g grant) bool {
		return g.tool == s.tool.Name && g.person == s.person() && (g.turn == "" || g.turn == c.TurnID)
	}
	if slices.ContainsFunc(m.grants, func(g grant) bool { return mine(g) && g.sum != "" && g.sum == sum }) {
		return true
	}
	if len(cover.programs) == 0 {
		return false
	}
	return !slices.ContainsFunc(cover.programs, func(w string) bool {
		return !slices.ContainsFunc(m.grants, func(g grant) bool { return mine(g) && slices.Contains(g.programs, w) })
	})
}

// remember keeps a yes for the turn or the conversation.
func (ss *sessions) remember(m *memory, s *subject, a answer, sum string, cover coverage) {
	if cover.what == "" || a != forTurn && a != forSession {
		return
	}

	g := grant{person: s.person(), tool: s.tool.Name, programs: slices.Clone(cover.programs)}
	if len(cover.programs) == 0 {
		g.sum = sum
	}

	if a == forTurn {
		if g.turn = s.call.TurnID; g.turn == "" {
			return
		}
	}

	ss.mu.Lock()
	defer ss.mu.Unlock()

	m.grants = slices.DeleteFunc(m.grants, func(g grant) bool { return g.turn != "" && g.turn != s.call.TurnID })
	if len(m.grants) >= maxGrants {
		m.grants = slices.Delete(m.grants, 0, 1)
	}
	m.grants = append(m.grants, g)
}

func refusedKey(s *subject) string {
	return s.call.TurnID + "\x00" + s.tool.Name + "\x00" + s.argsHash()
}

func (ss *sessions) refuse(m *memory, s *subject) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(m.refused) >= maxGrants {
		clear(m.refused)
	}
	m.refused[refusedKey(s)] = true
}

func (ss *sessions) wasRefused(m *memory, s *subject) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return m.refused[refusedKey(s)]
}

// hush records that a question was not answered in this turn; hushed reads it.
func (ss *sessions) hush(m *memory, turn string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	m.silent = turn
}

func (ss *sessions) hushed(m *memory, turn string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return turn != "" && m.silent == turn
}
