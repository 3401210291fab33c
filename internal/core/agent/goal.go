package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// setGoal keeps the goal and shows it.
func (t *turn) setGoal(g bus.Goal) error {
	if err := owntool.SaveGoal(t.sess, g); err != nil {
		return err
	}
	t.env.emit(bus.Outbound{Kind: bus.GoalState, Route: t.env.in.Route, Goal: t.shownGoal()})
	tell(t, RuntimeEvent{Kind: GoalChanged, Goal: t.shownGoal()})
	return nil
}

// shownGoal is the goal of the conversation as clients see it, nil if it has
// none.
func (t *turn) shownGoal() *bus.Goal {
	g, _ := owntool.Goal(t.sess)
	if g.Status == "" {
		return nil
	}
	g.Objective, g.Summary, g.Recap = t.deps.secrets.Redact(g.Objective), t.deps.secrets.Redact(g.Summary), t.deps.secrets.Redact(g.Recap)
	return &g
}

// runGoal is /goal. With words it sets the goal and makes them the message of a
// turn; without it tells how things stand.
func runGoal(ctx context.Context, c *Call) (Reply, error) {
	t := c.turn
	g, active := owntool.Goal(t.sess)
	switch {
	case c.Args == "" && !active:
		return Say(phrase.Of(ctx, "There is no goal. /goal WORDS sets one: I then work on it round after round until it is done.")), nil
	case c.Args == "":
		return Say(phrase.Of(ctx, "Goal: %s\n%s of work so far. /goal stop ends it.", g.Objective, phrase.Count(ctx, g.Rounds, "round"))), nil
	case stopsGoal(c.Args):
		if !active {
			return Say(phrase.Of(ctx, "There is no goal to stop.")), nil
		}
		g.Status = "cancelled"
		if err := t.setGoal(g); err != nil {
			return Reply{}, fmt.Errorf("stop the goal: %w", err)
		}
		return Say(phrase.Of(ctx, "The goal is stopped.")), nil
	}
	if err := t.setGoal(bus.Goal{Status: "active", Objective: c.Args, StartedAt: t.deps.now()}); err != nil {
		return Reply{}, fmt.Errorf("set the goal: %w", err)
	}
	t.goal.open = true
	t.env.in.Text = "Goal: " + c.Args
	return Reply{answered: true}, t.answer(ctx)
}

// stopsGoal reports whether /goal ends the goal with these arguments.
func stopsGoal(args string) bool { return strings.EqualFold(args, "stop") }

// goalEnds reports whether a command waits that ends the goal: it takes its turn, so
// the goal begins no further round.
func (t *turn) goalEnds() bool {
	return slices.ContainsFunc(t.deps.mailboxes.queued(t.act), t.deps.endsGoal)
}

// endsGoal reports whether a message is a command that ends the goal.
func (a *Agent) endsGoal(it *envelope) bool {
	c, ok := a.command(it)
	return ok && c.row.EndsGoal != nil && c.row.EndsGoal(c.Args)
}

// pursuit is the work of a turn on the goal of its session.
type pursuit struct {
	open bool   // the user set the goal with this very message
	end  string // why the goal cannot go on, for the user
}

