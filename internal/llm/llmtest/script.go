package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Step is one answer of a Script. The zero value is an empty answer.
type Step struct {
	Think  string
	Text   string
	Calls  []llm.ToolCall // an empty ID is filled in
	Finish llm.Finish     // "" means stop, or tool_calls when there are calls
	Usage  llm.Usage      // zero means an estimate from the sizes
	// Err ends the stream after Think and Text were delivered.
	Err error
	// Until is waited for before anything is answered; the end of ctx is
	// honoured while waiting.
	Until <-chan struct{}
	// Hang waits for Until after Think and Text instead of before.
	Hang bool
	// Chunk is the number of runes per delta; 0 means 5.
	Chunk int
	// Make, if set, computes the step from the request.
	Make func(req llm.Request) Step
}

// Reply answers with a text.
func Reply(text string) Step { return Step{Text: text} }

// Call asks for a tool. args is the JSON text as the model writes it, or any
// value that is marshalled.
func Call(name string, args any) Step { return Step{}.Call(name, args) }

// Fail ends the request with an error.
func Fail(err error) Step { return Step{Err: err} }

// Block answers nothing until the channel is closed or the request is
// cancelled, then with an empty text; combine it with the other makers.
func Block(until <-chan struct{}) Step { return Step{Until: until} }

// Think thinks and then answers.
func Think(thought, text string) Step { return Step{Think: thought, Text: text} }

// Length answers with a text that was cut at the token limit.
func Length(text string) Step { return Step{Text: text, Finish: llm.FinishLength} }

// Func computes the answer from the request.
func Func(f func(req llm.Request) Step) Step { return Step{Make: f} }

// Call adds a tool call to the step.
func (s Step) Call(name string, args any) Step {
	text, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		if err != nil {
			panic(err)
		}
		text = string(b)
	}

	s.Calls = append(slices.Clone(s.Calls), llm.ToolCall{Name: name, Arguments: text})
	return s
}

// Saying adds a text before the calls.
func (s Step) Saying(text string) Step { s.Text = text; return s }

// Finished sets the finish reason.
func (s Step) Finished(f llm.Finish) Step { s.Finish = f; return s }

// After delays the step until the channel is closed.
func (s Step) After(until <-chan struct{}) Step { s.Until = until; return s }

// Script is an llm.Model that answers from a list of steps and records every
// request. An illegal prompt, or a request after the last step, fails the
// test. It is safe for concurrent use; concurrent requests take the steps in
// the order in which they arrive.
type Script struct {
	// Check judges each prompt; nil means CheckLegal. Set it before the first request.
	Check func(llm.Request) error
	// Otherwise answers when the list is used up; nil fails the test then.
	Otherwise func(req llm.Request) Step

	t        testing.TB
	mu       sync.Mutex
	steps    []Step
	requests []llm.Request
	calls    int
	active   int
	peak     int
}

var _ llm.Model = (*Script)(nil)

// NewScript makes a model that answers with the steps, in order.
func NewScript(tb testing.TB, steps ...Step) *Script {
	tb.Helper()
	return &Script{t: tb, steps: steps}
}

// Add appends steps.
func (s *Script) Add(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, steps...)
}

// Requests returns copies of all requests so far.
func (s *Script) Requests() []llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Last returns the newest request; it fails the test if there is none.
func (s *Script) Last() llm.Request {
	s.t.Helper()
	all := s.Requests()
	if len(all) == 0 {
		s.t.Fatal("the model was never called")
	}
	return all[len(all)-1]
}

// Left counts the steps not used yet.
func (s *Script) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.steps)
}

// Peak returns the largest number of requests that ran at the same time.
func (s *Script) Peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Stream implements llm.Model.
func (s *Script) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Event{}, err)
			return
		}

		step, err := s.nextStep(req)
		defer func() {
			s.mu.Lock()
			s.active--
			s.mu.Unlock()
		}()
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		s.play(ctx, req, step, yield)
	}
}

