// Package turn answers one message: it finds the model and the folder, keeps the
// message and the mark of an open turn, composes the prompt, lets the runner work,
// shows what happens meanwhile, and closes the turn in its session. It hides prompt
// building, the goal of a session, questions to people, subagents, what is kept of a
// turn and when.
//
// An Engine never sees a mailbox: a Message brings a Sink for what is said in answer
// to it, and Around gives the turn messages that may join it and answers of people.
// The caller has one turn of a session at a time. All methods of an Engine are safe
// for concurrent use, those of a Turn are not.
package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Turn is everything that belongs to one message being answered.
type Turn struct {
	engine *Engine
	msg    Message
	around Around
	id     string
	key    string
	sess   *session.Session
	conv   *conversation
	rt     Runtime
	begun  time.Time
	over   tool.Turn // ends with the work on the message

	frame    frame         // of the last request
	rested   bool          // the conversation was silent for long before this message
	asking   chan struct{} // capacity 1: held by the question being asked
	slot     slot          // of the gate around model work
	progress *progress     // what its asker sees of it
	goal     pursuit       // of the goal, if there is one
	err      error         // why the model's answer, or a tool, failed last
	foreign  bool          // words of others came with the history
	resumed  bool          // takes up a turn that was interrupted
	folder   folder        // the folder it works in
}

// newTurn makes the turn of a message.
func (e *Engine) newTurn(m Message, a Around) *Turn {
	t := &Turn{
		engine: e, msg: m, around: a,
		id: NewID(), key: m.Key, begun: e.now(),
		slot: slot{gate: e.gate}, asking: make(chan struct{}, 1),
	}

	t.progress = &progress{
		turn: t.id, key: t.key, begun: t.begun, route: m.In.Route, meta: m.In.Meta, streams: m.In.WantsStream,
		emit: m.Sink.Emit, secrets: e.secrets, now: e.now, cost: e.opts.Models.TurnCost,
		hint: explain.Hint{Redact: e.secrets.Redact, Workspace: e.place(m.In).Workspace, Home: e.opts.Hints.Home, Chars: e.opts.Hints.Chars},
	}
	return t
}

// Begin makes the turn of a message in its session, which the caller holds until end.
func (e *Engine) Begin(sess *session.Session, m Message, a Around) (*Turn, error) {
	t := e.newTurn(m, a)
	t.sess = sess
	idle := e.opts.Memory.IdleCompact
	t.rested = idle > 0 && !sess.Updated().IsZero() && t.begun.Sub(sess.Updated()) >= idle
	if _, err := sess.Recover(e.tools.readOnly); err != nil {
		return nil, fmt.Errorf("recover session %q: %w", t.key, err)
	}
	e.attach(t)
	return t, nil
}

// End makes the turn one that cannot be found any more.
func (t *Turn) End() { t.engine.detach(t) }

// usageKey is the session metadata that holds what the last turn took, as in the
// Python version.
const usageKey = "_last_usage"

// Usage is what a turn took, in tokens.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Cached     int `json:"cached_tokens,omitempty"`
	Context    int `json:"context_tokens"` // the last prompt
	Budget     int `json:"context_budget,omitempty"`
}

// LastUsage is what the last turn of a session took.
func LastUsage(s *session.Session) (u Usage) {
	s.Meta(usageKey, &u)
	return u
}

// Session is the conversation that the turn belongs to.
func (t *Turn) Session() *session.Session { return t.sess }

// Inbound is the message that the turn answers.
func (t *Turn) Inbound() bus.Inbound { return t.msg.In }

// Why a turn ends without an answer.
var (
	// ErrStopped ends a turn that /stop ended.
	ErrStopped = errors.New("stopped")
	// ErrClosed ends turns because the program ends, and refuses messages then.
	ErrClosed = errors.New("the agent is shutting down")
)

// StopError tells a stop by the user from the end of the program.
func StopError(cause error) error {
	if errors.Is(cause, ErrClosed) || errors.Is(cause, ErrStopped) {
		return cause
	}
	return ErrStopped
}

// Answer runs a normal turn: it opens it, works on it until there is an answer and no
// goal that goes on, and closes it.
func (t *Turn) Answer(ctx context.Context) error {
	defer t.over.End()
	asked, err := t.open(ctx)
	if err != nil {
		return err
	}

	t.tell(RuntimeEvent{Kind: TurnStatus, Status: "running"})
	defer t.tell(RuntimeEvent{Kind: TurnStatus, Status: "idle"})

	// The message is in the file, which outlives this process. Making it
	// outlive the power too is done while the model is asked.
	wait := func() error { return nil } // a message from a queue is safe there
	if !t.msg.Queued {
		wait = t.syncSoon(ctx)
	}

	res, err := t.run(ctx, asked)
	if err == nil {
		res, err = t.workOn(ctx, res)
	}
	if t.msg.Extra.Ended != nil {
		t.msg.Extra.Ended(t.redacted(res))
	}

	t.over.End() // before the answer is complete, so that what comes after it finds that done
	if err := errors.Join(wait(), err); err != nil {
		return err
	}
	return t.close(ctx, res)
}

// run composes a request and lets the runner work, holding a slot of the gate.
func (t *Turn) run(ctx context.Context, asked llm.Message) (runner.Result, error) {
	if err := t.slot.enter(ctx); err != nil {
		return runner.Result{Stop: runner.Cancelled, Err: err}, nil // a stop while waiting is an ordinary end
	}

	defer t.slot.leave()
	t.tell(RuntimeEvent{Kind: TurnAdmitted})

	spec, err := t.compose(ctx, asked)
	if err != nil {
		return runner.Result{}, err
	}

	res, err := runner.Run(ctx, spec)

	t.engine.models.calibration(t.rt.Name).Observe(res.Estimated, res.Prompt)
	used, kept := t.note(res, t.frame.budget)
	t.afterTurn(used, res.Text)
	if runner.Offloaded(res.New) {
		t.pruneResults(ctx)
	}
	return res, errors.Join(err, kept)
}

// Reply answers a message without the model.
func (t *Turn) Reply(text string, plain bool) {
	t.msg.Sink.Emit(t.msg.final(text, plain, &bus.Turn{ID: t.id, SessionKey: t.key, StopReason: string(runner.Completed)}))
}

// hooks tell the turn what happens to it.
func (t *Turn) hooks() runner.Hooks {
	return runner.Hooks{
		Outside:   func(*runner.Iteration) { t.frame.described = true },
		Continues: t.goesOn,
		OnError:   func(_ context.Context, _ *runner.Iteration, err error) { t.err = err },
	}
}
