package owntool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// goalKey is the session metadata that holds the goal; legacyGoalKey is where
// older versions kept it.
const (
	goalKey       = "goal_state"
	legacyGoalKey = "thread_goal"
)

// The ceilings of one goal. A goal that reaches one is blocked, with a word to
// the user; /goal starts it again.
const (
	goalRounds   = 20
	goalExtended = 12
	goalTokens   = 1_000_000
	goalTime     = 2 * time.Hour
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

// Goal is the goal of a session, and whether it is open.
func Goal(s *session.Session) (g bus.Goal, active bool) {
	if !s.Meta(goalKey, &g) && !s.Meta(legacyGoalKey, &g) {
		return bus.Goal{}, false
	}
	return g, g.Open()
}

// SaveGoal keeps the goal of a session.
func SaveGoal(s *session.Session, g bus.Goal) error {
	if err := s.SetMeta(goalKey, g); err != nil {
		return err
	}
	return s.SaveMeta()
}

// Overdone says which ceiling is reached; "" if none.
func Overdone(g bus.Goal, now time.Time) string {
	switch {
	case g.Rounds > goalRounds:
		return fmt.Sprintf("it took %d rounds", goalRounds)
	case g.Extended > goalExtended:
		return fmt.Sprintf("it used up the steps of a turn %d times", goalExtended)
	case g.Tokens > goalTokens:
		return fmt.Sprintf("it used %d tokens", goalTokens)
	case now.Sub(g.StartedAt) > goalTime:
		return fmt.Sprintf("it ran for %s", goalTime)
	}
	return ""
}

// Goaled is a turn that may have a goal.
type Goaled struct {
	Session *session.Session
	Open    bool // the user set the goal with this very message
	Save    func(g bus.Goal) error
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

// Goals are the tools about a goal, offered while there is a goal.
func Goals(find func(c tool.Call) (Goaled, bool)) []tool.Tool {
	create := tool.Func(tool.Tool{
		Name: "create_goal", Description: "State the goal the user set with /goal precisely. Only right after /goal.", Trusted: true,
	}, func(_ context.Context, c tool.Call, in createGoalInput) (tool.Result, error) {
		return changeGoal(find, c, func(t Goaled, g *bus.Goal) error {
			if !t.Open {
				return errNotYourGoal
			}
			g.Objective, g.Summary, g.Untrusted = in.Objective, in.Summary, c.Tainted
			return nil
		})
	})

	update := tool.Func(tool.Tool{
		Name: "update_goal", Description: "End the goal (complete, cancel, block) or replace it. Until then you are asked to go on.", Trusted: true,
	}, func(_ context.Context, c tool.Call, in updateGoalInput) (tool.Result, error) {
		return changeGoal(find, c, func(t Goaled, g *bus.Goal) error {
			switch in.Action {
			case "complete":
				g.Status = "completed"
			case "cancel":
				g.Status = "cancelled"
			case "block":
				g.Status = "blocked"
			case "replace":
				if !t.Open {
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
func changeGoal(find func(c tool.Call) (Goaled, bool), c tool.Call, change func(Goaled, *bus.Goal) error) (tool.Result, error) {
	t, ok := find(c)
	if !ok {
		return tool.Fail(tool.Unsupported, "there is no goal here"), nil
	}

	g, active := Goal(t.Session)
	if !active {
		return tool.Fail(tool.NotFound, "there is no open goal"), nil
	}
	if err := change(t, &g); err != nil {
		return tool.Fail(tool.DeniedPolicy, "%v", err), nil
	}
	if err := t.Save(g); err != nil {
		return tool.Result{}, fmt.Errorf("keep the goal: %w", err)
	}

	res := tool.Textf("The goal is %s: %s", g.Status, g.Objective)
	res.Untrusted = g.Untrusted
	return res, nil
}
