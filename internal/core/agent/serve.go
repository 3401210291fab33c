package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// ResumePolicy says what becomes of a message from a queue whose turn was
// interrupted by the end of the program.
type ResumePolicy string

// The policies.
const (
	ResumeTurn   ResumePolicy = "resume" // the turn is taken up again; also the meaning of ""
	ResumeNotify ResumePolicy = "notify" // the sender is told, and can ask again
	ResumeOff    ResumePolicy = "off"    // nothing happens
)

// resumeMax is how often a message is worked on before it is given up: it may
// be the reason why the program ends. It is generous, because the end comes in
// rows when a machine is in trouble, and takes along many messages that have
// nothing to do with it.
const resumeMax = 8

// What people and the model read about interrupted turns.
const (
	textResume  = "[The program was restarted while the last message was being worked on. Go on from where this conversation stands and answer that message. Calls marked as interrupted may have taken effect: check before repeating them.]"
	textNotify  = "The program was restarted before this was answered. Send \"continue\" to take it up again."
	textGivenUp = "I was interrupted several times while working on this and have left it. Ask again if you still need it."
	textNotKept = "This message was handled before, and the conversation does not hold an answer to it any more. Send it as a new message if you still need one."
)

// publishWait is how long a turn waits for room in a full outbox. What found
// none goes out with the end of the turn.
const publishWait = 10 * time.Second

// Serve takes messages from a queue until ctx ends. Their turns run beside it,
// so that a command such as /stop never waits for one; what they say goes back
// to the queue, and each message is completed with its final reply. Messages
// whose turns the end of the program interrupts stay in the queue and are
// taken up by the next Serve. Run must be going on; one Serve at a time.
func (a *Agent) Serve(ctx context.Context, q bus.Queue) error {
	a.queue.Store(&q)
	defer a.queue.Store(nil)
	for {
		in, err := q.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("receive messages: %w", err)
		}
		a.served.Store(in.Route.Channel, true)
		it := &envelope{in: in, key: a.deps.keyOf(in), ctx: context.WithoutCancel(ctx)}
		it.replyTo = &replyTo{a: a, q: q, env: it}
		switch err := a.submit(it); { //nolint:contextcheck // the item carries it
		case errors.Is(err, ErrClosed):
			return err // the message stays in the queue
		case err != nil:
			it.finish(err)
		}
	}
}

// hand gives a message that no person wrote to the queue, which keeps it until
// its answer is out. False means that there is none, or that nobody would read
// there what goes to this channel, such as the terminal.
func (a *Agent) hand(ctx context.Context, in bus.Inbound) (bool, error) {
	q := a.queue.Load()
	if _, served := a.served.Load(in.Route.Channel); q == nil || !served {
		return false, nil
	}
	return true, (*q).Submit(ctx, in)
}

// outlet is the side of a queue that answers go into.
type outlet interface {
	Publish(ctx context.Context, out bus.Outbound) error
	Complete(ctx context.Context, id string, outs ...bus.Outbound) error
}

// replyTo is the way back of a message that came from a queue.
type replyTo struct {
	a   *Agent
	q   outlet
	env *envelope

	mu    sync.Mutex
	held  []bus.Outbound // could not be published yet
	final *bus.Outbound
}

