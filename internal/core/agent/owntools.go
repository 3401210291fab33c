package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// ownTools are the tools about the agent itself that are always there.
func (a *Agent) ownTools() []tool.Tool {
	send := owntool.Messenger{}
	if a.deps.opts.Guard != nil {
		send.Media = a.deps.opts.Guard.Media
	}
	if a.deps.opts.Events.Elsewhere != nil {
		send.Elsewhere = a.elsewhere
	}
	list := append([]tool.Tool{owntool.AskUser()}, a.deps.subagents.Tools(a.parentOf)...)
	list = append(list, owntool.My(a.deps.opts.Tools.My, a.shownTo)...)
	return append(list, owntool.Message(send))
}

// goaled finds the turn of a call about its goal.
func (a *Agent) goaled(c tool.Call) (owntool.Goaled, bool) {
	t, ok := a.deps.mailboxes.turnOf(c)
	if !ok {
		return owntool.Goaled{}, false
	}
	return owntool.Goaled{Session: t.sess, Open: t.goal.open, Save: t.setGoal}, true
}

// shownTo is what the my tool shows in the turn of a call.
func (a *Agent) shownTo(ctx context.Context, c tool.Call) (owntool.Conversation, bool) {
	t, ok := a.deps.mailboxes.turnOf(c)
	if !ok {
		return owntool.Conversation{}, false
	}
	o, in := t.deps.opts, t.env.in
	limits := o.Turns.Limits
	limits.ContextWindow = t.window()
	limits = owntool.Limits(t.sess, limits)
	var last lastUsage
	t.sess.Meta(usageKey, &last)
	return owntool.Conversation{
		Session: t.sess, Presets: o.Models.Presets, Futile: func(key string, n int) string { return futile(t, key, n) },
		Try: func(preset string) error {
			if in.Preset != "" || t.env.extra.ModelName != "" {
				return errors.New("what began this turn chooses the model itself")
			}
			_, err := o.Models.Runtime(ctx, preset)
			return err
		},
		Values: map[string]any{
			"max_iterations": limits.Iterations, "context_window_tokens": limits.ContextWindow, "model": t.rt.Display,
			"model_preset": t.rt.Preset, "presets": o.Models.Presets, "workspace": t.deps.place(in).Workspace, "max_tool_result_chars": limits.ToolResultChars,
			"usage.prompt_tokens": last.Prompt, "usage.completion_tokens": last.Completion, "messages": t.sess.Len(),
			"request.channel": in.Route.Channel, "request.chat_id": in.Route.ChatID, "request.sender_id": in.SenderID,
			"version": o.Version,
		},
	}, true
}

// futile says why the my tool would change nothing by a number.
func futile(t *turn, key string, n int) string {
	window := modelWindow(t)
	switch results := prompt.TierOf(window).Results; {
	case key == "context_window_tokens" && window > 0 && n > window:
		return fmt.Sprintf("the model's window has %d tokens, and it can be used less, not made larger", window)
	case key == "context_window_tokens" && t.rt.Block > 0 && runner.InputBudget(runner.Limits{ContextWindow: n}, t.rt.MaxTokens) >= t.rt.Block:
		return fmt.Sprintf("contextBlockLimit of the configuration bounds prompts to %d tokens already", t.rt.Block)
	case key == "max_tool_result_chars" && results > 0 && n > results:
		return fmt.Sprintf("the model's window is small, so a result has at most %d characters", results)
	}
	return ""
}

// elsewhere sends to another chat and notes it in the conversation there, so
// that an answer is understood.
func (a *Agent) elsewhere(ctx context.Context, c tool.Call, out bus.Outbound) error {
	out.Text = a.deps.secrets.Redact(out.Text)
	to, err := a.deps.opts.Events.Elsewhere(ctx, out)
	if err != nil {
		return err
	}
	said := mirrored{
		key: a.deps.keyOf(bus.Inbound{Route: to}), id: c.TurnID + "/" + c.ID, text: out.Text,
		note: "[In another conversation the user had what follows sent to this chat.]",
		// What tools brought in may be text of other people.
		in: bus.Inbound{Route: c.Route, Untrusted: c.Tainted},
	}
	if said.key != c.SessionKey {
		a.mirrorLater(said)
	}
	return nil
}
