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
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
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

// End lets nobody find the turn any more.
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

// open finds the model and the folder, names the conversation, and keeps the message
// with the mark of an open turn. It returns what the model is to answer.
func (t *Turn) open(ctx context.Context) (asked llm.Message, err error) {
	rt, err := t.chooseModel(ctx)
	if err != nil {
		return asked, err
	}
	t.rt = rt
	t.enterProject(ctx)

	if err = t.beginRun(); err != nil {
		return asked, err
	}
	if err = t.keepTitle(); err != nil {
		return asked, fmt.Errorf("keep the title: %w", err)
	}
	rec, asked := t.question(ctx)
	if err = t.sess.BeginTurn(t.id, rec); err != nil {
		return asked, fmt.Errorf("keep the message: %w", err)
	}

	t.tell(RuntimeEvent{Kind: InputAccepted})
	t.tell(RuntimeEvent{Kind: TurnStarted})
	return asked, nil
}

// chooseModel is the model that answers: what the message or the conversation asks for.
func (t *Turn) chooseModel(ctx context.Context) (Runtime, error) {
	var preset string
	t.sess.Meta(owntool.PresetKey, &preset)
	if t.msg.In.Preset != "" {
		preset = t.msg.In.Preset
	}
	rt, err := t.engine.runtimeFor(ctx, preset, t.msg.Extra)
	if err != nil && preset != "" && t.msg.In.Preset == "" && t.msg.Extra.ModelName == "" {
		// The preset is gone or unusable; the conversation goes on with the default.
		t.engine.log.WarnContext(ctx, "model preset unusable", "session", t.key, "preset", preset, "err", err)
		rt, err = t.engine.runtimeFor(ctx, "", t.msg.Extra)
	}
	return rt, err
}

// groupCommit is how long the sync of a user's message may be put off, in the
// hope that the sync at the end of a quick turn serves for both.
const groupCommit = 20 * time.Millisecond

