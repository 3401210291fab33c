package shell

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	liveEvery = 100 * time.Millisecond // between two pieces of output
	liveBytes = 64 << 10               // of one piece; of more the end is shown
)

// live shows people what a command prints while it runs. What is printed last is
// left to the result of the call.
type live struct {
	ctx  context.Context //nolint:containedctx // of the call it belongs to
	call tool.Call

	sending sync.Mutex // held while a piece is sent, so that they stay in order
	mu      sync.Mutex // below sending
	rest    []byte
	timer   *time.Timer // nil: no piece is due
	over    bool
}

// liveSink is a stream of the command that is also shown.
type liveSink struct {
	sink
	to *live
}

// Write implements io.Writer.
func (s liveSink) Write(p []byte) (int, error) {
	s.to.add(p)
	return s.sink.Write(p)
}

func (l *live) add(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.over || l.call.Publish == nil {
		return
	}

	l.rest = append(l.rest, p[max(0, len(p)-liveBytes):]...)
	if cut := len(l.rest) - liveBytes; cut > 0 { // from the next line on: half a credential is not recognized
		l.rest = l.rest[cut+bytes.IndexByte(l.rest[cut:], '\n')+1:]
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(liveEvery, l.send)
	}
}

// send shows what has come since the last piece, but for half a character.
func (l *live) send() {
	l.sending.Lock()
	defer l.sending.Unlock()

	l.mu.Lock()
	l.timer = nil
	n := len(l.rest) - incomplete(l.rest)
	piece := string([]rune(string(l.rest[:n])))
	l.rest = append([]byte(nil), l.rest[n:]...)
	over := l.over
	l.mu.Unlock()
	if over || piece == "" {
		return
	}

	out := bus.Outbound{Kind: bus.ToolOutput, Text: piece, Tool: &bus.Tool{CallID: l.call.ID, Name: l.call.Name}}
	_ = l.call.Publish(l.ctx, out) // a lost piece does no harm: the result has it
}

// close ends it; nothing is shown afterwards.
func (l *live) close() {
	l.mu.Lock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.sending.Lock()
	defer l.sending.Unlock() // a piece that is being sent is out by then
}
