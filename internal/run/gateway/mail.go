package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// queue is what a gateway needs of the bus.
type queue interface {
	bus.Queue
	bus.Knower
	// Redeliver hands out again what was received and not completed.
	Redeliver()
	Status() journal.Status
	Close() error
}

// mail passes messages between the queue, the platforms and the agent, and speaks
// for the gateway itself. It is the queue as platforms and agent see it: what passes
// is noted for pages and figures.
type mail struct {
	queue
	directory *deliver.Directory
	topics    *publisher
	owner     *ownerChat
	figures   *api.Figures
	mailbox   *terminal.Mailbox
	vault     *guard.Vault // takes typed keys out of messages
	secrets   *httpsafe.Registry
	state     store.Store
	dataDir   string
	now       func() time.Time
	log       *slog.Logger
}

// withoutKeys is a message as it may be kept; the sender of a key is told.
func (m *mail) withoutKeys(ctx context.Context, in bus.Inbound) bus.Inbound {
	clean, note := m.vault.Clean(in)
	if note != "" {
		out := bus.Outbound{Kind: bus.Message, Route: in.Route, Text: note, Plain: true}
		if err := m.post(ctx, out); err != nil {
			m.log.WarnContext(ctx, "cannot tell about a key that was typed", "err", err)
		}
	}
	return clean
}

// submitOwn puts a message into the queue that no platform brought.
func (m *mail) submitOwn(ctx context.Context, in bus.Inbound) error {
	in = m.withoutKeys(ctx, in)
	return m.topics.submit(&in, func() error { return m.queue.Submit(ctx, in) })
}

// Submit implements bus.Inbox.
func (m *mail) Submit(ctx context.Context, in bus.Inbound) error {
	in = m.withoutKeys(ctx, in)
	guard.GuestMedia(ctx, m.dataDir, &in, m.now(), m.log)
	return m.topics.submit(&in, func() error {
		err := m.queue.Submit(ctx, in)
		if err == nil {
			m.owner.record(in)
		}
		return err
	})
}

// Complete implements bus.Inbox.
func (m *mail) Complete(ctx context.Context, id string, outs ...bus.Outbound) error {
	for i := range outs {
		m.figures.Turn(outs[i].Route.Channel, outs[i].Turn)
	}
	err := m.queue.Complete(ctx, id, outs...)
	m.topics.completed(outs)
	return err
}

// Publish implements bus.Outbox.
func (m *mail) Publish(ctx context.Context, out bus.Outbound) error {
	err := m.queue.Publish(ctx, out)
	m.topics.publishOutbound(&out)
	return err
}

// Close writes what is noted and gives the queue back.
func (m *mail) Close() error {
	m.owner.flush()
	return m.queue.Close()
}

// deliver takes what is said in turns that no message asked for.
func (m *mail) deliver(out bus.Outbound) {
	ctx := context.Background()
	if err := m.post(ctx, out); err != nil {
		m.log.ErrorContext(ctx, "a message was not kept", "channel", out.Route.Channel, "err", err)
	}
}

// post is Publish for what the gateway says itself. It does not wait for long when
// the outbox of a channel is full.
func (m *mail) post(ctx context.Context, out bus.Outbound) error {
	ctx, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	err := m.queue.Publish(ctx, out)
	if err == nil {
		m.topics.publishOutbound(&out)
	}
	return err
}

const publishWait = 10 * time.Second

// elsewhere keeps a message for another chat until it is delivered, and returns
// which chat it is for.
func (m *mail) elsewhere(ctx context.Context, out bus.Outbound) (to bus.Route, err error) {
	if out.Route, err = m.address(ctx, out.Route); err != nil {
		return out.Route, err
	}
	return out.Route, m.post(ctx, out)
}

// address finds the chat that a route names, or says why nothing can be sent
// there.
func (m *mail) address(ctx context.Context, r bus.Route) (bus.Route, error) {
	if err := m.deliverable(r); err != nil {
		return r, err
	}
	return m.directory.Address(ctx, r)
}

// deliverable says why nothing can be sent to a chat.
func (m *mail) deliverable(r bus.Route) error {
	if m.directory.Channel(r.Channel) == nil {
		return fmt.Errorf("the channel %s is not switched on", r.Channel)
	}
	return nil
}

// reaches says why a chat is not the place for a reply now. A terminal that is not
// open shows it later, so a chat in which the owner sees it now comes first.
func (m *mail) reaches(r bus.Route) error {
	if err := m.deliverable(r); err != nil || r.Channel != terminal.Name {
		return err
	}
	last, ok := m.owner.last()
	seen := ok && last.Channel != terminal.Name && m.deliverable(last) == nil
	if !seen || m.mailbox.AnyOpen(context.Background()) {
		return nil
	}
	return errors.New("no terminal is open")
}

// notifyOwner sends a sentence to the owner, wherever they were last. The log has
// it already, so it does not matter if the owner cannot be reached.
func (m *mail) notifyOwner(ctx context.Context, s phrase.Sentence) {
	r, ok := m.owner.last()
	if !ok {
		return
	}
	out := bus.Outbound{Kind: bus.Message, Route: r, Text: m.secrets.Redact(s.In(m.directory.Language(r.Channel))), Plain: true}
	if err := m.post(ctx, out); err != nil {
		m.log.WarnContext(ctx, "cannot notify the owner", "err", err)
	}
}

// blocked tells that another program has been running the jobs for a while.
func (m *mail) blocked(ctx context.Context, err error) {
	m.log.ErrorContext(ctx, "the schedule waits for another program", "err", err)
	m.notifyOwner(ctx, phrase.Later("Scheduled jobs do not run here as long as another program runs them: %v", err))
}
