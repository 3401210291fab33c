// Package feishu is the chat platform Feishu, which is called Lark outside of
// China. It hides the open API, the frames of the long connection, signatures
// and encryption of webhooks, the many forms of content, and cards.
//
// A message is held durably before Feishu is told that it arrived: Feishu waits
// three seconds and repeats an event for six hours. An answer is one card, a
// card entity, whose text grows during the turn and whose streaming mode ends
// with it. Every message of ours bears the hash of its key as its uuid, so
// Feishu sends none twice within an hour.
package feishu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// memory is how many messages and people are remembered.
const memory = 1000

// bot is the channel.
type bot struct {
	deps  chat.Deps
	o     account
	calls *client
	web   kit.Webhook
	run   sync.Mutex // one Run at a time

	me      atomic.Pointer[person]
	in      atomic.Pointer[kit.Intake[event]] // nil: Run does not go on
	heard   atomic.Int64                      // messages for others that wait
	plain   atomic.Bool                       // the app may not use card entities
	silence time.Duration                     // after which a connection is dead
	began   time.Time                         // before it, another process may have sent

	sent   *recent.Map[string, *record] // what we sent, by its id
	opened *recent.Map[string, string]  // cards that were made, by the key of their message
	names  *recent.Map[string, string]  // of people, as mentions say them
	quotes *recent.Map[string, fetched] // messages that were looked up
	fresh  *recent.Map[string, bool]    // messages that begin a new conversation
	logged *kit.Once                    // logs trouble
	ask    *questions
	cards  *cards
	marks  *reactions
}

// person is who the bot is.
type person struct {
	OpenID string `json:"open_id"`
	Name   string `json:"app_name"`
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:    "Feishu / Lark",
		Aliases:  []string{"lark"},
		Options:  func() any { return defaults() },
		New:      newChannel,
		Probe:    probe,
		Login:    login,
		Expand:   expand,
		Merge:    merge,
		Language: phrase.Chinese,
	}
}

func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	b, err := newBot(d, section)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func newBot(d chat.Deps, section json.RawMessage) (*bot, error) {
	o, err := decode(section, true)
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}

	b := &bot{
		deps:    d,
		o:       o,
		calls:   newClient(o, h, d.Now),
		silence: silence,
		began:   d.Now(),
		sent:    recent.New[string, *record](memory),
		opened:  recent.New[string, string](memory),
		names:   recent.New[string, string](memory),
		quotes:  recent.New[string, fetched](memory),
		fresh:   recent.New[string, bool](memory),
		logged:  kit.NewOnce(d.Log),
	}

	b.cards = &cards{calls: b.calls, now: d.Now, log: d.Log}
	b.marks = newReactions(b)
	b.ask = &questions{
		bot:     b,
		asked:   recent.New[string, asking](memory),
		askedIn: recent.New[string, string](memory),
		posed:   recent.New[string, *posed](memory),
	}

	b.web = kit.Webhook{Path: o.WebhookPath, Host: o.WebhookListenHost, Port: o.WebhookListenPort, Receive: b.post}
	return b, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.o.caps() }

// Routes implements chat.Handler.
func (b *bot) Routes() map[string]http.Handler {
	if b.o.Mode != modeWebhook {
		return nil
	}
	return b.web.Routes()
}

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.calls.app.Client.CloseIdleConnections()
	if err := b.hello(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		return err
	}

	defer in.Wait()
	defer cancel()
	b.in.Store(in)
	defer b.in.Store(nil)

	if b.o.Mode == modeWebhook {
		return b.web.Serve(ctx, func(context.Context) error {
			b.deps.Ready(b.identity(), nil)
			return nil
		})
	}
	return (&line{bot: b}).run(ctx)
}

// hello proves that the app may do something and that no other section uses it,
// and learns who the bot is.
func (b *bot) hello(ctx context.Context) error {
	app := identity(b.o.Domain, b.o.AppID)
	if err := b.deps.Claim(app); err != nil {
		return err
	}
	if err := b.deps.Forget(ctx, app, b.o.IdentityKey); err != nil {
		return err
	}

	if b.o.IdentityKey != "" && b.o.IdentityKey != app {
		b.deps.Log.WarnContext(ctx, "allowFrom and owners were written for another app and count as empty; write the ids that people have with this app, and set identityKey", "written_for", b.o.IdentityKey, "app", app)
	}

	me, err := b.calls.whoAmI(ctx)
	if err != nil {
		return b.refusedApp(err)
	}

	b.me.Store(&me)
	return nil
}

// whoAmI asks for the bot of the app.
func (c *client) whoAmI(ctx context.Context) (person, error) {
	var got struct {
		Bot  person `json:"bot"`
		Data struct {
			Bot person `json:"bot"`
		} `json:"data"`
	}
	if err := c.whole(ctx, "/open-apis/bot/v3/info", &got); err != nil {
		return person{}, err
	}

	if got.Bot.OpenID == "" {
		got.Bot = got.Data.Bot
	}

	if got.Bot.OpenID == "" {
		return person{}, chat.Fatal(errors.New("the app has no bot: add the feature Bot in the developer console, and publish a version"))
	}
	return got.Bot, nil
}

// identity returns who we are for people.
func (b *bot) identity() string {
	if me := b.me.Load(); me != nil {
		return me.Name + " (" + b.o.AppID + ")"
	}
	return b.o.AppID
}

// refusedApp makes an error fatal if only another configuration helps.
func (b *bot) refusedApp(err error) error {
	switch refusal(err) {
	case codeBadParam, codeBadSecret:
		return chat.Fatal(fmt.Errorf("Feishu refuses the app (%w); check channels.%s.appId, appSecret and domain", err, b.deps.Name)) //nolint:staticcheck // a name begins the sentence
	case codeNoBot:
		return chat.Fatal(fmt.Errorf("the app has no bot (%w); add the feature Bot in the developer console, and publish a version", err))
	case codeDeniedIP:
		return chat.Fatal(fmt.Errorf("Feishu refuses this machine's address (%w); change the IP allow list in the developer console under Security", err)) //nolint:staticcheck // a name begins the sentence
	}
	return err
}

const (
	codeNoBot    = 230006
	codeDeniedIP = 99991401
)

// once logs one cause of trouble once.
func (b *bot) once(ctx context.Context, cause string, args ...any) {
	b.logged.Warn(ctx, cause, "trouble with Feishu", append([]any{"cause", cause}, args...)...)
}
