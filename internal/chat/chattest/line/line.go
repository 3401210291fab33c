// Package line has what the fakes of chat platforms share: calls
// that hang, an observer of what people see, and the count of edits for nothing.
package line

import (
	"context"
	"net/http"
	"sync"
)

// Line is embedded in a fake. The zero value answers all calls.
type Line struct {
	mu      sync.Mutex
	until   <-chan struct{}
	stalled int
	watch   func(chat, text string)
	idle    int
}

// Unchanged notes an edit that leaves a message as it was.
func (l *Line) Unchanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle++
}

// Idle counts the edits that left a message as it was.
func (l *Line) Idle() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

// Stall makes the platform accept calls that write, such as sending and typing,
// without an answer until a channel is closed. Then they are done.
func (l *Line) Stall(until <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}

// Stalled counts the calls that wait.
func (l *Line) Stalled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled
}

// Watch has a function called with every text that the bot sends or changes.
// The function must not call the fake.
func (l *Line) Watch(f func(chat, text string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = f
}

// Pass lets a call of a fake wait while its platform hangs. The context is that
// of the request, whose body was read.
func (l *Line) Pass(ctx context.Context) {
	l.mu.Lock()
	until := l.until
	if until == nil {
		l.mu.Unlock()
		return
	}

	l.stalled++
	l.mu.Unlock()

	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stalled--
	}()
	select {
	case <-until:
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// Show tells the observer of a text.
func (l *Line) Show(chat, text string) {
	l.mu.Lock()
	f := l.watch
	l.mu.Unlock()
	if f != nil {
		f(chat, text)
	}
}