// syncSoon makes what was written durable within groupCommit, beside the turn.
// The returned func waits for that, or calls it off because the end of the
// turn syncs anyway.
func (t *Turn) syncSoon(ctx context.Context) (wait func() error) {
	over := make(chan struct{})
	synced := make(chan error, 1) // the goroutine never blocks on it
	go func() {
		timer := time.NewTimer(groupCommit)
		defer timer.Stop()
		select {
		case <-timer.C:
			synced <- t.sess.Sync(context.WithoutCancel(ctx))
		case <-over:
			synced <- nil
		}
	}()
	return func() error { close(over); return <-synced }
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

// compose brings the conversation up to date, makes room for it, and describes the run.
func (t *Turn) compose(ctx context.Context, asked llm.Message) (runner.Spec, error) {
	t.conv = t.engine.conversations.of(t.key)
	t.conv.follow(t.sess)

	tier := prompt.TierOf(t.window())
	tools, err := t.chooseTools(ctx, tier)
	if err != nil {
		return runner.Spec{}, fmt.Errorf("choose tools: %w", err)
	}
	limits, answer := t.bounds(tier)
	t.frame = t.newFrame(tier, tools, runner.InputBudget(limits, answer), answer)
	if err := t.makeRoom(ctx); err != nil {
		return runner.Spec{}, err
	}
	t.warnOfSize(ctx)

	msgs, tokens := t.conv.Messages, t.conv.Total
	t.conv.Sent = len(msgs)
	if asked.Content.Blocks != nil { // pictures are sent once and remembered by name
		msgs = append(msgs[:len(msgs)-1:len(msgs)-1], transcript.WithCurrent(msgs[len(msgs)-1], asked))
		tokens = 0
	}
	return runner.Spec{
		Model:       t.rt.Model,
		ModelName:   t.rt.Name,
		System:      t.frame.system,
		Messages:    msgs,
		Tokens:      tokens,
		HeadTokens:  t.frame.head,
		Tools:       tools,
		MaxTokens:   answer,
		Temperature: t.rt.Temperature,
		Effort:      t.rt.Effort,
		Limits:      limits,
		Scale:       t.frame.scale,
		Call:        t.call(),
		Source:      source(t.msg.In),
		Guard:       t.engine.opts.Guard,
		Redact:      t.engine.secrets.Redact,
		Hooks:       append([]runner.Hooks{t.hooks(), t.progress.hooks()}, t.programHooks()...),
		OffloadDir:  t.engine.place(t.msg.In).Results,
		Record:      t.record,
		Sync:        t.sess.Sync,
		Inject:      t.inject,
		Whole:       t.msg.Queued, // its reply is kept only as the end of the turn
		Log:         t.engine.log.With("session", t.key, "turn", t.id),
	}, nil
}

// newFrame is what the requests of a run have in common, before what the session remembers.
func (t *Turn) newFrame(tier prompt.Tier, tools *tool.Set, budget, answer int) frame {
	place := t.engine.place(t.msg.In)
	if t.folder.project.Started {
		place.Folder = t.folder.project.Dir
	}
	system := t.engine.prompt.System(t.msg.In.Route.Channel, t.msg.In.Scope, place, tier)
	return frame{
		rt:        t.rt,
		base:      system,
		baseHead:  t.engine.models.headTokens(system, tier, tools),
		described: t.frame.described || tools.Foreign(),
		tools:     tools.Defs(),
		budget:    budget,
		answer:    answer,
		scale:     t.engine.models.calibration(t.rt.Name).Factor(),
	}
}

// warnOfSize tells the person if the prompt and the answer are too much for the server
// of the model.
func (t *Turn) warnOfSize(ctx context.Context) {
	if t.rt.Check == nil {
		return
	}
	if warning := t.rt.Check(ctx, t.frame.size(&t.conv.View)+t.frame.answer); warning != "" {
		t.msg.Sink.Emit(bus.Outbound{Kind: bus.Notice, Route: t.msg.In.Route, Text: warning})
	}
}

// call is what every call of a tool carries.
func (t *Turn) call() tool.Call {
	in := t.msg.In
	return tool.Call{
		Route:      in.Route,
		SessionKey: t.key,
		Scope:      in.Scope,
		Project:    t.folder.project,
		SenderID:   in.SenderID,
		Person:     in.Person(),
		TurnID:     t.id,
		Turn:       &t.over,
		UserText:   typed(in),
		State:      t.conv.state,
		Publish:    t.progress.publish,
		Ask:        t.asker(),
		Tainted:    t.tainted(),
	}
}

// bounds are the limits of the turn and of one answer, in tokens.
func (t *Turn) bounds(tier prompt.Tier) (limits runner.Limits, answer int) {
	limits = t.engine.opts.Turns.Limits
	limits.ContextWindow, limits.ContextBlock = t.window(), t.rt.Block
	limits, answer = tier.Limits(owntool.Limits(t.sess, limits), t.rt.MaxTokens)
	if owntool.Window(t.sess) > 0 && limits.ContextBlock > 0 {
		limits.ContextBlock = min(limits.ContextBlock, runner.InputBudget(runner.Limits{ContextWindow: limits.ContextWindow}, answer))
	}
	return limits, answer
}

// tainted reports whether words from outside are before the model when the
// turn begins: in its message, in what is replayed of the conversation, or in
// the summary of what is not. What memory holds of other conversations does not
// count, so that a new one begins clean.
func (t *Turn) tainted() bool {
	for i := range t.msg.In.History { // of a kept conversation these are the instructions
		if s := &t.msg.In.History[i]; !s.Clean && (s.Role == bus.RoleSystem || t.msg.In.Stateless) {
			return true
		}
	}
	return t.foreign || t.frame.described || t.msg.In.Foreign() || len(t.msg.In.Media) > 0 || t.conv.Tainted() || t.frame.outside
}

// typed is what the person wrote, "" when nothing shows that they did.
func typed(in bus.Inbound) string {
	if in.Untrusted {
		return ""
	}
	return in.Text
}

// window is how much of the model's context window the turn may use.
func (t *Turn) window() int {
	window := t.modelWindow()
	if own := owntool.Window(t.sess); own > 0 && (window <= 0 || own < window) {
		return own
	}
	return window
}

// modelWindow is the model's context window, as configured or as small as it
// turned out to be.
func (t *Turn) modelWindow() int {
	if w, ok := t.engine.models.windows.Load(t.rt.Name); ok {
		if n, ok := w.(int); ok && (t.rt.Window <= 0 || n < t.rt.Window) {
			return n
		}
	}
	return t.rt.Window
}

// record keeps messages of the turn the moment they exist.
func (t *Turn) record(_ context.Context, msgs ...llm.Message) error {
	recs := make([]session.Record, len(msgs))
	for i, m := range msgs {
		failure := ""
		if m.Role == llm.Assistant && m.IsError {
			failure, m.IsError = t.failure(m), false
		}
		recs[i] = t.stored(m)
		recs[i].Failure = failure
	}
	return t.sess.Append(recs...)
}

// failure is what the person reads instead of an answer, from the message that
// stands for it in the history. It is stored with that message: the process may
// end before the person has read it.
func (t *Turn) failure(m llm.Message) string {
	said := m.Content.String()
	if _, fatal := errors.AsType[*tool.FatalError](t.err); fatal || t.err == nil {
		return t.engine.secrets.Redact(said)
	}
	if said == runner.NoAnswer {
		said = ""
	}
	return strings.TrimSpace(t.engine.secrets.Redact(said) + "\n\n" + t.explain(t.err))
}

// explain says in words for the person why the turn failed.
func (t *Turn) explain(err error) string {
	say := explain.Kept
	if t.msg.In.Stateless || t.msg.In.Event != "" { // there is no conversation to go on with, or it is another one
		say = explain.In
	}
	return t.engine.secrets.Redact(say(t.msg.Reader(), err, t.rt.Display))
}

// stored is a message of the turn as it is kept.
func (t *Turn) stored(m llm.Message) session.Record {
	m.Content.Text = t.engine.secrets.Redact(m.Content.Text)
	rec := session.Record{Message: transcript.Storable(m)}
	if m.Role == llm.ToolRole {
		c := t.progress.of(m.ToolCallID)
		rec.LatencyMS, rec.Denied = c.ms, c.denied
	}
	if t.frame.described && m.Role == llm.Assistant { // nothing else in the log says it
		rec.Runtime = &session.RuntimeContext{Version: 1, Sources: []string{memory.SourceForeign}}
	}
	return rec
}

// note keeps what /status shows, which reaches the disk with the end of the turn,
// and returns the size of the last prompt.
func (t *Turn) note(res runner.Result, budget int) (used int, err error) {
	used = cmp.Or(res.Prompt, res.Estimated)
	t.engine.conversations.note(t.conv)
	return used, t.sess.SetMeta(usageKey, Usage{Prompt: res.Usage.Prompt, Completion: res.Usage.Completion, Cached: res.Usage.Cached, Context: used, Budget: budget})
}

// close ends the turn in its session and sends the reply.
func (t *Turn) close(ctx context.Context, res runner.Result) error {
	sum, said := t.outcome(res)
	if err := t.sess.Note(t.progress.note(*sum)); err != nil {
		return err
	}
	if res.Stop == runner.Cancelled {
		return t.closeStopped(ctx, res)
	}
	if err := t.sess.EndTurn(); err != nil {
		return fmt.Errorf("finish the turn: %w", err)
	}
	t.tell(RuntimeEvent{Kind: TurnPersisted})

	if res.ContextLimit > 0 {
		t.engine.models.windows.Store(t.rt.Name, res.ContextLimit)
		t.engine.log.WarnContext(ctx, "the model's real window is smaller than configured", "model", t.rt.Name, "window", res.ContextLimit)
	}
	t.msg.Sink.Emit(t.final(res, sum, said))
	t.tell(RuntimeEvent{Kind: TurnCompleted, Turn: sum})
	return nil
}

// closeStopped keeps what there was of the answer, and makes the history whole again.
func (t *Turn) closeStopped(ctx context.Context, res runner.Result) error {
	if res.Text != "" { // what there was of the answer, and that it is not all
		part := t.stored(llm.Message{Role: llm.Assistant, Content: llm.Text(res.Text)})
		mark := session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(session.TurnCut)}, Interrupted: true}
		if err := t.sess.Append(part, mark); err != nil {
			return fmt.Errorf("keep the beginning of the answer: %w", err)
		}
	}
	// The same repair that follows a crash makes the history whole again.
	if _, err := t.sess.Recover(t.engine.tools.readOnly); err != nil {
		return fmt.Errorf("close the stopped turn: %w", err)
	}
	return StopError(context.Cause(ctx))
}

