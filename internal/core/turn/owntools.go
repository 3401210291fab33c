package turn

import (
	"context"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/core/turn/sessiontool"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// ownTools makes the tools about the agent itself: those that are always there, those
// of a goal, and those of the owner.
func (e *Engine) ownTools(h Host) (err error) {
	send := owntool.Messenger{Elsewhere: h.Elsewhere}
	if e.opts.Guard != nil {
		send.Media = e.opts.Guard.Media
	}

	list := append([]tool.Tool{owntool.AskUser()}, e.subagents.Tools(e.parentOf)...)
	list = append(list, owntool.My(e.opts.Tools.My, e.shownTo)...)
	list = append(list, owntool.Message(send))
	e.tools.goal = owntool.Goals(e.goaled)
	e.tools.owner = sessiontool.Tools(e.opts.Tools.Sessions, sessiontool.Host{
		Sessions: e.opts.Sessions, Outside: transcript.FromOutside, Now: e.now, Send: h.Send,
	})
	if e.tools.fixed, err = e.opts.Tools.Set.With(list...); err != nil {
		return fmt.Errorf("agent tools: %w", err)
	}
	return nil
}

// goaled finds the turn of a call about its goal.
func (e *Engine) goaled(c tool.Call) (owntool.Goaled, bool) {
	t, ok := e.Running(c)
	if !ok {
		return owntool.Goaled{}, false
	}
	return owntool.Goaled{Session: t.sess, Open: t.goal.open, Save: t.SetGoal}, true
}

// shownTo is what the my tool shows in the turn of a call.
func (e *Engine) shownTo(ctx context.Context, c tool.Call) (owntool.Conversation, bool) {
	t, ok := e.Running(c)
	if !ok {
		return owntool.Conversation{}, false
	}

	o, in := t.engine.opts, t.msg.In
	limits := o.Turns.Limits
	limits.ContextWindow = t.window()
	limits = owntool.Limits(t.sess, limits)
	last := LastUsage(t.sess)
	return owntool.Conversation{
		Session: t.sess, Presets: o.Models.Presets, Futile: t.futile,
		Try: func(preset string) error {
			if in.Preset != "" || t.msg.Extra.ModelName != "" {
				return errors.New("what began this turn chooses the model itself")
			}
			_, err := o.Models.Runtime(ctx, preset)
			return err
		},
		Values: map[string]any{
			"max_iterations": limits.Iterations, "context_window_tokens": limits.ContextWindow, "model": t.rt.Display,
			"model_preset": t.rt.Preset, "presets": o.Models.Presets, "workspace": t.engine.place(in).Workspace, "max_tool_result_chars": limits.ToolResultChars,
			"usage.prompt_tokens": last.Prompt, "usage.completion_tokens": last.Completion, "messages": t.sess.Len(),
			"request.channel": in.Route.Channel, "request.chat_id": in.Route.ChatID, "request.sender_id": in.SenderID,
			"version": o.Version,
		},
	}, true
}

// futile says why the my tool would change nothing by a number.
func (t *Turn) futile(key string, n int) string {
	window := t.modelWindow()
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
