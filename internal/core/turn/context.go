package turn

import (
	"context"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
)

// Context is what the model would be shown of a conversation if a person wrote
// into it now. Sizes are estimates in tokens, corrected by what the provider
// counted in earlier turns.
type Context struct {
	Model   string        `json:"model"`
	Preset  string        `json:"preset"` // "" is the default
	Problem string        `json:"problem,omitempty"`
	Window  int           `json:"window"` // 0: not known
	Budget  int           `json:"budget"` // of the window, without room for the answer; 0: not known
	Used    int           `json:"used"`
	Parts   []ContextPart `json:"parts"`
	// Messages are those shown, of so many stored ones.
	Messages int `json:"messages"`
	Stored   int `json:"stored"`
	// Last is what the provider counted for the last prompt; 0 if there was none.
	Last int `json:"last"`
}

// ContextPart is a part of a Context: identity, bootstrap, memory,
// active_skills, skills and session_memory make up the system prompt; tools and
// history follow.
type ContextPart struct {
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
	Bytes  int    `json:"bytes"` // of texts; 0 for history
	Count  int    `json:"count,omitempty"`
}

// Context measures a conversation of the owner without taking it from whoever
// works on it. The error is session.ErrNotFound when nothing is stored. Tools
// of servers count if a turn had them before.
func (e *Engine) Context(ctx context.Context, key string) (Context, error) {
	sess, err := e.opts.Sessions.Peek(key)
	if err != nil {
		return Context{}, err
	}

	defer sess.Release() //nolint:errcheck // it has no file
	channel, chat := session.Split(key)
	t := &Turn{
		engine: e, key: key, sess: sess, conv: newConversation(),
		msg: Message{In: bus.Inbound{Route: bus.Route{Channel: channel, ChatID: chat}}, Key: key},
	}
	var out Context
	sess.Meta(owntool.PresetKey, &out.Preset)

	if t.rt, err = e.opts.Models.Runtime(ctx, out.Preset); err != nil && out.Preset != "" {
		out.Problem = fmt.Sprintf("the preset %s cannot be used: %v", out.Preset, err)
		t.rt, err = e.opts.Models.Runtime(ctx, "")
	}

	if err != nil {
		if ctx.Err() != nil {
			return Context{}, err
		}
		out.Problem = err.Error()
	}

	out.Problem = e.secrets.Redact(out.Problem)
	return out, errors.Join(t.measure(ctx, &out), ctx.Err())
}

// measure fills in the sizes.
func (t *Turn) measure(ctx context.Context, out *Context) error {
	tier := prompt.TierOf(t.window())
	tools, err := t.engine.tools.known(t.toolChoice(tier), tier)
	if err != nil {
		return err
	}

	limits, answer := t.bounds(tier)
	scale := t.engine.models.calibration(t.rt.Name).Factor()
	add := func(name string, tokens, bytes, count int) {
		out.Parts = append(out.Parts, ContextPart{name, int(float64(tokens) * scale), bytes, count})
	}
	system := t.engine.prompt.Describe(t.msg.In.Route.Channel, tier, func(name, part string) { add(name, text.Tokens(part), len(part), 0) })
	head := runner.EstimateHead(system, tools.Defs())
	t.frame = frame{rt: t.rt, base: system, baseHead: head, budget: runner.InputBudget(limits, answer), answer: answer, scale: scale}
	t.complete(ctx)
	if n := len(t.frame.system) - len(system); n > 0 {
		add("session_memory", t.frame.head-head, n, 0)
	}

	size := 0
	for _, d := range tools.Defs() {
		size += len(d.Name) + len(d.Description) + len(d.Schema)
	}

	add("tools", runner.EstimateHead("", tools.Defs()), size, len(tools.Defs()))
	recs := t.sess.Messages()
	t.conv.First = t.sess.Len() - len(recs)
	for i := range recs {
		t.conv.Add(t.conv.First+i, &recs[i])
	}

	t.conv.Fit(t.frame.budget, t.frame.head, scale)
	add("history", t.conv.Total, 0, len(t.conv.Messages))
	out.Model, out.Window, out.Budget, out.Used = t.rt.Display, t.window(), t.frame.budget, t.frame.size(&t.conv.View)
	out.Messages, out.Stored = len(t.conv.Messages), t.sess.Len()
	last := LastUsage(t.sess)
	out.Last = last.Context
	return nil
}
