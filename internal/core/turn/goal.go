package turn

import (
	"cmp"
	"context"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// SetGoal keeps the goal and shows it.
func (t *Turn) SetGoal(g bus.Goal) error {
	if err := owntool.SaveGoal(t.sess, g); err != nil {
		return err
	}
	t.msg.Sink.Emit(bus.Outbound{Kind: bus.GoalState, Route: t.msg.In.Route, Goal: t.shownGoal()})
	t.tell(RuntimeEvent{Kind: GoalChanged, Goal: t.shownGoal()})
	return nil
}

// Pursue makes a message that sets a goal a turn that works on it.
func (t *Turn) Pursue(ctx context.Context, objective string) error {
	if err := t.SetGoal(bus.Goal{Status: "active", Objective: objective, StartedAt: t.engine.now()}); err != nil {
		return fmt.Errorf("set the goal: %w", err)
	}
	t.goal.open = true
	t.msg.In.Text = "Goal: " + objective
	return t.Answer(ctx)
}

// shownGoal is the goal of the conversation as clients see it, nil if it has
// none.
func (t *Turn) shownGoal() *bus.Goal {
	g, _ := owntool.Goal(t.sess)
	if g.Status == "" {
		return nil
	}
	return &g
}

// pursuit is the work of a turn on the goal of its session.
type pursuit struct {
	open bool   // the user set the goal with this very message
	end  string // why the goal cannot go on, for the user
}

// workOn works on the goal for as long as it is open: whenever the model comes to
// rest, or has used up the steps of a run, it is reminded, within the ceilings.
// A goal that cannot go on is blocked, and the user reads why.
func (t *Turn) workOn(ctx context.Context, res runner.Result) (runner.Result, error) {
	for last := res; last.Stop != runner.Cancelled; {
		g, active := owntool.Goal(t.sess)
		if !active || last.Stop == runner.Completed && last.Text == "" {
			return res, nil // reached, or a question to the user has ended the turn
		}
		if t.around.EndsGoal() {
			return res, nil
		}

		g = after(g, last)
		why := obstacle(last)
		if why == "" {
			why = owntool.Overdone(g, t.engine.now())
		}

		if why != "" {
			g.Status, g.Recap = "blocked", why
			t.goal.end = phrase.Of(ctx, "(The goal is not finished and I stopped: %s. /goal sets it again.)", phrase.Of(ctx, why))
			if err := t.SetGoal(g); err != nil {
				return res, fmt.Errorf("close the goal: %w", err)
			}
			return res, nil
		}

		if err := t.SetGoal(g); err != nil {
			return res, fmt.Errorf("note the round: %w", err)
		}

		switch {
		case last.Stop == runner.MaxIterations:
			t.msg.Sink.Emit(bus.Outbound{Kind: bus.Notice, Route: t.msg.In.Route, Text: phrase.Of(ctx, "The goal goes on, round %d.", g.Rounds+1)})
		case last.Streamed: // it looked like the last one, but its text stays and another follows
			t.msg.Sink.Emit(bus.Outbound{Kind: bus.DeltaEnd, Route: t.msg.In.Route, StreamID: t.progress.streamID(t.progress.segment - 1), Resuming: true})
		case last.Text != "":
			t.msg.Sink.Emit(bus.Outbound{Kind: bus.Progress, Route: t.msg.In.Route, Text: last.Text})
		}

		next, err := t.remind(g)
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

// goesOn reports whether the goal goes on when a run has used up its steps.
func (t *Turn) goesOn() bool {
	g, active := owntool.Goal(t.sess)
	return active && !t.around.EndsGoal() && owntool.Overdone(after(g, runner.Result{Stop: runner.MaxIterations}), t.engine.now()) == ""
}

// remind keeps the message that the next round begins with. What the message
// tool sent in the round before is not the answer of this one.
func (t *Turn) remind(g bus.Goal) (llm.Message, error) {
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
