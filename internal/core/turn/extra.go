package turn

import (
	"context"
	"slices"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Extra is what a message brings along for its own turn and the subagents of
// it, from a program around the agent.
type Extra struct {
	Tools     []tool.Tool    // beside those that are there anyway, not for subagents
	Offer     []string       // names of the tools that the model gets; nil is all
	Hooks     []runner.Hooks // behind those of the agent
	ModelName string         // a preset or a model, in place of the conversation's
	Model     llm.Model      // answers in place of the one that is configured
	// Ended gets the outcome of the turn before its final reply, secrets removed.
	Ended func(runner.Result)
}

// offers reports whether the model may have a tool.
func (x Extra) offers(name string) bool { return x.Offer == nil || slices.Contains(x.Offer, name) }

// tools are those of a set that the message allows, and its own.
func (x Extra) tools(set *tool.Set) (*tool.Set, error) {
	if len(x.Tools) > 0 {
		var err error
		if set, err = set.With(x.Tools...); err != nil {
			return nil, err
		}
	}

	if x.Offer == nil {
		return set, nil
	}

	var kept []tool.Tool
	for _, name := range set.Names() {
		if t, _ := set.Get(name); x.offers(name) {
			kept = append(kept, t)
		}
	}
	return tool.NewSet(kept...)
}

// runtimeFor is the model of a turn.
func (e *Engine) runtimeFor(ctx context.Context, preset string, x Extra) (Runtime, error) {
	if x.ModelName != "" {
		if preset = x.ModelName; !slices.Contains(e.opts.Models.Presets, preset) {
			preset = ModelChoice + preset
		}
	}

	rt, err := e.opts.Models.Runtime(ctx, preset)
	if x.Model != nil {
		rt.Model, rt.Check = x.Model, nil
	}
	return rt, err
}

// programHooks are the hooks of the program around the agent, which decide
// about the calls of a turn and of its subagents.
func (t *Turn) programHooks() []runner.Hooks {
	return slices.Concat(t.engine.opts.Tools.Hooks, t.msg.Extra.Hooks)
}

// redacted is an outcome as the program around the agent gets it.
func (t *Turn) redacted(res runner.Result) runner.Result {
	res.Text, res.New = t.engine.secrets.Redact(res.Text), slices.Clone(res.New)
	for i := range res.New {
		m := &res.New[i]
		m.Content.Text = t.engine.secrets.Redact(m.Content.Text)
	}
	return res
}
