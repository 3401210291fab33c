package turn

import (
	"cmp"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Bounds of one subagent.
const (
	subagentTime   = 30 * time.Minute
	subagentTokens = 2_000_000

	subagentIterations = 15 // requests, unless the options say another number
)

// parentOf finds the turn that a call to start a subagent belongs to.
func (e *Engine) parentOf(c tool.Call) (subagent.Parent, bool) {
	t, ok := e.Running(c)
	if !ok {
		return subagent.Parent{}, false
	}
	in := t.msg.In
	return subagent.Parent{
		Session: t.key, Route: in.Route, Scope: in.Scope, Stateless: in.Stateless, Show: func(step tool.Call) { t.showStep(c, step) },
		Spec: t.subagentSpec,
	}, true
}

// showStep shows what a subagent does as the output of the call that started it,
// whose turn may be over.
func (t *Turn) showStep(started, step tool.Call) {
	deliver := t.engine.opts.Events.Deliver
	if !t.msg.In.WantsStream || deliver == nil {
		return
	}

	hint, route := t.progress.hint, t.msg.In.Route
	route.MessageID = "" // it is no part of the turn
	deliver(bus.Outbound{
		Kind: bus.ToolOutput, Route: route, Tool: &bus.Tool{CallID: started.ID, Name: started.Name},
		Text: hint.Call(step.Name, string(step.Input)) + "\n",
	})
}

// subagentSpec is the run of a subagent: the model of the turn that spawned
// it, a fresh history, and the tools that concern it alone.
func (t *Turn) subagentSpec(id, task string, tainted bool) runner.Spec {
	limits := t.engine.opts.Turns.Limits
	limits.ContextWindow, limits.ContextBlock = t.window(), t.rt.Block
	limits.Time, limits.Iterations = subagentTime, cmp.Or(t.engine.opts.Tools.Subagents.Iterations, subagentIterations)
	if limits.Tokens <= 0 || limits.Tokens > subagentTokens {
		limits.Tokens = subagentTokens
	}

	tier := prompt.TierOf(t.window())
	limits, answer := tier.Limits(limits, t.rt.MaxTokens)
	var hooks []runner.Hooks // they decide about all calls; the rest of a run is not a turn's
	for _, h := range t.programHooks() {
		hooks = append(hooks, runner.Hooks{BeforeTool: h.BeforeTool, AfterTool: h.AfterTool})
	}

	in, place := t.msg.In, t.engine.place(t.msg.In)
	return runner.Spec{
		Model: t.rt.Model, ModelName: t.rt.Name, System: t.engine.prompt.Subagent(in.Scope, place, tier),
		Messages: []llm.Message{{Role: llm.User, Content: llm.Text(task + t.folder.note(t.engine.opts.Workspace))}},
		Tools:    subagentTools(t.engine.opts.Tools.Set, t.msg.Extra, tier), MaxTokens: answer, Temperature: t.rt.Temperature, Effort: t.rt.Effort, Limits: limits,
		FailOnToolError: t.engine.opts.Tools.Subagents.FailOnToolError,
		Call: tool.Call{
			Route: in.Route, SessionKey: t.key, Scope: in.Scope, Project: t.folder.project, SenderID: in.SenderID, Person: in.Person(), TurnID: t.id, UserText: typed(in),
			Turn: &tool.Turn{}, Tainted: tainted, State: &tool.State{},
		},
		Source: cmp.Or(guestSource(in), "subagent"), Sequential: true, Hooks: hooks, Guard: t.engine.opts.Guard, Redact: t.engine.secrets.Redact,
		OffloadDir: place.Results, Scale: t.engine.models.calibration(t.rt.Name).Factor(), Log: t.engine.log.With("session", t.key, "subagent", id),
	}
}

// subagentTools are those without a conversation or other agents in them.
func subagentTools(all *tool.Set, x Extra, tier prompt.Tier) *tool.Set {
	var kept []tool.Tool
	for _, name := range all.Names() {
		if name == "cron" || name == "generate_image" || !x.offers(name) {
			continue
		}
		if tl, ok := all.Get(name); ok {
			kept = append(kept, tl)
		}
	}

	set, err := tool.NewSet(kept...)
	if err != nil {
		panic(err) // they were in a set before
	}

	if fit, err := tier.Tools(set); err == nil {
		set = fit
	}
	return set
}