// run works on the goal for as long as it is open: whenever the model comes to
// rest, or has used up the steps of a run, it is reminded, within the ceilings.
// A goal that cannot go on is blocked, and the user reads why.
func (p *pursuit) run(ctx context.Context, t *turn, res runner.Result) (runner.Result, error) {
	for last := res; last.Stop != runner.Cancelled; {
		g, active := owntool.Goal(t.sess)
		if !active || last.Stop == runner.Completed && last.Text == "" {
			return res, nil // reached, or a question to the user has ended the turn
		}
		if t.goalEnds() {
			return res, nil
		}
		g = after(g, last)
		why := obstacle(last)
		if why == "" {
			why = owntool.Overdone(g, t.deps.now())
		}
		if why != "" {
			g.Status, g.Recap = "blocked", why
			p.end = phrase.Of(ctx, "(The goal is not finished and I stopped: %s. /goal sets it again.)", phrase.Of(ctx, why))
			if err := t.setGoal(g); err != nil {
				return res, fmt.Errorf("close the goal: %w", err)
			}
			return res, nil
		}
		if err := t.setGoal(g); err != nil {
			return res, fmt.Errorf("note the round: %w", err)
		}

		switch {
		case last.Stop == runner.MaxIterations:
			t.env.emit(bus.Outbound{Kind: bus.Notice, Route: t.env.in.Route, Text: phrase.Of(ctx, "The goal goes on, round %d.", g.Rounds+1)})
		case last.Streamed: // it looked like the last one, but its text stays and another follows
			t.env.emit(bus.Outbound{Kind: bus.DeltaEnd, Route: t.env.in.Route, StreamID: t.progress.streamID(t.progress.segment - 1), Resuming: true})
		case last.Text != "":
			t.env.emit(bus.Outbound{Kind: bus.Progress, Route: t.env.in.Route, Text: last.Text})
		}
		next, err := p.remind(t, g)
		if err != nil {
			return res, err
		}
		if last, err = t.run(ctx, next); err != nil {
			return together(res, last), err
		}
		res = together(res, last)
	}
	return res, nil
}

// after is the goal with another round of work.
func after(g bus.Goal, res runner.Result) bus.Goal {
	g.Rounds++
	g.Tokens += res.Usage.Prompt + res.Usage.Completion
	if res.Stop == runner.MaxIterations {
		g.Extended++
	}
	return g
}

// obstacle says why a goal cannot go on after a run; "" if it can.
func obstacle(res runner.Result) string {
	switch res.Stop {
	case runner.Completed, runner.MaxIterations:
		return ""
	case runner.ModelError:
		return "the model failed"
	case runner.LoopDetected:
		return "the model went in circles"
	case runner.OverBudget:
		return "the budget of the turn is used up"
	case runner.Refused:
		return "the model declined to go on"
	case runner.EmptyFinal:
		return "the model gave no answer"
	}
	return "a tool failed"
}

// continues reports whether the goal goes on when a run has used up its steps.
func (*pursuit) continues(t *turn) bool {
	g, active := owntool.Goal(t.sess)
	return active && !t.goalEnds() && owntool.Overdone(after(g, runner.Result{Stop: runner.MaxIterations}), t.deps.now()) == ""
}

// remind keeps the message that the next round begins with. What the message
// tool sent in the round before is not the answer of this one.
func (*pursuit) remind(t *turn, g bus.Goal) (llm.Message, error) {
	next := llm.Message{Role: llm.User, Content: llm.Text("[The goal is still open: " + prompt.Objective(g) +
		"\nGo on with the next step. When it is reached, impossible or waits for the user, call update_goal.]")}
	about := &session.RuntimeContext{Version: 1, Sources: []string{"time"}}
	if g.Untrusted {
		about.Sources = append(about.Sources, memory.SourceForeign)
	}
	if err := t.sess.Append(session.Record{Message: next, Internal: true, Event: "goal", Runtime: about}); err != nil {
		return next, fmt.Errorf("keep the reminder: %w", err)
	}
	t.progress.setAnswered(false)
	return next, nil
}

// together adds what two runs of one turn did; the last one has the answer.
func together(a, b runner.Result) runner.Result {
	b.New = append(a.New, b.New...)
	b.Tools = append(a.Tools, b.Tools...)
	b.Requests += a.Requests
	b.Injected = a.Injected || b.Injected
	b.Tainted = a.Tainted || b.Tainted
	b.Refused = cmp.Or(a.Refused, b.Refused)
	b.Usage.Prompt += a.Usage.Prompt
	b.Usage.Completion += a.Usage.Completion
	b.Usage.Cached += a.Usage.Cached
	b.Usage.Estimated = a.Usage.Estimated || b.Usage.Estimated
	return b
}
