package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

var errTurnTime = errors.New("the turn's time limit is reached")

// request sends the governed conversation and returns the cleaned response.
// A prompt the provider calls too long is shortened and sent again.
func (r *run) request(ctx context.Context, it *Iteration, tools *tool.Set, choice string) (llm.Response, error) {
	for {
		msgs, estimate := r.govern(tools, it.extra)
		req := llm.Request{
			Model: r.ModelName, System: r.System, Messages: msgs, Tools: tools.Defs(), ToolChoice: choice,
			MaxTokens: r.MaxTokens, Temperature: r.Temperature, Effort: r.Effort, SessionKey: r.Call.SessionKey, TurnID: r.Call.TurnID, Source: r.Source, Estimate: estimate,
			ToolDeltas: r.hooks.calls,
		}

		r.res.Requests++
		resp, err := r.stream(ctx, it, req)
		if err == nil {
			r.res.Estimated, r.res.Prompt = estimate, resp.Usage.Prompt
			if resp.Usage.Prompt == 0 && resp.Usage.Completion == 0 {
				resp.Usage = llm.Usage{Prompt: estimate, Completion: text.Tokens(resp.Message.Content.String()), Estimated: true}
			}
			r.res.Usage, r.res.FallbackModel = r.res.Usage.Add(resp.Usage), resp.FallbackModel
			it.Usage = resp.Usage
			return resp, nil
		}

		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Kind != llm.ContextLength {
			return llm.Response{}, err
		}

		limit, again := r.window.shrink(e, estimate, r.MaxTokens)
		r.res.ContextLimit = cmp.Or(limit, r.res.ContextLimit)
		if !again {
			return llm.Response{}, err
		}
		r.log.WarnContext(ctx, "prompt too long for the model, shortening", "budget", r.window.budget, "session", r.Call.SessionKey)
	}
}

// shrink lowers the budget after an overflow: to what the provider said, or to
// half of what was refused. It returns the context window as far as it is known
// then, and whether another try makes sense.
func (w *window) shrink(e *llm.Error, estimate, maxTokens int) (limit int, again bool) {
	if w.overflows++; w.overflows > overflowRetries {
		return 0, false
	}

	was := w.budget
	if was <= 0 || was > estimate {
		was = estimate
	}

	w.budget = was / 2
	if e.ContextLimit <= 0 {
		return w.budget + maxTokens + safetyTokens, w.budget >= 128
	}

	if fit := InputBudget(Limits{ContextWindow: e.ContextLimit}, maxTokens); fit < was {
		w.budget = max(fit*7/10, 128)
	}
	return e.ContextLimit, w.budget >= 128
}

// stream runs one model call, forwarding deltas through the think filter.
func (r *run) stream(ctx context.Context, it *Iteration, req llm.Request) (llm.Response, error) {
	var f text.Think
	var raw, thought strings.Builder
	var saying, thinking repeater
	size := 0
	feed := func(delta string) {
		raw.WriteString(delta)
		visible, reasoning := f.Feed(delta)
		r.emit(ctx, it, &raw, &thought, visible, reasoning)
	}
	defer func() { it.said = text.StripThink(raw.String()) }()

	for ev, err := range r.Model.Stream(ctx, req) {
		if err != nil {
			if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
				err = cause
			}
			return llm.Response{}, err
		}

		piece := ev.Text
		if ev.Kind == llm.Done && raw.Len() == 0 { // it came in one piece
			piece = ev.Response.Message.Content.String()
		}

		if ev.Kind == llm.TextDelta || ev.Kind == llm.ReasoningDelta || ev.Kind == llm.Done {
			if room := r.Limits.AnswerBytes - size; len(piece) > room {
				if ev.Kind != llm.ReasoningDelta {
					feed(text.CutBytes(piece, room))
				}
				visible, reasoning := f.Close()
				r.emit(ctx, it, &raw, &thought, visible, reasoning)
				return r.overlong(ctx, it, raw.String(), thought.String()), nil
			}
			size += len(piece)
		}

		switch ev.Kind {
		case llm.TextDelta:
			feed(ev.Text)
			it.repeated = saying.add(ev.Text)
		case llm.ReasoningDelta:
			r.hooks.reasoning(ctx, it, ev.Text)
			it.repeated = thinking.add(ev.Text)
		case llm.ToolDelta, llm.HostedTool, llm.Waiting:
			r.aside(ctx, it, ev)
		case llm.Restarted:
			if r.segmentOpen {
				r.segmentOpen = false
				r.hooks.deltaVoid(ctx)
			}
			f, saying, thinking, size = text.Think{}, repeater{}, repeater{}, 0
			raw.Reset()
			thought.Reset()
			it.glue, it.streamed = "", false

		case llm.Done:
			resp := *ev.Response
			if raw.Len() == 0 { // a reply that came in one piece is shown all the same
				feed(resp.Message.Content.String())
			}

			visible, reasoning := f.Close()
			r.emit(ctx, it, &raw, &thought, visible, reasoning)
			if resp.Finish == llm.FinishLength {
				it.trail = trailingSpace(raw.String())
			}

			it.malformed = clean(&resp, thought.String())
			it.Response = &resp
			return resp, nil
		}

		if it.repeated {
			r.log.WarnContext(ctx, "the model repeats itself, stopped", "session", r.Call.SessionKey, "bytes", raw.Len())
			return llm.Response{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(text.StripThink(raw.String()))}, Finish: llm.FinishStop}, nil
		}
	}

	return llm.Response{}, &llm.Error{Kind: llm.StreamTruncated, Message: "the model's answer ended early"}
}

