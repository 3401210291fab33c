// Package mattermost is the chat platform Mattermost. It hides API v4 and the
// WebSocket: how posts arrive, what was missed while the connection was lost or
// the program was down, how threads become sessions, and how answers, files,
// buttons and marks become posts.
//
// A post that may be for us is held durably when its event arrives. A connection
// that was lost is taken up again by its id and the number of the next event; if
// the server does not know it any more, the posts since the last one are read
// from the channels.
//
// Every post of ours bears the key of its part. The server knows a key for half
// a minute; after that, and after a restart, we look for it in the channel before
// we send, so nothing is posted twice.
package mattermost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// memory is how many posts, people and channels are remembered.
const memory = 1000

// bot is the channel.
type bot struct {
	deps  chat.Deps
	o     *options
	caps  chat.Caps
	calls *client
	web   kit.Webhook // of buttons
	run   sync.Mutex  // one Run at a time

	me     atomic.Pointer[user]
	conn   atomic.Pointer[socket.Conn] // the last one
	seq    atomic.Int64                // of what we send on it
	submit atomic.Pointer[chat.Submit]
	most   atomic.Int64 // bytes of a file that the server takes

	known   *directory
	keys    *keys
	given   *recent.Map[string, bool]         // posts that the agent was given
	deleted *recent.Map[string, bool]         // posts that are gone
	read    *recent.Map[string, bool]         // threads whose earlier posts were given
	asked   *recent.Map[string, bus.Question] // by the post that asks
	logged  *kit.Once                         // logs trouble

	silence time.Duration // then the connection is dead; 0: as in package socket
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{Title: "Mattermost", Options: func() any { return defaults() }, New: newChannel, Probe: probe}
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

	b := &bot{
		deps:    d,
		o:       o,
		caps:    o.caps(),
		calls:   newClient(o.ServerURL, o.Token, h),
		given:   recent.New[string, bool](memory),
		deleted: recent.New[string, bool](memory),
		read:    recent.New[string, bool](memory),
		asked:   recent.New[string, bus.Question](memory),
		logged:  kit.NewOnce(d.Log),
	}

	b.known, b.keys = newDirectory(b.calls, d.Now), newKeys(b.calls)
	b.web = kit.Webhook{Path: o.WebhookPath, Host: o.WebhookListenHost, Port: o.WebhookListenPort, Receive: b.pressed}
	b.most.Store(b.caps.MaxMedia)
	d.Gate.SetRules(o.rules())
	return b, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.caps }

// Routes implements chat.Handler: the address of buttons, if the gateway's
// listener shall serve it.
func (b *bot) Routes() map[string]http.Handler {
	if b.o.WebhookURL == "" {
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

	defer b.calls.rest.Client.CloseIdleConnections()
	b.submit.Store(&submit)
	now, err := b.hello(ctx)
	if err != nil {
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
	l := &line{bot: b, in: in, now: now, greeted: true}
	if l.cursors, err = kit.OpenCursors(b.deps, b.account()); err != nil {
		return err
	}

	defer func() {
		if err := l.cursors.Flush(); err != nil {
			b.deps.Log.WarnContext(ctx, "how far the channel has read cannot be saved", "err", err)
		}
	}()
	if b.o.WebhookURL == "" {
		return l.run(ctx)
	}
	return b.both(ctx, l)
}

// both receives events and presses of buttons; the end of one ends the other.
func (b *bot) both(ctx context.Context, l *line) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lineErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		lineErr = l.run(ctx)
	})
	err := b.web.Serve(ctx, func(context.Context) error { return nil })
	cancel()
	wg.Wait()
	return errors.Join(lineErr, err)
}

// hello learns who we are, and proves that the token is good and that no other
// section uses the account. The time is the server's.
func (b *bot) hello(ctx context.Context) (time.Time, error) {
	var me user
	a, err := b.calls.rest.Ask(ctx, kit.Call{Method: http.MethodGet, Path: "/users/me"})
	if err == nil {
		err = a.Decode(&me)
	}

	if err != nil {
		return time.Time{}, b.refusedToken(err)
	}

	b.me.Store(&me)
	if err := b.deps.Claim(b.account()); err != nil {
		return time.Time{}, err
	}

	now, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		now = b.deps.Now()
	}
	return now, nil
}

// limits asks how long a post and how large a file may be on this server. What
// it does not say stays as it was.
func (b *bot) limits(ctx context.Context) {
	var c struct {
		Post string `json:"MaxPostSize"`
		File string `json:"MaxFileSize"`
	}
	if err := b.calls.call(ctx, http.MethodGet, "/config/client?format=old", nil, &c); err != nil {
		b.deps.Log.WarnContext(ctx, "the server's limits cannot be read; the usual ones hold", "err", err)
	}
	if n, err := strconv.ParseInt(c.File, 10, 64); err == nil && n > 0 {
		b.most.Store(n)
	}

	if b.deps.Refine == nil {
		return
	}

	b.deps.Refine(func(caps *chat.Caps) {
		caps.MaxMedia = b.most.Load()
		if n, err := strconv.Atoi(c.Post); err == nil && n > 0 {
			caps.MaxChars = n
		}
	})
}

// account returns which one this is, on whatever server.
func (b *bot) account() string {
	if me := b.me.Load(); me != nil {
		return me.ID + "@" + b.o.host()
	}
	return ""
}

// identity returns who we are for people.
func (b *bot) identity() string {
	if me := b.me.Load(); me != nil {
		return "@" + me.Username + " on " + b.o.host()
	}
	return ""
}

// refusedToken makes an error fatal if it means that the token is wrong.
func (b *bot) refusedToken(err error) error {
	e := refusal(err)
	switch {
	case e != nil && e.Code == http.StatusUnauthorized:
		return chat.Fatal(fmt.Errorf("Mattermost refuses the token (%w); create another one for the bot account and set channels.%s.token", err, b.deps.Name)) //nolint:staticcheck // a name begins the sentence
	case e != nil && e.Code == http.StatusNotFound:
		return fmt.Errorf("%s is not a Mattermost server (%w); check channels.%s.serverUrl", b.o.host(), err, b.deps.Name)
	}
	return err
}

// once logs one cause of trouble once.
func (b *bot) once(ctx context.Context, cause string, args ...any) {
	b.logged.Warn(ctx, cause, "an event of the server is ignored", append([]any{"cause", cause}, args...)...)
}
