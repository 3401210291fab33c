// Package qq is the chat platform QQ, by its official bots. It hides the gateway
// (a WebSocket with sessions that can be resumed), the access tokens, and the
// rules about replies: QQ takes five to a message of a person, within an hour in
// a direct chat and within five minutes elsewhere, each with a number of its own.
//
// The ledger keeps these numbers over restarts. A part of an answer has the same
// number at each try, so QQ itself drops what it got already. What finds no reply
// left waits until the person writes again.
//
// A direct chat has the openid of the person as its id and a group the openid of
// the group. Channels of guilds and direct chats of guilds have ids with a prefix.
package qq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// silence ends a connection on which not even heartbeats are answered.
const silence = 3 * time.Minute

// bot is the channel.
type bot struct {
	deps  chat.Deps
	o     *options
	calls *client
	book  *ledger
	me    atomic.Pointer[user]
	quiet time.Duration // longest silence of a connection
	run   sync.Mutex    // one Run at a time
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:   "QQ",
		Options: func() any { return defaults() },
		New:     newChannel,
		Probe:   probe,
		Quiet:   true,

		Language: phrase.Chinese,
	}
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}
	return &bot{
		deps:  d,
		o:     o,
		calls: newClient(o, h, d.Now),
		book:  newLedger(d.State, o.AppID, d.Now),
		quiet: silence,
	}, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.o.caps() }

// Plan implements chat.Planner. An answer that would need more messages than
// QQ takes in reply is divided into longer ones.
func (b *bot) Plan(out bus.Outbound) []bus.Outbound {
	caps := b.o.caps()
	parts := chat.Divide(caps, out)
	for caps.MaxChars < longestText && len(parts) > repliesMost-progressMost {
		caps.MaxChars = min(caps.MaxChars+usualText/2, longestText)
		parts = chat.Divide(caps, out)
	}

	// Files come before the text: it says what they are.
	texts := 0
	for texts < len(parts) && len(parts[texts].Media) == 0 {
		texts++
	}
	return append(parts[texts:], parts[:texts]...)
}

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.calls.rest.Client.CloseIdleConnections()
	if err := b.deps.Claim(b.o.AppID); err != nil {
		return err
	}
	if err := b.book.open(); err != nil {
		return err
	}

	rc := &receiver{bot: b, submit: submit, once: kit.NewOnce(b.deps.Log)}
	in, err := kit.NewIntake(ctx, b.deps, rc.handle)
	if err != nil {
		return err
	}

	rc.in = in
	defer rc.side.Wait()
	defer in.Wait()

	g := newGateway(b, rc)
	defer g.saveProgress(ctx)
	return socket.Run(ctx, socket.Options{
		Client:  b.calls.rest.Client,
		Dial:    g.dial,
		Open:    g.open,
		Receive: g.receive,
		Lost:    g.lost,
		Ping:    -1,
		Silence: b.quiet,
	})
}

func (b *bot) identity() string {
	if me := b.me.Load(); me != nil {
		return me.Username
	}
	return ""
}

// probe asks QQ who we are and whether we may connect.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	ch, err := newChannel(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	b, ok := ch.(*bot)
	if !ok {
		return chat.Report{}, errors.New("not a QQ channel")
	}

	defer b.calls.rest.Client.CloseIdleConnections()
	var me user
	if err := b.calls.get(ctx, "/users/@me", &me); err != nil {
		return chat.Report{}, b.explained(err)
	}

	gate, err := b.calls.gateway(ctx)
	if err != nil {
		return chat.Report{}, b.explained(err)
	}

	sessions := chat.Check{Name: "gateway", OK: gate.Limit.Remaining > 0, Detail: fmt.Sprintf("%d logins are left today", gate.Limit.Remaining)}
	return chat.Report{Identity: me.Username, Checks: []chat.Check{{Name: "secret", OK: true}, sessions}}, nil
}
