package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// goalKey is the session metadata that holds the goal; legacyGoalKey is where
// older versions kept it.
const (
	goalKey       = "goal_state"
	legacyGoalKey = "thread_goal"
)

// The ceilings of one goal. A goal that reaches one is blocked, with a word to
// the user; /goal starts it anew.
const (
	goalRounds = 20
	goalTokens = 1_000_000
	goalTime   = 2 * time.Hour
)

// GoalOf finds the goal in the metadata of a session; nil if there is none.
func GoalOf(meta map[string]json.RawMessage) *bus.Goal {
	for _, key := range []string{goalKey, legacyGoalKey} {
		var g bus.Goal
		if v, ok := meta[key]; ok && json.Unmarshal(v, &g) == nil && g.Status != "" {
			return &g
		}
	}
	return nil
}

// PresetOf finds the model preset in the metadata of a session; "" is the usual
// model.
func PresetOf(meta map[string]json.RawMessage) (preset string) {
	_ = json.Unmarshal(meta[presetKey], &preset) // what is no name is none
	return preset
}

func (t *turn) goal() (g bus.Goal, active bool) {
	if !t.sess.Meta(goalKey, &g) && !t.sess.Meta(legacyGoalKey, &g) {
		return bus.Goal{}, false
	}
	return g, g.Open()
}

// setGoal keeps the goal and shows it.
func (t *turn) setGoal(g bus.Goal) error {
	if err := t.sess.SetMeta(goalKey, g); err != nil {
		return err
	}
	if err := t.sess.SaveMeta(); err != nil {
		return err
	}
	t.it.emit(bus.Outbound{Kind: bus.GoalState, Route: t.it.in.Route, Goal: t.shownGoal()})
	return nil
}

// shownGoal is the goal of the conversation as clients see it, nil if it has
// none.
func (t *turn) shownGoal() *bus.Goal {
	g, _ := t.goal()
	if g.Status == "" {
		return nil
	}
	g.Objective, g.Summary, g.Recap = t.Secrets.Redact(g.Objective), t.Secrets.Redact(g.Summary), t.Secrets.Redact(g.Recap)
	return &g
}

// goalTools reports whether the turn has a goal to work on.
func (t *turn) goalTools() bool {
	_, active := t.goal()
	return active
}

// runGoal is /goal. With words it sets the goal and makes them the message of a
// turn; without it tells how things stand.
func runGoal(ctx context.Context, c *Call) (Reply, error) {
	t := c.turn
	g, active := t.goal()
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
	if err := t.setGoal(bus.Goal{Status: "active", Objective: c.Args, StartedAt: t.Now()}); err != nil {
		return Reply{}, fmt.Errorf("set the goal: %w", err)
	}
	t.goalOpen = true
	t.it.in.Text = "Goal: " + c.Args
	return Reply{answered: true}, t.answer(ctx)
}

// pursue works on the goal of the session for as long as it is open: whenever
// the model comes to rest it is reminded, within the ceilings.
func (t *turn) pursue(ctx context.Context, res runner.Result) (runner.Result, error) {
	for res.Stop == runner.Completed && !t.sent {
		g, active := t.goal()
		if !active {
			return res, nil
		}
		g.Rounds++
		g.Tokens += res.Usage.Prompt + res.Usage.Completion
		if over := overdone(g, t.Now()); over != "" {
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
			t.it.emit(bus.Outbound{Kind: bus.DeltaEnd, Route: t.it.in.Route, StreamID: t.streamID(t.segment - 1), Resuming: true})
		case res.Text != "":
			t.it.emit(bus.Outbound{Kind: bus.Progress, Route: t.it.in.Route, Text: res.Text})
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

// overdone says which ceiling is reached; "" if none.
func overdone(g bus.Goal, now time.Time) string {
	switch {
	case g.Rounds > goalRounds:
		return fmt.Sprintf("it took %d rounds", goalRounds)
	case g.Tokens > goalTokens:
		return fmt.Sprintf("it used %d tokens", goalTokens)
	case now.Sub(g.StartedAt) > goalTime:
		return fmt.Sprintf("it ran for %s", goalTime)
	}
	return ""
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

type createGoalInput struct {
	Objective string `json:"objective" min:"1" max:"4000" desc:"what must be true at the end"`
	Summary   string `json:"ui_summary,omitempty" max:"120"`
}

type updateGoalInput struct {
	Action    string `json:"action" enum:"complete|cancel|block|replace"`
	Recap     string `json:"recap,omitempty" max:"8000" desc:"what was done, or what is in the way"`
	Objective string `json:"objective,omitempty" max:"4000" desc:"for replace"`
}

var errNotYourGoal = errors.New("only a turn the user started with /goal may set a goal")

// goalTools are offered while there is a goal.
func (a *Agent) goalTools() []tool.Tool {
	create := tool.Func(tool.Tool{
		Name: "create_goal", Description: "State the goal the user set with /goal precisely. Only right after /goal.", Trusted: true,
	}, func(_ context.Context, c tool.Call, in createGoalInput) (tool.Result, error) {
		return a.changeGoal(c, func(t *turn, g *bus.Goal) error {
			if !t.goalOpen {
				return errNotYourGoal
			}
			g.Objective, g.Summary, g.Untrusted = in.Objective, in.Summary, c.Tainted
			return nil
		})
	})
	update := tool.Func(tool.Tool{
		Name: "update_goal", Description: "End the goal (complete, cancel, block) or replace it. Until then you are asked to go on.", Trusted: true,
	}, func(_ context.Context, c tool.Call, in updateGoalInput) (tool.Result, error) {
		return a.changeGoal(c, func(t *turn, g *bus.Goal) error {
			switch in.Action {
			case "complete":
				g.Status = "completed"
			case "cancel":
				g.Status = "cancelled"
			case "block":
				g.Status = "blocked"
			case "replace":
				if !t.goalOpen {
					return errNotYourGoal
				}
				if in.Objective == "" {
					return errors.New("replace needs an objective")
				}
				g.Objective, g.Untrusted = in.Objective, c.Tainted
			}
			g.Recap = in.Recap
			return nil
		})
	})
	return []tool.Tool{create, update}
}

// changeGoal changes the goal of the session a call belongs to.
func (a *Agent) changeGoal(c tool.Call, change func(*turn, *bus.Goal) error) (tool.Result, error) {
	t, ok := a.turnOf(c)
	if !ok {
		return tool.Fail(tool.Unsupported, "there is no goal here"), nil
	}
	g, active := t.goal()
	if !active {
		return tool.Fail(tool.NotFound, "there is no open goal"), nil
	}
	if err := change(t, &g); err != nil {
		return tool.Fail(tool.DeniedPolicy, "%v", err), nil
	}
	if err := t.setGoal(g); err != nil {
		return tool.Result{}, fmt.Errorf("keep the goal: %w", err)
	}
	res := tool.Textf("The goal is %s: %s", g.Status, g.Objective)
	res.Untrusted = g.Untrusted
	return res, nil
}
