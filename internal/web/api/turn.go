package api

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// The finish reasons of the protocol that we use.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishFilter = "content_filter"
)

// event is a piece of the agent's work, for clients that asked to see it.
type event struct {
	Type string    `json:"type"` // tool, progress, reasoning, notice
	Text string    `json:"text,omitempty"`
	Tool *bus.Tool `json:"tool,omitempty"`
}

// answer is a turn that came to an end.
type answer struct {
	text   string
	finish string
	turn   bus.Turn
	events []event
}

// details is what an answer says beyond the protocol.
type details struct {
	Events  []event       `json:"events,omitempty"`
	Session string        `json:"session,omitempty"` // name of the conversation, if it is kept
	Tools   []bus.Receipt `json:"tools,omitempty"`   // what ran, for those who asked for events
	CostUSD float64       `json:"cost_usd,omitempty"`
}

func (r *answer) details(c *call) *details {
	d := &details{Events: r.events, CostUSD: r.turn.Usage.CostUSD}
	if c.events {
		d.Tools = r.turn.Receipts
	}
	if !c.in.Stateless {
		d.Session = c.in.Route.ChatID
	}

	if d.Session == "" && len(d.Events)+len(d.Tools) == 0 && d.CostUSD == 0 {
		return nil
	}
	return d
}

// sink takes what a turn says while it goes on. Each may be nil.
type sink struct {
	text    func(string)
	thought func(string) // of the model, in pieces
	event   func(event)
}

// speaker puts together what is said in a turn: the text of its steps and of
// messages sent on the way are paragraphs of one answer.
type speaker struct {
	all  strings.Builder
	sink func(string)
	gap  bool // the next text begins a paragraph
}

func (s *speaker) write(text string) {
	if text == "" {
		return
	}

	if s.gap && s.all.Len() > 0 {
		text = "\n\n" + text
	}

	s.gap = false
	s.all.WriteString(text)
	if s.sink != nil {
		s.sink(text)
	}
}

func (s *speaker) paragraph(text string) {
	s.gap = true
	s.write(text)
	s.gap = true
}

// run has a turn done and passes on what is said in it.
func (a *API) run(ctx context.Context, c *call, out sink) (answer, error) {
	c.keep = !c.in.Stateless // a conversation may come back to its files
	r := answer{}
	said := &speaker{sink: out.text}
	var final *bus.Outbound
	for o, err := range a.o.Ask(ctx, c.in) {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return r, err
		}
		switch o.Kind {
		case bus.Delta:
			said.write(o.Text)
		case bus.DeltaEnd:
			said.gap = true
		case bus.Message:
			said.paragraph(withFiles(o))
		case bus.Final:
			final = &o
			if o.Streamed || turnFault(o.Turn) != nil {
				o.Text = "" // said already, or told as an error
			}
			said.paragraph(withFiles(o))

		case bus.ToolEvent:
			r.show(c, out, event{Type: "tool", Tool: o.Tool})
		case bus.Progress, bus.Reasoning, bus.Notice:
			if o.Kind == bus.Reasoning && out.thought != nil {
				out.thought(o.Text)
			}
			r.show(c, out, event{Type: string(o.Kind), Text: o.Text})

		case bus.ToolHint, bus.ToolDelta, bus.ToolOutput, bus.Ask, bus.Gone, bus.GoalState, bus.FileEdit, bus.Used: // the events say more; this client cannot answer questions
		}
	}

	if cause := context.Cause(ctx); cause != nil && final == nil {
		return r, cause
	}
	if final == nil {
		return r, errNoAnswer
	}

	if final.Turn != nil {
		r.turn = *final.Turn
	}

	r.text, r.finish = said.all.String(), finishOf(r.turn)
	if f := turnFault(final.Turn); f != nil {
		return r, f
	}
	return r, nil
}

func (r *answer) show(c *call, out sink, e event) {
	switch {
	case !c.events:
	case out.event != nil:
		out.event(e)
	default:
		r.events = append(r.events, e)
	}
}

// finishOf says in the words of the protocol why a turn ended.
func finishOf(t bus.Turn) string {
	switch kind := llm.Kind(t.ErrorKind); {
	case t.StopReason == "refused" || kind == llm.ContentFilter || kind == llm.Refused:
		return finishFilter
	case t.Truncated || t.StopReason == "max_iterations" || t.StopReason == "budget_exceeded":
		return finishLength
	}
	return finishStop
}

// withFiles names the files of a message below its text: the protocol has no
// way to hand them over.
func withFiles(o bus.Outbound) string {
	lines := []string{o.Text}
	if o.Text == "" {
		lines = nil
	}

	for _, m := range o.Media {
		name := m.Name
		if name == "" {
			name = filepath.Base(m.Path)
		}
		lines = append(lines, "[file: "+name+" at "+m.Path+"]")
	}

	return strings.Join(lines, "\n")
}