// nextStep records the request and picks its step.
func (s *Script) nextStep(req llm.Request) (Step, error) {
	req.Messages = slices.Clone(req.Messages)
	req.Tools = slices.Clone(req.Tools)
	s.mu.Lock()
	s.requests = append(s.requests, req)
	n := len(s.requests)
	s.active++
	s.peak = max(s.peak, s.active)
	var step Step
	found := len(s.steps) > 0
	if found {
		step = s.steps[0]
		s.steps = s.steps[1:]
	}

	s.mu.Unlock()

	check := s.Check
	if check == nil {
		check = CheckLegal
	}
	if err := check(req); err != nil {
		s.t.Errorf("request %d: illegal prompt: %v", n, err)
	}

	if !found {
		if s.Otherwise == nil {
			s.t.Errorf("request %d: the script has no more steps", n)
			return Step{}, &llm.Error{Kind: llm.Configuration, Provider: "script", Message: "the script has no more steps"}
		}
		step = s.Otherwise(req)
	}

	for step.Make != nil {
		step = step.Make(req)
	}
	return step, nil
}

func (s *Script) play(ctx context.Context, req llm.Request, step Step, yield func(llm.Event, error) bool) {
	if step.Until != nil && !step.Hang && !wait(ctx, step.Until) {
		yield(llm.Event{}, ctx.Err())
		return
	}

	deltas := func(kind llm.EventKind, text string) bool {
		for piece := range pieces(text, step.Chunk) {
			if err := ctx.Err(); err != nil {
				yield(llm.Event{}, err)
				return false
			}
			if !yield(llm.Event{Kind: kind, Text: piece}, nil) {
				return false
			}
		}
		return true
	}
	if !deltas(llm.ReasoningDelta, step.Think) || !deltas(llm.TextDelta, step.Text) {
		return
	}
	if step.Until != nil && step.Hang && !wait(ctx, step.Until) {
		yield(llm.Event{}, ctx.Err())
		return
	}
	if step.Err != nil {
		yield(llm.Event{}, step.Err)
		return
	}
	yield(llm.Event{Kind: llm.Done, Response: s.response(req, step)}, nil)
}

func (s *Script) response(req llm.Request, step Step) *llm.Response {
	m := llm.Message{Role: llm.Assistant, Content: llm.Text(step.Text), Reasoning: step.Think, HasReasoning: step.Think != "", Origin: "script"}
	for _, c := range step.Calls {
		if c.ID == "" {
			s.mu.Lock()
			s.calls++
			c.ID = fmt.Sprintf("call_%d", s.calls)
			s.mu.Unlock()
		}
		m.ToolCalls = append(m.ToolCalls, c)
	}

	r := &llm.Response{Message: m, Finish: step.Finish, Usage: step.Usage}
	if r.Finish == "" {
		r.Finish = llm.FinishStop
		if len(m.ToolCalls) > 0 {
			r.Finish = llm.FinishToolCalls
		}
	}

	if r.Usage == (llm.Usage{}) {
		r.Usage = llm.Usage{Prompt: promptSize(req) / 4, Completion: (len(step.Text) + len(step.Think)) / 4, Estimated: true}
	}
	return r
}

func promptSize(req llm.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		n += len(m.Content.String())
		for _, c := range m.ToolCalls {
			n += len(c.Name) + len(c.Arguments)
		}
	}
	return n
}

func wait(ctx context.Context, until <-chan struct{}) bool {
	select {
	case <-until:
		return true
	case <-ctx.Done():
		return false
	}
}

// pieces cuts a text after every n runes.
func pieces(s string, n int) iter.Seq[string] {
	if n <= 0 {
		n = 5
	}
	return func(yield func(string) bool) {
		start, count := 0, 0
		for i := range s {
			if count == n {
				if !yield(s[start:i]) {
					return
				}
				start, count = i, 0
			}
			count++
		}

		if start < len(s) {
			yield(s[start:])
		}
	}
}
