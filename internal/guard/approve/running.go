package approve

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// running holds the calls that an answer covers, until they have ended.
type running struct {
	mu sync.Mutex
	m  map[string]*approved
}

// approved is a call that may run because of an answer.
type approved struct {
	subject  *subject
	memory   *memory
	sum      string   // its fingerprint when it was allowed
	files    []string // absolute, those whose content is part of it
	programs []string // that an answer which lasts covers
	begun    bool
}

func callKey(c tool.Call) string { return c.SessionKey + "\x00" + c.TurnID + "\x00" + c.ID }

// allow notes that a command may run because of an answer.
func (p *Policy) allow(m *memory, s *subject, sum string, covers covered, cover coverage) {
	if s.command() == "" {
		return
	}

	a := &approved{subject: s, memory: m, sum: sum, programs: cover.programs}
	for _, path := range covers.paths {
		a.files = append(a.files, p.file(path).abs)
	}

	r := &p.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string]*approved{}
	}
	r.m[callKey(s.call)] = a
}

func (r *running) of(c tool.Call) *approved {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[callKey(c)]
}

func (r *running) drop(c tool.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, callKey(c))
}

// errChanged is why an approved command does not start.
var errChanged = errors.New("what this command runs was changed between the approval and the start. It was not run; call it again, so that the user is asked about it as it is now")

// Begin looks for the last time at what was approved, when the command of a call
// is about to start. Commands that needed no answer have nothing to look at. From
// now on Runs knows its files.
func (p *Policy) Begin(c tool.Call) error {
	a := p.running.of(c)
	if a == nil {
		return nil
	}

	p.running.mu.Lock()
	a.begun = true
	p.running.mu.Unlock()

	if now, _ := p.fingerprint(a.subject); now != a.sum {
		p.running.drop(c)
		return errChanged
	}
	return nil
}

// End says that the command of a call has ended. What it changed itself is part of
// an answer that lasts, so a build does not ask about what the build before it
// made, provided that it was alone: alone is asked after the last look.
func (p *Policy) End(c tool.Call, alone func() bool) {
	a := p.running.of(c)
	if a == nil {
		return
	}

	p.running.drop(c)
	if !slices.ContainsFunc(a.programs, lasts) {
		return
	}

	p.inspect(a.subject)
	now := p.coverage(a.subject).programs
	if alone() {
		p.sessions.renew(a.memory, a.subject, a.programs, now)
	}
}

// Returned says that a call is over. If its command never began, it is forgotten.
func (p *Policy) Returned(c tool.Call) {
	r := &p.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.m[callKey(c)]; a != nil && !a.begun {
		delete(r.m, callKey(c))
	}
}

// Runs reports whether the content of a file, an absolute path, is part of a
// command that was approved, runs and belongs to another call.
func (p *Policy) Runs(c tool.Call, path string) bool {
	path = p.file(path).abs
	r := &p.running
	r.mu.Lock()
	defer r.mu.Unlock()

	for key, a := range r.m {
		if key != callKey(c) && a.begun && slices.Contains(a.files, path) {
			return true
		}
	}
	return false
}

// outsideKey returns what a lasting answer is bound to for something from
// outside.
func outsideKey(o Outside, place, state string) string {
	return strings.Join([]string{"outside", o.Key, place, state}, stateMark)
}

// stateMark stands before the state in a key, and in no part of a path.
const stateMark = "\x00\x00"

// lasts reports whether a key is bound to a state that can be renewed.
func lasts(key string) bool {
	i := strings.LastIndex(key, stateMark)
	return i >= 0 && i+len(stateMark) < len(key)
}

// renew binds answers that cover a command to what it left.
func (ss *sessions) renew(m *memory, s *subject, before, after []string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, old := range before {
		if !lasts(old) {
			continue
		}

		same := old[:strings.LastIndex(old, stateMark)+len(stateMark)]
		i := slices.IndexFunc(after, func(key string) bool { return strings.HasPrefix(key, same) })
		if i < 0 {
			continue
		}

		for _, g := range m.grants {
			if g.tool != s.tool.Name || g.person != s.person() {
				continue
			}
			if at := slices.Index(g.programs, old); at >= 0 {
				g.programs[at] = after[i]
			}
		}
	}
}
