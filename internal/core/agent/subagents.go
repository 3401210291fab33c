package agent

import (
	"cmp"
	"context"
	"errors"
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

// Quiet waits until no subagent works and all results were handled.
func (a *Agent) Quiet(ctx context.Context) error { return a.deps.subagents.Quiet(ctx) }

// Working is how many subagents run or have a result that is not handled yet.
func (a *Agent) Working() int { return a.deps.subagents.Working() }

// Subagents are the ids of those that run for a conversation.
func Subagents(a *Agent, key string) []string { return a.deps.subagents.Running(key) }

// subagentHost is what subagents need of this agent.
func (a *Agent) subagentHost() subagent.Host {
	return subagent.Host{Go: a.deps.mailboxes.spawn, Enter: a.deps.gate.enter, Leave: a.deps.gate.leave, Announce: a.announce, Now: a.deps.now, Log: a.deps.log}
}

// announce hands the result of a subagent to the queue, or runs its turn when
// there is no queue for it.
func (a *Agent) announce(ctx context.Context, in bus.Inbound) bool {
	handed, err := a.hand(ctx, in)
	if err == nil && !handed {
		err = a.deliver(context.WithoutCancel(ctx), in)
	}
	if err != nil && !errors.Is(err, ErrClosed) {
		a.deps.log.WarnContext(ctx, "announce a subagent", "message", in.ID, "err", err)
	}
	return err == nil
}

// deliver runs the turn of a message that nobody waits for.
func (a *Agent) deliver(ctx context.Context, in bus.Inbound) error {
	for out, err := range a.Ask(ctx, in) {
		if err != nil {
			return err
		}
		if a.deps.opts.Events.Deliver != nil {
			a.deps.opts.Events.Deliver(out)
		}
	}
	return nil
}

// parentOf finds the turn that a call to start a subagent belongs to.
func (a *Agent) parentOf(c tool.Call) (subagent.Parent, bool) {
	t, ok := a.deps.mailboxes.turnOf(c)
	if !ok {
		return subagent.Parent{}, false
	}
	in := t.env.in
	return subagent.Parent{
		Session: t.key, Route: in.Route, Scope: in.Scope, Stateless: in.Stateless, Show: func(step tool.Call) { showStep(t, c, step) },
		Spec: func(id, task string, tainted bool) runner.Spec { return subagentSpec(t, id, task, tainted) },
	}, true
}

// showStep shows what a subagent does as the output of the call that started it,
// whose turn may be over.
func showStep(t *turn, started, step tool.Call) {
	deliver := t.deps.opts.Events.Deliver
	if !t.env.in.WantsStream || deliver == nil {
		return
	}
	hint, route := t.progress.hint, t.env.in.Route
	route.MessageID = "" // it is no part of the turn
	deliver(bus.Outbound{
		Kind: bus.ToolOutput, Route: route, Tool: &bus.Tool{CallID: started.ID, Name: started.Name},
		Text: hint.Call(step.Name, string(step.Input)) + "\n",
	})
}

// subagentSpec is the run of a subagent: the model of the turn that spawned
// it, a fresh history, and the tools that concern nobody but itself.
func subagentSpec(t *turn, id, task string, tainted bool) runner.Spec {
	limits := t.deps.opts.Turns.Limits
	limits.ContextWindow, limits.ContextBlock = t.window(), t.rt.Block
	limits.Time, limits.Iterations = subagentTime, cmp.Or(t.deps.opts.Tools.Subagents.Iterations, subagentIterations)
	if limits.Tokens <= 0 || limits.Tokens > subagentTokens {
		limits.Tokens = subagentTokens
	}
	tier := prompt.TierOf(t.window())
	limits, answer := tier.Limits(limits, t.rt.MaxTokens)
	var hooks []runner.Hooks // they decide about all calls; the rest of a run is not a turn's
	for _, h := range programHooks(t) {
		hooks = append(hooks, runner.Hooks{BeforeTool: h.BeforeTool, AfterTool: h.AfterTool})
	}
	in, place := t.env.in, t.deps.place(t.env.in)
	return runner.Spec{
		Model: t.rt.Model, ModelName: t.rt.Name, System: t.deps.prompt.Subagent(in.Scope, place, tier),
		Messages: []llm.Message{{Role: llm.User, Content: llm.Text(task + t.folder.note(t.deps.opts.Workspace))}},
		Tools:    subagentTools(t.deps.opts.Tools.Set, t.env.extra, tier), MaxTokens: answer, Temperature: t.rt.Temperature, Effort: t.rt.Effort, Limits: limits,
		FailOnToolError: t.deps.opts.Tools.Subagents.FailOnToolError,
		Call: tool.Call{
			Route: in.Route, SessionKey: t.key, Scope: in.Scope, Project: t.folder.project, SenderID: in.SenderID, Person: in.Person(), TurnID: t.id, UserText: typed(in),
			Turn: &tool.Turn{}, Tainted: tainted, State: &tool.State{},
		},
		Source: cmp.Or(guestSource(in), "subagent"), Sequential: true, Hooks: hooks, Guard: t.deps.opts.Guard, Redact: t.deps.secrets.Redact,
		OffloadDir: place.Results, Scale: t.deps.models.calibration(t.rt.Name).Factor(), Log: t.deps.log.With("session", t.key, "subagent", id),
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
