// Package telegram is the chat platform Telegram. It hides the Bot API: how
// updates arrive (long polling, or a webhook), how albums, topics, replies and
// files become one message for the agent, and how Markdown becomes the few
// HTML tags that Telegram knows.
//
// An update is acknowledged only after the message in it is durable: when
// polling the offset moves on then, and a webhook is answered then. Updates
// of one chat keep their order; a slow download in one chat does not hold up
// the others. What Telegram sends twice carries the same id both times.
//
// In webhook mode the channel opens a listener of its own on
// webhookListenHost and webhookListenPort, as the Python nanobot does. With
// webhookListenPort 0 it opens none and is served by the gateway's listener
// through Routes.
//
// Groups that become supergroups get another number. The channel keeps
// calling such a chat by its first number and translates where it talks to
// Telegram, so sessions and allow-lists stay as they are.
package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// bot is the channel.
type bot struct {
	deps   chat.Deps
	o      *options
	caps   chat.Caps
	calls  *client // everything but polling: a long poll must not share a connection pool with answers
	polls  *client
	facts  *facts
	me     atomic.Pointer[user]
	clean  *recent.Map[string, bool] // questions whose labels are as good as the person's own words
	quoted *recent.Map[string, bool] // messages that were quoted, so that only the first part of an answer quotes
	dumb   atomic.Bool               // Telegram does not know reactEmoji
	poor   atomic.Bool               // the server knows no rich messages
	run    sync.Mutex                // one Run at a time: two pollers throw each other out
	hook   hook

	pollFor, pollMost time.Duration // how long a poll waits for news, and how long it may take
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{Title: "Telegram", Options: func() any { return defaults() }, New: newChannel, Probe: probe}
}

// newChannel is newBot for the contract.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	b, err := newBot(d, section)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// newBot makes the channel of a section.
func newBot(d chat.Deps, section json.RawMessage) (*bot, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	b := &bot{
		deps:     d,
		o:        o,
		caps:     o.caps(),
		facts:    &facts{state: d.State, bot: o.bot()},
		quoted:   recent.New[string, bool](1000),
		clean:    recent.New[string, bool](1000),
		pollFor:  pollFor,
		pollMost: pollMost,
	}

	b.hook.prepare(b)
	for _, c := range []**client{&b.calls, &b.polls} {
		h, err := d.Client(o.Proxy)
		if err != nil {
			return nil, err
		}
		*c = newClient(o, h)
	}

	if d.Gate != nil {
		d.Gate.SetRules(access.Rules{Entries: access.ReadNames(isID)})
	}
	return b, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.caps }

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.polls.rest.Client.CloseIdleConnections()
	defer b.calls.rest.Client.CloseIdleConnections()
	if err := b.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).run)
	if err != nil {
		return err
	}

	defer in.Wait()
	if err := b.facts.adopt(ctx, in); err != nil {
		return err
	}
	if b.o.Mode == modeWebhook {
		return b.hook.serve(ctx, in)
	}
	return newPoller(b, in).run(ctx)
}

// start says hello: it learns who we are and puts up the menu.
func (b *bot) start(ctx context.Context) error {
	var me user
	if err := b.calls.call(ctx, "getMe", nil, &me); err != nil {
		return b.refusedToken(err)
	}

	b.me.Store(&me)
	if err := b.deps.Claim(b.identity()); err != nil {
		return err
	}
	if err := b.facts.open(b.deps.Now()); err != nil {
		return err
	}

	if n := len(b.o.WebhookSecretToken.Reveal()); b.o.Mode == modeWebhook && n < goodSecret {
		b.deps.Log.WarnContext(ctx, "webhookSecretToken is short; anyone who guesses it can write as any person", "characters", n, "better", goodSecret)
	}
	if err := b.setMenu(ctx); err != nil {
		b.deps.Log.WarnContext(ctx, "cannot set the menu of commands", "err", err)
	}
	return nil
}

// report logs a step that failed and is not tried again.
func (b *bot) report(what string, err error) {
	if err != nil {
		b.deps.Log.Error("a step of the start failed", "step", what, "err", err)
	}
}

func (b *bot) identity() string {
	if me := b.me.Load(); me != nil {
		return "@" + me.Username
	}
	return ""
}

// refusedToken makes an error fatal if it means that the token is wrong.
func (b *bot) refusedToken(err error) error {
	if e := refusal(err); e != nil && (e.Code == http.StatusUnauthorized || e.Code == http.StatusNotFound) {
		return chat.Fatal(fmt.Errorf("Telegram refuses the token (%w); check channels.%s.token", err, b.deps.Name)) //nolint:staticcheck // a name begins the sentence
	}
	return err
}
