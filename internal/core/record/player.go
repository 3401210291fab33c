package record

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// playerOptions configure a Player. Recorded and Current are pairs of texts,
// old and new, that are replaced before a recorded and a current request are
// compared: paths and names of machines that mean nothing.
type playerOptions struct {
	Recorded, Current []string
}

// Player is a model that answers from a recording. A request gets the answer of
// the recorded request it is equal to, else of the next one in order; what is
// not equal is collected. It is safe for concurrent use.
type Player struct {
	rec      *Recording
	recorded *strings.Replacer
	current  *strings.Replacer

	mu     sync.Mutex
	played []bool // exchanges
	used   []bool // tool runs
	given  map[string]bool
	asked  int // requests so far
	diffs  []Difference
}

var _ llm.Model = (*Player)(nil)

// newPlayer makes a player.
func newPlayer(r *Recording, o playerOptions) *Player {
	return &Player{
		rec: r, recorded: strings.NewReplacer(o.Recorded...), current: strings.NewReplacer(o.Current...),
		played: make([]bool, len(r.Exchanges)), used: make([]bool, len(r.Tools)), given: map[string]bool{},
	}
}

// Stream implements llm.Model.
func (p *Player) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		x, ok := p.pick(req)
		switch {
		case ctx.Err() != nil:
			yield(llm.Event{}, ctx.Err())
		case !ok:
			yield(llm.Event{}, &llm.Error{Kind: llm.Configuration, Provider: "replay", Message: "the recording has no answer to this request"})
		default:
			x.play(yield)
		}
	}
}

// pick finds the exchange for a request and notes what differs.
func (p *Player) pick(req llm.Request) (Exchange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.asked++
	now := viewOf(req, p.current)
	next := -1
	var nextDiffs []Difference
	for i, x := range p.rec.Exchanges {
		if p.played[i] || next >= 0 && len(x.Request.Messages) != len(req.Messages) {
			continue // only the next in order may have another length
		}

		diffs := now.compare(viewOf(x.Request, p.recorded))
		if len(diffs) == 0 {
			next, nextDiffs = i, nil
			break
		}

		if next < 0 {
			next, nextDiffs = i, diffs
		}
	}

	if next < 0 {
		p.record(Difference{Request: p.asked, Where: "request", Current: "one more than the recording has"})
		return Exchange{}, false
	}

	p.played[next] = true
	p.record(nextDiffs...)
	x := p.rec.Exchanges[next]
	if !x.Answered {
		p.record(Difference{Request: p.asked, Where: "answer", Recorded: "none: the recording ends here"})
	}
	return x, x.Answered
}

// record adds differences of the request at hand. One that earlier requests had
// too, as all do that begin with the same prompt, is told once. The caller
// holds mu.
func (p *Player) record(diffs ...Difference) {
	for _, d := range diffs {
		if d.Request = p.asked; !slices.ContainsFunc(p.diffs, d.repeats) {
			p.diffs = append(p.diffs, d)
		}
	}
}

// play yields the recorded events.
func (x Exchange) play(yield func(llm.Event, error) bool) {
	text, reasoning := x.answer.Text, x.answer.Reasoning
	for _, e := range x.answer.Events {
		going := true
		switch e.Kind {
		case "text":
			text, going = deltas(llm.TextDelta, text, e.Lens, yield)
		case "reasoning":
			reasoning, going = deltas(llm.ReasoningDelta, reasoning, e.Lens, yield)
		case "waiting":
			going = yield(llm.Event{Kind: llm.Waiting, Text: e.Text}, nil)
		case "restarted":
			going = yield(llm.Event{Kind: llm.Restarted}, nil)
		}

		if !going {
			return
		}
	}

	if err := x.Err(); err != nil {
		yield(llm.Event{}, err)
		return
	}
	yield(llm.Event{Kind: llm.Done, Response: x.response()}, nil)
}

// deltas yields the next pieces of a text and returns what is left of it.
func deltas(kind llm.EventKind, s string, lens []int, yield func(llm.Event, error) bool) (rest string, going bool) {
	for _, n := range lens {
		if !yield(llm.Event{Kind: kind, Text: s[:n]}, nil) {
			return "", false
		}
		s = s[n:]
	}
	return s, true
}

// Tools returns the recorded tools, answering with recorded results. A tool in builtin
// lends its description and schema, so that a change of them is noticed; its
// Run is never called. Names in except are left out: the agent has its own.
func (p *Player) Tools(builtin []tool.Tool, except ...string) []tool.Tool {
	p.mu.Lock()
	defer p.mu.Unlock()

	var out []tool.Tool
	for _, x := range p.rec.Exchanges {
		for _, d := range x.Request.Tools {
			if p.given[d.Name] || slices.Contains(except, d.Name) {
				continue
			}

			p.given[d.Name] = true
			t := tool.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema}
			if i := slices.IndexFunc(builtin, func(t tool.Tool) bool { return t.Name == d.Name }); i >= 0 {
				t = builtin[i]
			}

			t.Run, t.Trusted = p.run, true // a recorded result says whether it is
			out = append(out, t)
		}
	}

	return out
}

// run answers a call: by name and arguments, else with the next result of that
// tool, which is a difference.
func (p *Player) run(_ context.Context, c tool.Call) (tool.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	next, input := -1, canonical(string(c.Input), p.current)
	for i, t := range p.rec.Tools {
		if p.used[i] || t.Name != c.Name {
			continue
		}
		if canonical(t.Input, p.recorded) == input {
			p.used[i] = true
			return t.Result, nil
		}

		if next < 0 {
			next = i
		}
	}

	if next < 0 {
		p.record(Difference{Where: "call of " + c.Name, Recorded: "no such call", Current: short(input)})
		return tool.Fail(tool.NotFound, "the recording has no result of %s for this call", c.Name), nil
	}

	p.used[next] = true
	a, b := excerpt(canonical(p.rec.Tools[next].Input, p.recorded), input)
	p.record(Difference{Where: "call of " + c.Name, Recorded: a, Current: b})
	return p.rec.Tools[next].Result, nil
}

// canonical returns a JSON text without secrets, with sorted keys and no spaces.
func canonical(s string, r *strings.Replacer) string {
	var v any
	s = scrubber{}.text(s)
	if json.Unmarshal([]byte(s), &v) == nil {
		s = encoded(v)
	}
	return r.Replace(s)
}

// differences lists what was not as recorded, including what was recorded and
// did not happen. An empty list means that the behaviour is the same.
func (p *Player) differences() []Difference {
	p.mu.Lock()
	defer p.mu.Unlock()

	out := slices.Clone(p.diffs)
	for i, x := range p.rec.Exchanges {
		if !p.played[i] {
			out = append(out, Difference{Request: i + 1, Where: "request", Recorded: "made, ending with " + lastOf(x.Request), Current: "not made"})
		}
	}

	for i, t := range p.rec.Tools {
		if !p.used[i] && p.given[t.Name] {
			out = append(out, Difference{Where: "call of " + t.Name, Recorded: short(t.Input), Current: "not made"})
		}
	}

	slices.SortStableFunc(out, func(a, b Difference) int { return cmp.Compare(a.Request-1, b.Request-1) })
	return out
}

func lastOf(req llm.Request) string {
	if len(req.Messages) == 0 {
		return "no message"
	}
	m := req.Messages[len(req.Messages)-1]
	return fmt.Sprintf("%s: %s", m.Role, short(m.Content.String()))
}