// say passes something on. The final reply waits for the end of the message,
// so that both become durable in one step.
func (p *replyTo) say(o bus.Outbound) {
	p.mu.Lock()
	if o.Kind == bus.Final {
		o.ID = bus.FinalID(p.env.in.ID) // the same if the turn's end has to be told again
		p.final = &o
		p.mu.Unlock()
		return
	}
	late := len(p.held) > 0
	p.mu.Unlock()
	if !o.Kind.Durable() {
		_ = p.q.Publish(p.env.ctx, o) // may be dropped anyway
		return
	}
	if !late {
		err := p.publish(p.env.ctx, o)
		if err == nil {
			return
		}
		p.a.deps.log.Warn("a message has to wait for the end of its turn", "session", p.env.key, "kind", o.Kind, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, o)
}

// publish hands something to the queue, if it gets room in time.
func (p *replyTo) publish(ctx context.Context, o bus.Outbound) error {
	ctx, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	return p.q.Publish(ctx, o)
}

// end completes the message, unless the program ends: then it is for the next start.
func (p *replyTo) end(err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	stopped := errors.Is(err, ErrStopped) // who stopped it knows
	if err != nil && !stopped {
		text := err.Error()
		if !errors.Is(err, ErrBusy) {
			text = p.a.deps.secrets.Redact(explain.In(readerOf(p.env), err, phrase.In(p.env.in.Language, "the model")))
		}
		p.env.emit(bus.Outbound{
			Kind: bus.Final, Route: p.env.in.Route, ReplyTo: p.env.in.Route.MessageID, Text: text, Plain: true, Meta: p.env.in.Meta,
			Turn: &bus.Turn{SessionKey: p.env.key, StopReason: "error", Error: text},
		})
	}
	p.mu.Lock()
	outs := p.held
	if p.final != nil && !stopped {
		outs = append(outs, *p.final)
	}
	p.mu.Unlock()
	outs = p.outcome(outs, err)
	if err := p.q.Complete(p.env.ctx, p.env.in.ID, outs...); err != nil {
		p.a.deps.log.Error("complete a message", "session", p.env.key, "id", p.env.in.ID, "err", err)
	}
	p.env.emit(bus.Outbound{Kind: bus.Ended, Route: p.env.in.Route, Turn: p.ended(err)}) // for marks beside the message, and for watchers
	p.settle(outs)
}

// settle hands the reply to the conversation that the message came from, if it
// waits for it.
func (p *replyTo) settle(outs []bus.Outbound) {
	if p.env.in.Event != bus.SessionMessage {
		return
	}
	var final *bus.Outbound
	if n := len(outs); n > 0 && outs[n-1].Kind == bus.Final {
		final = &outs[n-1]
	}
	p.a.deps.replies.settle(p.env.in.ID, final)
}

// ended is how the work on the message ended.
func (p *replyTo) ended(err error) *bus.Turn {
	t := &bus.Turn{SessionKey: p.env.key, StopReason: string(runner.Completed)}
	switch {
	case errors.Is(err, ErrStopped):
		t.StopReason = "stopped"
	case err != nil:
		t.StopReason = "error"
	case p.final != nil && p.final.Turn != nil:
		t.StopReason, t.Error = p.final.Turn.StopReason, p.final.Turn.Error
	}
	return t
}

// join makes a message end with the turn, if its sender does not wait for it.
func (t *turn) join(it *envelope) {
	if it.replyTo != nil {
		t.joined = append(t.joined, it)
		return
	}
	it.finish(nil)
}

// resume decides about a message that is in the session already, because an
// earlier process worked on it. It reports whether all is said; otherwise the
// turn goes on.
func (t *turn) resume() (over bool) {
	p := transcript.FindPast(t.sess.Messages(), t.env.in.ID)
	switch {
	case p.Answered || p.Tries >= resumeMax || t.deps.opts.Turns.Resume == ResumeNotify:
		if out, ok := t.deps.stored(t.env, p); ok {
			out.Turn.ID = cmp.Or(p.Turn, t.id)
			t.env.emit(out)
		}
		return true
	case t.deps.opts.Turns.Resume == ResumeOff:
		t.env.left = true
		return true
	}
	t.resumed = true
	return false
}

// stored is the final reply to a message that nothing more is done about.
func (d *deps) stored(it *envelope, p transcript.Past) (bus.Outbound, bool) {
	turn := &bus.Turn{ID: p.Turn, SessionKey: it.key, StopReason: string(runner.Completed)}
	var r Reply
	switch {
	case p.Answered && p.Reply != nil:
		r = Reply{Text: d.secrets.Redact(*p.Reply), Markdown: true}
		if p.Failed {
			turn.Error = r.Text
		}
	case p.Answered:
		return it.final(r, turn), false
	case p.Tries >= resumeMax:
		r = Say(phrase.In(it.in.Language, textGivenUp))
		turn.Error = r.Text
	case d.opts.Turns.Resume == ResumeNotify:
		r = Say(phrase.In(it.in.Language, textNotify))
		turn.Error = r.Text
	default:
		return it.final(r, turn), false
	}
	if turn.Error != "" {
		turn.StopReason = "error"
	}
	return it.final(r, turn), true
}

// Recall is the final reply to a message that was completed before, for a
// client that says it again. It has no text if the message joined the turn of
// another one.
func (a *Agent) Recall(ctx context.Context, in bus.Inbound) bus.Outbound {
	key := a.deps.keyOf(in)
	var recs []session.Record
	for r, err := range a.deps.opts.Sessions.Records(ctx, key) {
		if err != nil {
			a.deps.log.WarnContext(ctx, "look for the answer to a message", "session", key, "id", in.ID, "err", err)
			break
		}
		recs = append(recs, r)
	}
	p := transcript.FindPast(recs, in.ID)
	out, ok := a.deps.stored(&envelope{in: in, key: key}, p)
	if joined := p.Answered && p.Tries > 0; !ok && !joined {
		out.Text = phrase.In(in.Language, textNotKept)
	}
	out.ID = bus.FinalID(in.ID)
	return out
}

// userMessage is a message as it is kept and as it is sent.
func (t *turn) userMessage(ctx context.Context, in bus.Inbound) (session.Record, llm.Message) {
	about := prompt.About{Folder: t.folder.lines(t.sess, t.deps.opts.Workspace)}
	if g, active := owntool.Goal(t.sess); active && !t.goal.open {
		about.Goal, about.Foreign = prompt.Objective(g), g.Untrusted
		t.foreign = t.foreign || g.Untrusted && !in.Foreign()
	}
	return t.deps.prompt.Message(ctx, in, about)
}

// question is the message the turn begins with: what came in, or the word to
// go on.
func (t *turn) question(ctx context.Context) (session.Record, llm.Message) {
	in := t.env.in
	if t.resumed {
		in.Text, in.Media, in.At = textResume, nil, t.deps.now()
	}
	rec, msg := t.userMessage(ctx, in)
	rec.Internal = rec.Internal || t.resumed
	return rec, msg
}
