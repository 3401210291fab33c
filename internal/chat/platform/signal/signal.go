// Package signal is the chat platform Signal, through the daemon of signal-cli.
// It hides how messages arrive (server-sent events), how they are sent
// (JSON-RPC), that a person has a number and a UUID of which a message names
// any, and how Markdown becomes a text with ranges of styles.
//
// The daemon hands a message over once and keeps nothing, so a message is held
// durably before anything else is done with it.
package signal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	firstPause = time.Second // before the next connection
	lastPause  = 30 * time.Second
	holdPause  = time.Second // while too much waits
)

// bot is the channel.
type bot struct {
	deps   chat.Deps
	o      *options
	rpc    *client
	dm     list   // of dm.allowFrom
	dir    string // of received files, "" if it is not known
	facts  *facts
	vanish *vanishing
	quoted *recent.Map[string, bool] // messages that were quoted, so that only the first part of an answer quotes
	run    sync.Mutex                // one Run at a time
	once   *kit.Once                 // logs trouble
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:   "Signal",
		Options: func() any { return defaults() },
		New:     newBot,
		Probe:   probe,
		Login:   login,
	}
}

// newBot makes the channel of a section.
func newBot(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}

	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	if d.Gate != nil {
		d.Gate.SetRules(o.rules())
	}
	return &bot{
		deps:   d,
		o:      o,
		rpc:    newClient(o.base(), o.PhoneNumber, h),
		dm:     newList(o.DM.AllowFrom),
		dir:    o.files(home),
		facts:  &facts{state: d.State},
		vanish: newVanishing(d.Now),
		quoted: recent.New[string, bool](1000),
		once:   kit.NewOnce(d.Log),
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

	defer b.rpc.rest.Client.CloseIdleConnections()
	if err := b.deps.Claim(b.o.PhoneNumber); err != nil {
		return err
	}
	if err := b.facts.open(b.o.PhoneNumber); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		cancel()
		return err
	}

	defer in.Wait()
	defer cancel()
	receive := func(ctx context.Context) error { return b.receive(ctx, in) }
	if b.o.Managed {
		return b.o.withProgram(ctx, &b.deps, b.rpc, []string{"-a", b.o.PhoneNumber}, receive)
	}
	return receive(ctx)
}

// receive receives messages until ctx ends or signal-cli has no such account.
func (b *bot) receive(ctx context.Context, in *kit.Intake[event]) error {
	pauses := wait.Backoff{Least: firstPause, Most: lastPause}
	for ctx.Err() == nil {
		err := b.session(ctx, in, pauses.Reset)
		if ctx.Err() != nil {
			break
		}
		if chat.IsFatal(err) {
			return err
		}

		b.rpc.rest.Client.CloseIdleConnections() // where one fell silent, the others are not to be trusted
		b.deps.Ready("", err)
		_ = pauses.Wait(ctx)
	}

	return nil //nolint:nilerr // the end of ctx is not an error
}

// session makes one connection and receives until it is lost.
func (b *bot) session(ctx context.Context, in *kit.Intake[event], opened func()) error {
	if err := b.o.startHint(b.rpc.check(ctx)); err != nil {
		return err
	}
	if err := b.greet(ctx); err != nil {
		return err
	}
	return b.rpc.events(ctx,
		func() { opened(); b.deps.Ready(b.o.PhoneNumber, nil) },
		func(data []byte) { b.dispatch(ctx, in, data) })
}

// greet prepares the account and learns our own UUID, by which people mention
// us.
func (b *bot) greet(ctx context.Context) error {
	err := b.rpc.call(ctx, "updateConfiguration", map[string]any{"typingIndicators": true}, nil)
	if e, ok := errors.AsType[*rpcError](err); ok {
		if e.mentions("valid account", "not registered", "no such account", "authorization failed", "unregistered") {
			return chat.Fatal(fmt.Errorf("signal-cli has no account %s (%w); register or link it: signal-cli -a %s register", b.o.PhoneNumber, err, b.o.PhoneNumber))
		}
		b.once.Warn(ctx, "typing", "typing indicators cannot be enabled", "err", err)
		err = nil
	}

	if err != nil {
		return err
	}

	var status []struct {
		UUID string `json:"uuid"`
	}
	if err := b.rpc.call(ctx, "getUserStatus", map[string]any{"recipient": []string{b.o.PhoneNumber}}, &status); err != nil {
		b.once.Warn(ctx, "uuid", "the bot's own UUID is not known yet: mentions may be missed", "err", err)
		return nil
	}

	for _, s := range status {
		if err := b.facts.addAliases(s.UUID); err != nil {
			return err
		}
	}
	return nil
}

// dispatch hands an event to the intake, if it is a message.
func (b *bot) dispatch(ctx context.Context, in *kit.Intake[event], data []byte) {
	if data == nil {
		b.once.Warn(ctx, "long", "a message of signal-cli is too long and was dropped", "limit", maxEvent)
		return
	}

	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		b.once.Warn(ctx, "malformed", "a message of signal-cli cannot be read and was dropped", "err", err)
		return
	}
	if ev.Envelope == nil || ev.Account != "" && normal(ev.Account) != b.o.PhoneNumber {
		return
	}

	ids := ev.Envelope.senders()
	if b.facts.us(ids...) { // from another device of ours
		if err := b.facts.addAliases(ids...); err != nil {
			b.once.Warn(ctx, "state", "the bot's own ids cannot be kept", "err", err)
		}
		return
	}

	m, edited := ev.Envelope.message()
	if m == nil || len(ids) == 0 || edited && !b.o.EditedMessages {
		return
	}

	chatID := m.group()
	if chatID == "" {
		chatID = b.facts.chat(ids)
	}

	for in.Hold(ctx, chatID, messageID(ids, m, edited), ev) != nil { // too much waits: let the daemon wait as well
		b.once.Warn(ctx, "held", "too many messages wait; reading from signal-cli pauses")
		if wait.For(ctx, holdPause) != nil {
			return
		}
	}
}
