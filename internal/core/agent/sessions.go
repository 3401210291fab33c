package agent

import (
	"context"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/core/turn/sessiontool"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// sendToSession starts a turn in another conversation with a message of this
// one. A turn that such a message started sends none itself, so that agents do
// not keep each other busy.
func (a *Agent) sendToSession(ctx context.Context, c tool.Call, m sessiontool.Message) (reply *bus.Outbound, refused string, err error) {
	t, ok := a.engine.Running(c)
	switch {
	case !ok:
		return nil, "messages to other conversations cannot be sent here", nil
	case t.Inbound().Event == bus.SessionMessage:
		return nil, "this turn answers a message of another conversation and sends none itself; put it into the answer, which goes back there", nil
	}

	m.Text = a.opts.Secrets.Redact(m.Text)
	in := m.Inbound(turn.NewID(), a.opts.Now())
	answered, forget := a.replies.expect(in.ID)
	defer forget()

	queue, reachable := a.queue.Load(), a.opts.Tools.Sessions.Reachable
	switch {
	case queue != nil && reachable != nil && reachable(m.Chat) == nil:
		if a.engine.KeyOf(bus.Inbound{Route: m.Chat}) != m.Key {
			return nil, m.To + " is one of several conversations of its chat; only the main one gets messages", nil
		}
		err = (*queue).Submit(ctx, in)
		if !m.Reply {
			return nil, "", err
		}

	case m.Chat.Channel == c.Route.Channel:
		err = a.mailboxes.spawn(func(ctx context.Context) { // no reader follows there; the log keeps what is said
			for out, err := range a.Ask(ctx, in) {
				if err == nil && out.Kind == bus.Final {
					a.replies.resolve(in.ID, &out)
				}
			}
			a.replies.resolve(in.ID, nil) // stopped, or failed
		})

	default:
		return nil, m.To + " takes place on " + m.Chat.Channel + ", which this program does not serve", nil
	}

	if err != nil {
		return nil, "", err
	}

	err = t.Pause(ctx, func() error { // the other turn may need its slot
		reply, err = awaitReply(ctx, answered, m.Wait)
		a.mailboxes.touch(c.SessionKey)
		return err
	})
	return reply, "", err
}

// awaitReply waits for a reply; nil means that none came in time.
func awaitReply(ctx context.Context, answered <-chan *bus.Outbound, most time.Duration) (*bus.Outbound, error) {
	timeout := time.NewTimer(most)
	defer timeout.Stop()
	select {
	case out := <-answered:
		return out, nil
	case <-timeout.C:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// replies are the messages of conversations to others whose reply is waited for.
type replies struct {
	mu      sync.Mutex
	waiting map[string]chan *bus.Outbound // by the id of the message; capacity 1
}

// expect waits for the reply to a message until forget is called.
func (r *replies) expect(id string) (answered <-chan *bus.Outbound, forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.waiting == nil {
		r.waiting = map[string]chan *bus.Outbound{}
	}

	ch := make(chan *bus.Outbound, 1)
	r.waiting[id] = ch
	return ch, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, id)
	}
}

// resolve hands over the reply to a turn.Message, the first one only; nil says that
// there will be none.
func (r *replies) resolve(id string, out *bus.Outbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ch := r.waiting[id]; ch != nil {
		ch <- out
		delete(r.waiting, id)
	}
}