// aside passes on what is not part of the answer.
func (r *run) aside(ctx context.Context, it *Iteration, ev llm.Event) {
	switch ev.Kind {
	case llm.Waiting:
		r.hooks.notice(ctx, ev.Text, ev.Brief)
	case llm.ToolDelta:
		r.hooks.toolDelta(ctx, it, *ev.Tool, ev.Text)
	case llm.HostedTool:
		it.outside(ctx) // what it found is before the model now
		r.hooks.hostedTool(ctx, it, *ev.Tool)
	}
}

// overlong is the answer of a model that was stopped because it did not end: what
// came of it, and a line that says so.
func (r *run) overlong(ctx context.Context, it *Iteration, said, thought string) llm.Response {
	r.log.WarnContext(ctx, "the model's answer is too long and was cut off", "bytes", r.Limits.AnswerBytes, "session", r.Call.SessionKey)
	resp := llm.Response{Message: llm.Message{Content: llm.Text(said)}, Finish: llm.FinishStop}
	clean(&resp, thought)
	note := fmt.Sprintf("[The answer was cut off here: it is longer than %d bytes. The setting is agents.defaults.limits.maxAnswerBytes.]", r.Limits.AnswerBytes)
	if !resp.Message.Content.Blank() {
		note = "\n\n" + note
	}

	r.delta(ctx, it, note)
	resp.Message.Content.Text += note
	it.cut, it.Response = true, &resp
	return resp
}

// emit hands on what the think filter let through. The first visible text of a
// continued answer gets back the white space that was trimmed where the two
// parts meet.
func (r *run) emit(ctx context.Context, it *Iteration, raw, thought *strings.Builder, visible, reasoning string) {
	if reasoning != "" {
		thought.WriteString(reasoning)
		r.hooks.reasoning(ctx, it, reasoning)
	}

	if visible == "" {
		return
	}

	if r.fragments != "" && !it.streamed {
		before, _, _ := strings.Cut(raw.String(), visible)
		it.glue = r.trail + trailingSpace(before)
		visible = it.glue + visible
	}

	r.delta(ctx, it, visible)
}

func trailingSpace(s string) string { return s[len(strings.TrimRight(s, " \t\r\n")):] }

// clean takes inline thinking out of the text, drops calls without a name and
// reports whether that left none although the model wanted tools.
func clean(resp *llm.Response, inline string) (malformed bool) {
	m := &resp.Message
	m.Role = llm.Assistant
	if m.Content.Blocks == nil {
		m.Content.Text = text.StripThink(m.Content.Text)
	}
	if inline != "" && !m.HasReasoning {
		m.Reasoning, m.HasReasoning = inline, true
	}
	if len(m.Thinking) > 0 && !m.HasReasoning {
		m.HasReasoning = true
	}

	kept := m.ToolCalls[:0:0]
	for _, c := range m.ToolCalls {
		if c.Name != "" {
			kept = append(kept, c)
		}
	}

	malformed = len(kept) == 0 && len(m.ToolCalls) > 0
	m.ToolCalls = kept
	return malformed || (resp.Finish == llm.FinishToolCalls && len(kept) == 0 && m.Content.Blank())
}

func (r *run) delta(ctx context.Context, it *Iteration, s string) {
	r.segmentOpen = true
	it.streamed = true
	r.hooks.delta(ctx, it, s)
}

// closeSegment ends the visible message that deltas were building.
func (r *run) closeSegment(ctx context.Context, resuming bool) {
	if r.segmentOpen {
		r.segmentOpen = false
		r.hooks.deltaEnd(ctx, resuming)
	}
}

// record keeps messages and makes them part of the conversation. It works
// although the turn was cancelled: what exists must not be lost.
func (r *run) record(ctx context.Context, msgs ...llm.Message) error {
	if err := r.Record(context.WithoutCancel(ctx), msgs...); err != nil {
		return fmt.Errorf("record the turn: %w", err)
	}
	r.added = append(r.added, msgs...)
	return nil
}

// drain takes over user messages that arrived meanwhile and reports whether
// the run goes on with them.
func (r *run) drain(ctx context.Context) bool {
	if r.Inject == nil || r.drains >= drainCycles || ctx.Err() != nil {
		return false
	}

	in, outside := r.Inject(ctx, perDrain)
	if len(in) == 0 {
		return false
	}

	if outside {
		r.tainted.Store(true)
	}

	r.drains++
	r.res.Injected = true
	r.added = append(r.added, in...)
	r.transient, r.fragments = nil, ""
	return true
}
