package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/agent/owntool"
	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/session"
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
		return Say("There is no goal. /goal WORDS sets one: I then work on it round after round until it is done."), nil
	case c.Args == "":
		return Say(fmt.Sprintf("Goal: %s\n%s of work so far. /goal stop ends it.", g.Objective, plural(g.Rounds, "round"))), nil
	case strings.EqualFold(c.Args, "stop"):
		if !active {
			return Say("There is no goal to stop."), nil
		}
		g.Status = "cancelled"
		if err := t.setGoal(g); err != nil {
			return Reply{}, fmt.Errorf("stop the goal: %w", err)
		}
		return Say("The goal is stopped."), nil
	}
	if err := t.setGoal(bus.Goal{Status: "active", Objective: c.Args, StartedAt: t.deps.now()}); err != nil {
		return Reply{}, fmt.Errorf("set the goal: %w", err)
	}
	t.goalOpen = true
	t.env.in.Text = "Goal: " + c.Args
	return Reply{answered: true}, t.answer(ctx)
}

// pursue works on the goal of the session for as long as it is open: whenever
// the model comes to rest it is reminded, within the ceilings.
func (t *turn) pursue(ctx context.Context, res runner.Result) (runner.Result, error) {
	for res.Stop == runner.Completed && !t.sent {
		g, active := owntool.Goal(t.sess)
		if !active {
			return res, nil
		}
		g.Rounds++
		g.Tokens += res.Usage.Prompt + res.Usage.Completion
		if over := owntool.Overdone(g, t.deps.now()); over != "" {
			g.Status, g.Recap = "blocked", over
			if err := t.setGoal(g); err != nil {
				return res, fmt.Errorf("close the goal: %w", err)
			}
			res.Text = strings.TrimSpace(res.Text + "\n\n(The goal is not finished and I stopped: " + over + ". /goal sets it again.)")
			res.Streamed = false
			return res, nil
		}
		if err := t.setGoal(g); err != nil {
			return res, fmt.Errorf("note the round: %w", err)
		}
		switch {
		case res.Streamed: // it looked like the last one, but its text stays and another follows
			t.env.emit(bus.Outbound{Kind: bus.DeltaEnd, Route: t.env.in.Route, StreamID: t.streamID(t.segment - 1), Resuming: true})
		case res.Text != "":
			t.env.emit(bus.Outbound{Kind: bus.Progress, Route: t.env.in.Route, Text: res.Text})
		}
		next := llm.Message{Role: llm.User, Content: llm.Text("[The goal is still open: " + prompt.Objective(g) +
			"\nGo on with the next step. When it is reached, impossible or waits for the user, call update_goal.]")}
		about := &session.RuntimeContext{Version: 1, Sources: []string{"time"}}
		if g.Untrusted {
			about.Sources = append(about.Sources, memory.SourceForeign)
		}
		if err := t.sess.Append(session.Record{Message: next, Internal: true, Event: "goal", Runtime: about}); err != nil {
			return res, fmt.Errorf("keep the reminder: %w", err)
		}
		more, err := t.run(ctx, next)
		res = together(res, more)
		if err != nil {
			return res, err
		}
	}
	return res, nil
}

// together adds what two runs of one turn did; the last one has the answer.
func together(a, b runner.Result) runner.Result {
	b.New = append(a.New, b.New...)
	b.Tools = append(a.Tools, b.Tools...)
	b.Requests += a.Requests
	b.Injected = a.Injected || b.Injected
	b.Tainted = a.Tainted || b.Tainted
	b.Usage.Prompt += a.Usage.Prompt
	b.Usage.Completion += a.Usage.Completion
	b.Usage.Cached += a.Usage.Cached
	b.Usage.Estimated = a.Usage.Estimated || b.Usage.Estimated
	return b
}