// final is the last reply of the turn.
func (t *Turn) final(res runner.Result, sum *bus.Turn, said string) bus.Outbound {
	out := t.msg.final(said, false, sum)
	out.Streamed = res.Streamed && t.msg.In.WantsStream && !failed(res)
	if t.progress.hasAnswered() {
		out.Streamed = false // see progress.stream
		if res.Stop == runner.Completed || res.Stop == runner.EmptyFinal {
			out.Text = ""
		}
	}
	if t.goal.end != "" {
		out.Text, out.Streamed = strings.TrimSpace(out.Text+"\n\n"+t.goal.end), false
	}
	return out
}

// failed reports whether the model gave no answer.
func failed(res runner.Result) bool { return res.Stop == runner.ModelError && res.Err != nil }

// outcome is the summary of the turn, and what the person reads.
func (t *Turn) outcome(res runner.Result) (sum *bus.Turn, said string) {
	sum, said = t.summary(res), t.engine.secrets.Redact(res.Text)
	if failed(res) {
		sum.Error = t.explain(res.Err)
		said = strings.TrimSpace(said + "\n\n" + sum.Error) // after what there was of the answer, if it was not streamed
		if e, ok := errors.AsType[*llm.Error](res.Err); ok {
			sum.ErrorKind = string(e.Kind)
		}
	}
	if res.Stop == runner.ToolError && res.Err != nil {
		sum.Error, sum.ErrorKind = said, string(runner.ToolError)
	}
	return sum, said
}

func (t *Turn) summary(res runner.Result) *bus.Turn {
	s := &bus.Turn{
		ID:         t.id,
		SessionKey: t.key,
		Model:      t.rt.Display,
		Preset:     t.rt.Preset,
		Fallback:   res.FallbackModel,
		Window:     t.window(),
		Goal:       t.shownGoal(),
		StopReason: string(res.Stop),
		Iterations: res.Requests,
		Truncated:  res.Cut,
		Refused:    t.engine.secrets.Redact(res.Refused),
		Usage: bus.Usage{
			Prompt: res.Usage.Prompt, Completion: res.Usage.Completion, Cached: res.Usage.Cached,
			Estimated: res.Usage.Estimated,
		},
		DurationMS: t.engine.now().Sub(t.begun).Milliseconds(),
		Clean:      !res.Tainted,
	}
	t.progress.price(&s.Usage)
	for _, e := range res.Tools {
		s.Tools = append(s.Tools, e.Name)
		s.Receipts = append(s.Receipts, e.Receipt)
	}
	return s
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
