// Package slack is the chat platform Slack. It hides the Web API, how events
// arrive (Socket Mode, or requests of the Events API), how threads, mentions,
// shared messages and files become one message for the agent, and how Markdown
// becomes what Slack shows.
//
// An event is acknowledged when it is on disk (kit.Intake), because Slack
// waits for three seconds only. A mention arrives as two events, and Slack
// repeats what it holds for lost: messages are told apart by conversation and
// time stamp, so each is handled once. What was written while the bot was away
// is read from the conversations that are known.
//
// The Web API is spoken by slack-go, the connection is made by package socket
// (decision 72).
package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// bot is the channel.
type bot struct {
	deps          chat.Deps
	o             *options
	caps          chat.Caps
	http          *http.Client
	api           *api.Client
	hook          kit.Webhook
	web           *client
	clean         *recent.Map[string, bool] // questions whose labels are as good as the person's own words
	sharedEarlier *recent.Map[string, bool] // threads whose earlier messages the agent was given

	me       atomic.Pointer[api.AuthTestResponse]
	noMarks  atomic.Bool // Slack refuses our reactions
	noStatus atomic.Bool // Slack refuses the assistant's status

	silence time.Duration // then the connection is dead; 0: as in package socket

	run     sync.Mutex   // one Run at a time
	cursors *kit.Cursors // of the Run that goes on
	stop    atomic.Pointer[context.CancelCauseFunc]
	in      atomic.Pointer[kit.Intake[event]] // of the Run that goes on
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{Title: "Slack", Options: func() any { return defaults() }, New: newChannel, Probe: probe}
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

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}

	b := &bot{
		deps:          d,
		o:             o,
		caps:          o.caps(),
		http:          h,
		clean:         recent.New[string, bool](1000),
		sharedEarlier: recent.New[string, bool](10_000),
	}

	b.api = api.New(o.BotToken.Reveal(), api.OptionAppLevelToken(o.AppToken.Reveal()), api.OptionAPIURL(o.APIBase), api.OptionHTTPClient(bounded{h}))
	b.web = newClient(d, o, b.api, h, b.fail)
	b.hook = kit.Webhook{
		Path:    o.WebhookPath,
		Host:    o.WebhookListenHost,
		Port:    o.WebhookListenPort,
		MaxBody: maxHook,
		Receive: b.post,
	}

	d.Gate.SetRules(o.rules())
	return b, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.caps }

// Routes implements chat.Handler: the webhook, if the gateway's listener
// shall serve it.
func (b *bot) Routes() map[string]http.Handler {
	if b.o.Mode != modeWebhook {
		return nil
	}
	return b.hook.Routes()
}

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.http.CloseIdleConnections()
	if err := b.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		return err
	}

	var work sync.WaitGroup
	defer b.flush(ctx)
	defer in.Wait()
	defer work.Wait()
	defer cancel(nil)
	b.stop.Store(&cancel)
	defer b.stop.Store(nil)
	b.in.Store(in)
	defer b.in.Store(nil)

	if b.o.Mode == modeWebhook {
		err = b.hook.Serve(ctx, func(ctx context.Context) error { b.connected(ctx, &work); return nil })
	} else {
		err = b.listen(ctx, &work)
	}

	if cause := context.Cause(ctx); chat.IsFatal(cause) {
		return cause
	}
	return err
}

func (b *bot) flush(ctx context.Context) {
	if err := b.cursors.Flush(); err != nil {
		b.deps.Log.ErrorContext(ctx, "cannot save how far conversations were read", "err", err)
	}
}

// start says hello and learns who we are.
func (b *bot) start(ctx context.Context) error {
	me, err := b.api.AuthTestContext(ctx)
	if err != nil {
		return b.web.refusedToken("botToken", err)
	}

	b.me.Store(me)
	b.web.names.people.Put(me.UserID, me.User)
	if err := b.deps.Claim(me.TeamID + "/" + me.UserID); err != nil {
		return err
	}
	if b.cursors, err = kit.OpenCursors(b.deps, me.TeamID+"/"+me.UserID); err != nil {
		return err
	}

	if lack := missing(me.Header, needed()); lack != "" {
		b.deps.Log.WarnContext(ctx, "the Slack app lacks scopes; add them under OAuth & Permissions and install the app again", "scopes", lack)
	}
	if len(b.o.AllowFrom)+len(b.o.DM.AllowFrom) == 0 && b.o.DM.Enabled {
		b.deps.Log.WarnContext(ctx, "allowFrom is empty: people of the workspace receive a pairing code instead of an answer, also with dm.policy open")
	}
	return nil
}

// connected is called when events can come in.
func (b *bot) connected(ctx context.Context, work *sync.WaitGroup) {
	b.deps.Ready(b.identity(), nil)
	work.Go(func() { b.catchUp(ctx) })
}

func (b *bot) identity() string {
	me := b.me.Load()
	if me == nil {
		return ""
	}
	return "@" + me.User + " in " + me.Team
}

// fail ends the Run that goes on: only another configuration helps.
func (b *bot) fail(err error) {
	if stop := b.stop.Load(); stop != nil {
		(*stop)(err)
	}
}
