package turn

import (
	"cmp"
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Bounds of what is shown of calls while the model writes them.
const (
	callPiece = 512      // bytes that are sent at once
	callsMost = 64 << 10 // bytes of the calls of one answer
)

// callStream shows calls while the model writes them: the name at once, the
// arguments in pieces, secrets removed. The last piece is left out, because the
// start of the call shows its arguments as a whole.
type callStream struct {
	secrets *httpsafe.Registry
	send    func(bus.Outbound)

	answer int // number of the model call
	shown  int // bytes of it
	calls  map[int]*callText
}

// callText is a call of the current answer.
type callText struct {
	id    string
	clean *httpsafe.Stream
	rest  strings.Builder
	begun bool
}

// add takes a piece of a call.
func (s *callStream) add(_ context.Context, it *runner.Iteration, call llm.ToolPart, piece string) {
	if s.calls == nil || s.answer != it.Number {
		s.answer, s.shown, s.calls = it.Number, 0, map[int]*callText{}
	}

	if s.shown >= callsMost {
		return
	}

	c := s.calls[call.Index]
	if c == nil || c.id != "" && call.ID != "" && c.id != call.ID { // the request was made again
		c = &callText{clean: s.secrets.Stream()}
		s.calls[call.Index] = c
	}

	c.id = cmp.Or(call.ID, c.id)
	c.rest.WriteString(c.clean.Push(piece))
	if c.begun && c.rest.Len() < callPiece {
		return
	}

	text := c.rest.String()
	c.rest.Reset()
	c.begun, s.shown = true, s.shown+len(text)+len(call.Name)
	s.send(bus.Outbound{Kind: bus.ToolDelta, Tool: &bus.Tool{CallID: call.ID, Name: call.Name, Phase: "arguments", Arguments: text, Index: call.Index}})
}
