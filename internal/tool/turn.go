package tool

import "sync"

// Turn is the work on one message, or of one subagent. What a tool leaves
// running hears of its end. The zero value is ready to use, and safe for
// concurrent use; a nil one never ends.
type Turn struct {
	mu   sync.Mutex
	over bool
	then []func()
}

// AfterEnd has f called when the turn ends, or now if it has ended.
func (t *Turn) AfterEnd(f func()) {
	if t == nil {
		return
	}

	t.mu.Lock()
	over := t.over
	if !over {
		t.then = append(t.then, f)
	}

	t.mu.Unlock()
	if over {
		f()
	}
}

// End ends the turn and returns when everything that waited for it was called.
func (t *Turn) End() {
	t.mu.Lock()
	then := t.then
	t.over, t.then = true, nil
	t.mu.Unlock()
	var all sync.WaitGroup
	for _, f := range then {
		all.Go(f)
	}
	all.Wait()
}
