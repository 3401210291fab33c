package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// outcome asks the schedule about the final reply of a message it wrote:
// whether it goes out, and where. Everything else goes out as it is.
func (p *replyTo) outcome(outs []bus.Outbound, err error) []bus.Outbound {
	in := p.env.in
	if p.a.opts.Schedule.Outcome == nil || !turn.Scheduled(in) {
		return outs
	}

	last := len(outs) - 1
	if last < 0 || outs[last].Kind != bus.Final {
		// Stopped, or answered together with another message.
		out := bus.Outbound{Kind: bus.Final, Route: in.Route, Turn: &bus.Turn{SessionKey: p.env.key, StopReason: "stopped"}}
		switch {
		case errors.Is(err, turn.ErrStopped):
			out.Turn.Error = "it was stopped"
		case p.env.left:
			out.Turn.Error = "the program ended before it was done"
		}

		p.a.opts.Schedule.Outcome(p.env.ctx, in, out)
		return outs
	}

	final, deliver := p.a.opts.Schedule.Outcome(p.env.ctx, in, outs[last])
	if !deliver {
		return outs[:last]
	}

	outs[last] = final
	p.a.mirror(in, final)
	return outs
}

// Perform begins the turn of a message that a schedule wrote, in a process
// whose messages come from no queue. What is said goes to Deliver, the final
// reply in the form Outcome gives it. If the program ends first, or after
// Leave, Outcome is not asked: the schedule has to see to it that the same
// message comes again, which is then taken up where it was.
func (a *Agent) Perform(ctx context.Context, in bus.Inbound) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	it := a.newEnvelope(context.WithoutCancel(ctx), in)
	it.replyTo = &replyTo{a: a, q: unsolicited{a}, env: it}
	return a.submit(it) //nolint:contextcheck // the item carries it
}

// Leave ends the work on a message of Perform as the end of the program would.
func (a *Agent) Leave(in bus.Inbound) { a.mailboxes.abandon(a.engine.KeyOf(in), in.ID, turn.ErrClosed) }

// unsolicited passes on what is said in turns that no message asked for.
type unsolicited struct{ a *Agent }

func (u unsolicited) Publish(_ context.Context, out bus.Outbound) error {
	if u.a.opts.Events.Deliver != nil {
		u.a.opts.Events.Deliver(out)
	}
	return nil
}

func (u unsolicited) Complete(ctx context.Context, _ string, outs ...bus.Outbound) error {
	for _, out := range outs {
		_ = u.Publish(ctx, out) // never fails
	}
	return nil
}

// mirror notes in the conversation of the chat what a schedule said there, so
// that an answer to it is understood.
func (a *Agent) mirror(in bus.Inbound, out bus.Outbound) {
	key := a.engine.KeyOf(bus.Inbound{Route: out.Route, Scope: in.Scope})
	text := strings.TrimSpace(out.Text)
	if key == a.engine.KeyOf(in) || text == "" {
		return
	}
	in.Untrusted = in.Foreign() || out.Turn == nil || !out.Turn.Clean
	note := fmt.Sprintf("[A %s of the user ran by itself; what follows was sent to them in this chat.]", eventName(in.Event))
	a.mirrorLater(mirrored{key: key, id: in.ID, note: note, text: text, in: in})
}

// mirrored is something that was said in a conversation from outside of it.
type mirrored struct {
	key, id    string
	note, text string
	in         bus.Inbound // what it came from
}

func (a *Agent) mirrorLater(m mirrored) {
	_ = a.mailboxes.spawn(func(ctx context.Context) { // without it only an answer is harder to understand
		if err := a.mirrorNow(ctx, m); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "what was sent to a chat is not recorded in its conversation", "session", m.key, "err", err)
		}
	})
}

func (a *Agent) mirrorNow(ctx context.Context, m mirrored) (err error) {
	sess, err := a.opts.Sessions.Acquire(ctx, m.key)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, sess.Release()) }()
	id := "mirror:" + m.id
	if sess.SeenInbound(id) || sess.OpenTurn() != nil {
		return nil
	}

	about := &session.RuntimeContext{Version: 1, Sources: prompt.Sources(m.in)}
	return sess.Append(
		session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(m.note)}, Internal: true, Event: m.in.Event, InboundID: id, Runtime: about},
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(m.text)}, Delivery: true, Event: m.in.Event},
	)
}

func eventName(event string) string {
	if event == turn.EventCron {
		return "turn.Scheduled job"
	}
	return event
}

// elsewhere sends to another chat and notes it in the conversation there, so
// that an answer is understood.
func (a *Agent) elsewhere(ctx context.Context, c tool.Call, out bus.Outbound) error {
	out = turn.Redacted(a.opts.Secrets, out) // it goes past the door of this message
	to, err := a.opts.Elsewhere(ctx, out)
	if err != nil {
		return err
	}

	said := mirrored{
		key: a.engine.KeyOf(bus.Inbound{Route: to}), id: c.TurnID + "/" + c.ID, text: out.Text,
		note: "[In another conversation the user had what follows sent to this chat.]",
		// What tools brought in may be text of other people.
		in: bus.Inbound{Route: c.Route, Untrusted: c.Tainted},
	}
	if said.key != c.SessionKey {
		a.mirrorLater(said)
	}
	return nil
}
