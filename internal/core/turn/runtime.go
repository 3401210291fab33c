package turn

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// RuntimeKind says what a RuntimeEvent is about.
type RuntimeKind string

// The kinds of RuntimeEvent.
const (
	InputAccepted  RuntimeKind = "input_accepted" // a message is kept and begins a Turn, or joins the running one
	TurnStarted    RuntimeKind = "turn_started"
	TurnAdmitted   RuntimeKind = "turn_admitted"   // it has a slot for model work; once per round of a goal
	TurnStatus     RuntimeKind = "turn_status"     // Status is running or idle
	TurnPersisted  RuntimeKind = "turn_persisted"  // all of it is on disk
	TurnCompleted  RuntimeKind = "turn_completed"  // Turn is set
	GoalChanged    RuntimeKind = "goal_changed"    // Goal is set
	ModelChanged   RuntimeKind = "model_changed"   // by /model; Model and Preset are the new ones
	QuestionClosed RuntimeKind = "question_closed" // Question is set; its Outcome says how
)

// RuntimeEvent is something that happened to a Turn, apart from what is said in
// it. Handlers run in order, where it happens and before anything that is said
// after it, so they must not block.
type RuntimeEvent struct {
	Kind       RuntimeKind
	At         time.Time
	Route      bus.Route
	SessionKey string
	SenderID   string
	Meta       map[string]string // of the message
	TurnID     string
	Began      time.Time // of the turn
	Model      string
	Preset     string
	Status     string
	Turn       *bus.Turn
	Goal       *bus.Goal
	Question   *bus.Question
}

// tell hands an event about the turn to the program around the agent.
func (t *Turn) tell(ev RuntimeEvent) {
	ev.TurnID, ev.Began, ev.Model, ev.Preset = t.id, t.begun, t.rt.Display, t.rt.Preset
	t.engine.tell(t.msg, ev)
}

// ChangedModel tells that the conversation has another model from now on.
func (t *Turn) ChangedModel(rt Runtime) {
	t.rt = rt
	t.tell(RuntimeEvent{Kind: ModelChanged})
}

// tell hands an event about a message to all handlers. One that panics does not
// keep it from the others.
func (e *Engine) tell(m Message, ev RuntimeEvent) {
	ev.Turn, ev.Goal = redactedTurn(e.secrets, ev.Turn), redactedGoal(e.secrets, ev.Goal) // a program hears it past the door
	if ev.Question != nil {
		q := redactedQuestion(e.secrets, *ev.Question)
		ev.Question = &q
	}

	ev.At, ev.Route, ev.SessionKey, ev.SenderID, ev.Meta = e.now(), m.In.Route, m.Key, m.In.SenderID, m.In.Meta
	for _, handle := range e.opts.Events.Runtime {
		func() {
			defer func() {
				if p := recover(); p != nil {
					e.log.Error("a handler of runtime events panicked", "event", ev.Kind, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
				}
			}()
			handle(ev)
		}()
	}
}
