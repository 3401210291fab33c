// Package dingtalk is the chat platform DingTalk. It hides the stream (a WebSocket
// whose frames are confirmed one by one), the access tokens, the session webhooks
// by which a message is answered, the two APIs for what is said unasked, and the
// cards in which answers grow.
//
// A message is held durably before its frame is confirmed. The address of its
// session webhook travels with it, so an answer finds it also after a restart.
//
// A group has the chat id "group:" and the id of its conversation, a direct chat
// the id of the person.
package dingtalk

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	groupPrefix = "group:"
	pingEvery   = time.Minute
	silence     = 150 * time.Second
)

func isGroup(r bus.Route) bool { return strings.HasPrefix(r.ChatID, groupPrefix) }

// bot is the channel.
type bot struct {
	deps     chat.Deps
	o        *options
	calls    *client
	origin   kit.Origin                         // of files, and of the addresses for replies
	notified *recent.Map[string, time.Time]     // people who were told that the bot works in groups
	talks    *recent.Map[string, string]        // message -> its conversation
	marks    *recent.Map[string, chan struct{}] // messages with our reaction; closed when it is set
	cards    *cards
	ping     time.Duration // between two pings
	quiet    time.Duration // longest silence of a connection
	run      sync.Mutex    // one Run at a time
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:   "DingTalk",
		Options: func() any { return defaults() },
		New:     newChannel,
		Probe:   probe,
		Login:   login,

		Language: phrase.Chinese,
	}
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	o, err := decode(section)
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}

	calls := newClient(o, h, d.Now)
	return &bot{
		deps:  d,
		o:     o,
		calls: calls,
		origin: kit.Origin{
			Client: h,
			Bases:  []string{o.APIBaseURL, o.OAPIBaseURL},
			Ours:   atDingTalk,
		},
		notified: recent.New[string, time.Time](1000),
		talks:    recent.New[string, string](1000),
		marks:    recent.New[string, chan struct{}](1000),
		cards:    newCards(d, o, calls),
		ping:     pingEvery,
		quiet:    silence,
	}, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.o.caps() }

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.calls.public.Client.CloseIdleConnections()
	if err := b.deps.Claim(b.o.ClientID); err != nil {
		return err
	}
	if err := b.deps.Forget(ctx, b.o.ClientID, ""); err != nil {
		return err
	}

	defer b.beside(ctx)()
	rc := &receiver{bot: b, submit: submit, once: kit.NewOnce(b.deps.Log)}
	in, err := kit.NewIntake(ctx, b.deps, rc.handle)
	if err != nil {
		return err
	}

	rc.in = in
	defer in.Wait()

	s := &stream{bot: b, rc: rc}
	return socket.Run(ctx, socket.Options{
		Client:  b.calls.public.Client,
		Dial:    s.dial,
		Open:    s.open,
		Receive: s.receive,
		Lost:    s.lost,
		Ping:    b.ping,
		Silence: b.quiet,
	})
}

// beside finishes cards while a Run goes on. The result ends it.
func (b *bot) beside(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { b.cards.closeAbandoned(ctx) })
	return func() { cancel(); work.Wait() }
}

// probe asks DingTalk for a token and for a place on the stream.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	ch, err := newChannel(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	b, ok := ch.(*bot)
	if !ok {
		return chat.Report{}, errors.New("not a DingTalk channel")
	}

	defer b.calls.public.Client.CloseIdleConnections()
	if _, err := b.calls.tokens.Get(ctx, ""); err != nil {
		return chat.Report{}, explained(err, b.deps.Name)
	}
	if _, err := b.calls.place(ctx); err != nil {
		return chat.Report{}, explained(err, b.deps.Name)
	}

	report := chat.Report{Identity: b.o.ClientID, Checks: []chat.Check{{Name: "secret", OK: true}, {Name: "stream", OK: true}}}
	if b.o.CardTemplateID != "" {
		report.Checks = append(report.Checks, b.cards.try(ctx))
	}
	return report, nil
}
