package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// note keeps what /status shows, which reaches the disk with the end of the turn,
// and returns the size of the last prompt.
func (t *Turn) note(res runner.Result, budget int) (used int, err error) {
	used = cmp.Or(res.Prompt, res.Estimated)
	t.engine.conversations.note(t.conv)
	return used, t.sess.SetMeta(usageKey, Usage{Prompt: res.Usage.Prompt, Completion: res.Usage.Completion, Cached: res.Usage.Cached, Context: used, Budget: budget})
}

// close ends the turn in its session and sends the reply.
func (t *Turn) close(ctx context.Context, res runner.Result) error {
	sum, said := t.outcome(res)
	if err := t.sess.Note(t.progress.note(*sum)); err != nil {
		return err
	}
	if res.Stop == runner.Cancelled {
		return t.closeStopped(ctx, res)
	}
	if err := t.sess.EndTurn(); err != nil {
		return fmt.Errorf("finish the turn: %w", err)
	}

	t.tell(RuntimeEvent{Kind: TurnPersisted})

	if res.ContextLimit > 0 {
		t.engine.models.windows.Store(t.rt.Name, res.ContextLimit)
		t.engine.log.WarnContext(ctx, "the model's real window is smaller than configured", "model", t.rt.Name, "window", res.ContextLimit)
	}

	t.msg.Sink.Emit(t.final(res, sum, said))
	t.tell(RuntimeEvent{Kind: TurnCompleted, Turn: sum})
	return nil
}

// closeStopped keeps what there was of the answer, and makes the history whole again.
func (t *Turn) closeStopped(ctx context.Context, res runner.Result) error {
	if res.Text != "" { // what there was of the answer, and that it is not all
		part := t.stored(llm.Message{Role: llm.Assistant, Content: llm.Text(res.Text)})
		mark := session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(session.TurnCut)}, Interrupted: true}
		if err := t.sess.Append(part, mark); err != nil {
			return fmt.Errorf("keep the beginning of the answer: %w", err)
		}
	}

	// The same repair that follows a crash makes the history whole again.
	if _, err := t.sess.Recover(t.engine.tools.readOnly); err != nil {
		return fmt.Errorf("close the stopped turn: %w", err)
	}
	return StopError(context.Cause(ctx))
}

// final is the last reply of the turn.
func (t *Turn) final(res runner.Result, sum *bus.Turn, said string) bus.Outbound {
	out := t.msg.final(said, false, sum)
	out.Streamed = res.Streamed && t.msg.In.WantsStream && !failed(res)
	if t.progress.hasAnswered() {
		out.Streamed = false // see progress.stream
		if res.Stop == runner.Completed || res.Stop == runner.EmptyFinal {
			out.Text = ""
		}
	}

	if t.goal.end != "" {
		out.Text, out.Streamed = strings.TrimSpace(out.Text+"\n\n"+t.goal.end), false
	}
	return out
}

// failed reports whether the model gave no answer.
func failed(res runner.Result) bool { return res.Stop == runner.ModelError && res.Err != nil }

// outcome is the summary of the turn, and what the person reads.
func (t *Turn) outcome(res runner.Result) (sum *bus.Turn, said string) {
	sum, said = t.summary(res), res.Text
	if failed(res) {
		sum.Error = t.explain(res.Err)
		said = strings.TrimSpace(said + "\n\n" + sum.Error) // after what there was of the answer, if it was not streamed
		if e, ok := errors.AsType[*llm.Error](res.Err); ok {
			sum.ErrorKind = string(e.Kind)
		}
	}

	if res.Stop == runner.ToolError && res.Err != nil {
		sum.Error, sum.ErrorKind = said, string(runner.ToolError)
	}
	return sum, said
}

func (t *Turn) summary(res runner.Result) *bus.Turn {
	s := &bus.Turn{
		ID:         t.id,
		SessionKey: t.key,
		Model:      t.rt.Display,
		Preset:     t.rt.Preset,
		Fallback:   res.FallbackModel,
		Window:     t.window(),
		Goal:       t.shownGoal(),
		StopReason: string(res.Stop),
		Iterations: res.Requests,
		Truncated:  res.Cut,
		Refused:    res.Refused,
		Usage: bus.Usage{
			Prompt: res.Usage.Prompt, Completion: res.Usage.Completion, Cached: res.Usage.Cached,
			Estimated: res.Usage.Estimated,
		},
		DurationMS: t.engine.now().Sub(t.begun).Milliseconds(),
		Clean:      !res.Tainted,
	}

	t.progress.price(&s.Usage)
	for _, e := range res.Tools {
		s.Tools = append(s.Tools, e.Name)
		s.Receipts = append(s.Receipts, e.Receipt)
	}
	return s
}
