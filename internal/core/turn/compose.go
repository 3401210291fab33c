package turn

import (
	"context"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// compose brings the conversation up to date, makes room for it, and describes the run.
func (t *Turn) compose(ctx context.Context, asked llm.Message) (runner.Spec, error) {
	t.conv = t.engine.conversations.of(t.key)
	t.conv.follow(t.sess)

	tier := prompt.TierOf(t.window())
	tools, err := t.chooseTools(ctx, tier)
	if err != nil {
		return runner.Spec{}, fmt.Errorf("choose tools: %w", err)
	}

	limits, answer := t.bounds(tier)
	t.frame = t.newFrame(tier, tools, runner.InputBudget(limits, answer), answer)
	if err := t.makeRoom(ctx); err != nil {
		return runner.Spec{}, err
	}

	t.warnOfSize(ctx)

	msgs, tokens := t.conv.Messages, t.conv.Total
	t.conv.Sent = len(msgs)
	if asked.Content.Blocks != nil { // pictures are sent once and remembered by name
		msgs = append(msgs[:len(msgs)-1:len(msgs)-1], transcript.WithCurrent(msgs[len(msgs)-1], asked))
		tokens = 0
	}
	return runner.Spec{
		Model:       t.rt.Model,
		ModelName:   t.rt.Name,
		System:      t.frame.system,
		Messages:    msgs,
		Tokens:      tokens,
		HeadTokens:  t.frame.head,
		Tools:       tools,
		MaxTokens:   answer,
		Temperature: t.rt.Temperature,
		Effort:      t.rt.Effort,
		Limits:      limits,
		Scale:       t.frame.scale,
		Call:        t.call(),
		Source:      source(t.msg.In),
		Guard:       t.engine.opts.Guard,
		Redact:      t.engine.secrets.Redact,
		Hooks:       append([]runner.Hooks{t.hooks(), t.progress.hooks()}, t.programHooks()...),
		OffloadDir:  t.engine.place(t.msg.In).Results,
		Record:      t.record,
		Sync:        t.sess.Sync,
		Inject:      t.inject,
		Whole:       t.msg.Queued, // its reply is kept only as the end of the turn
		Log:         t.engine.log.With("session", t.key, "turn", t.id),
	}, nil
}

// newFrame is what the requests of a run have in common, before what the session remembers.
func (t *Turn) newFrame(tier prompt.Tier, tools *tool.Set, budget, answer int) frame {
	place := t.engine.place(t.msg.In)
	if t.folder.project.Started {
		place.Folder = t.folder.project.Dir
	}

	system := t.engine.prompt.System(t.msg.In.Route.Channel, t.msg.In.Scope, place, tier)
	return frame{
		rt:        t.rt,
		base:      system,
		baseHead:  t.engine.models.headTokens(system, tier, tools),
		described: t.frame.described || tools.Foreign(),
		tools:     tools.Defs(),
		budget:    budget,
		answer:    answer,
		scale:     t.engine.models.calibration(t.rt.Name).Factor(),
	}
}

// warnOfSize tells the person if the prompt and the answer are too much for the server
// of the model.
func (t *Turn) warnOfSize(ctx context.Context) {
	if t.rt.Check == nil {
		return
	}
	if warning := t.rt.Check(ctx, t.frame.size(&t.conv.View)+t.frame.answer); warning != "" {
		t.msg.Sink.Emit(bus.Outbound{Kind: bus.Notice, Route: t.msg.In.Route, Text: warning})
	}
}

// call is what every call of a tool carries.
func (t *Turn) call() tool.Call {
	in := t.msg.In
	return tool.Call{
		Route:      in.Route,
		SessionKey: t.key,
		Scope:      in.Scope,
		Project:    t.folder.project,
		SenderID:   in.SenderID,
		Person:     in.Person(),
		TurnID:     t.id,
		Turn:       &t.over,
		UserText:   typed(in),
		State:      t.conv.state,
		Publish:    t.progress.publish,
		Ask:        t.asker(),
		Tainted:    t.tainted(),
	}
}

// bounds are the limits of the turn and of one answer, in tokens.
func (t *Turn) bounds(tier prompt.Tier) (limits runner.Limits, answer int) {
	limits = t.engine.opts.Turns.Limits
	limits.ContextWindow, limits.ContextBlock = t.window(), t.rt.Block
	limits, answer = tier.Limits(owntool.Limits(t.sess, limits), t.rt.MaxTokens)
	if owntool.Window(t.sess) > 0 && limits.ContextBlock > 0 {
		limits.ContextBlock = min(limits.ContextBlock, runner.InputBudget(runner.Limits{ContextWindow: limits.ContextWindow}, answer))
	}
	return limits, answer
}

// tainted reports whether words from outside are before the model when the
// turn begins: in its message, in what is replayed of the conversation, or in
// the summary of what is not. What memory holds of other conversations does not
// count, so that a new one begins clean.
func (t *Turn) tainted() bool {
	for i := range t.msg.In.History { // of a kept conversation these are the instructions
		if s := &t.msg.In.History[i]; !s.Clean && (s.Role == bus.RoleSystem || t.msg.In.Stateless) {
			return true
		}
	}
	return t.foreign || t.frame.described || t.msg.In.Foreign() || len(t.msg.In.Media) > 0 || t.conv.Tainted() || t.frame.outside
}

// typed is what the person wrote, "" when nothing shows that they did.
func typed(in bus.Inbound) string {
	if in.Untrusted {
		return ""
	}
	return in.Text
}

// window is how much of the model's context window the turn may use.
func (t *Turn) window() int {
	window := t.modelWindow()
	if own := owntool.Window(t.sess); own > 0 && (window <= 0 || own < window) {
		return own
	}
	return window
}

// modelWindow is the model's context window, as configured or as small as it
// turned out to be.
func (t *Turn) modelWindow() int {
	if w, ok := t.engine.models.windows.Load(t.rt.Name); ok {
		if n, ok := w.(int); ok && (t.rt.Window <= 0 || n < t.rt.Window) {
			return n
		}
	}
	return t.rt.Window
}
