// Package discord is the chat platform Discord. It hides the gateway (version 10,
// a WebSocket with sessions that can be resumed), the REST API with its buckets,
// interactions, and Discord's own Markdown.
//
// What a person writes is held durably before the number of its event is used to
// resume. What was written while the bot was not connected is read from the channels
// that changed since, so nothing is lost between two sessions. Slash commands
// and buttons must be answered within three seconds: they are held, answered, and
// then handled.
//
// The chat of a thread is the channel that the thread belongs to; every thread is
// a session of its own.
package discord

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// bot is the channel.
type bot struct {
	deps   chat.Deps
	o      *options
	caps   chat.Caps
	calls  *client
	places *places
	me     atomic.Pointer[user]
	clean  *recent.Map[string, bool] // messages whose buttons are as good as the person's own words
	quoted *recent.Map[string, bool] // messages that were answered, so that only the first part of an answer refers to them
	marks  *recent.Map[string, *mark]
	run    sync.Mutex // one Run at a time
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{Title: "Discord", Options: func() any { return defaults() }, New: newChannel, Probe: probe}
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.proxy())
	if err != nil {
		return nil, err
	}

	b := &bot{
		deps: d, o: o, caps: o.caps(),
		calls:  newClient(o.APIBase, o.Token, h, d.Now),
		places: newPlaces(),
		clean:  recent.New[string, bool](1000),
		quoted: recent.New[string, bool](1000),
		marks:  recent.New[string, *mark](1000),
	}
	if d.Gate != nil {
		d.Gate.SetRules(o.rules())
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

	defer b.calls.rest.Client.CloseIdleConnections()
	rc := &receiver{
		bot:     b,
		submit:  submit,
		trouble: kit.NewOnce(b.deps.Log),
		ready:   make(chan struct{}),
		read:    progress{log: b.deps.Log},
		pause:   pause{behind: map[string]bool{}},
	}

	b.calls.limits.revive()
	in, err := kit.NewIntake(ctx, b.deps, rc.handle)
	if err != nil {
		return err
	}

	rc.in = in
	defer rc.read.flush(ctx)
	defer rc.side.Wait()
	defer in.Wait()

	g := &gateway{bot: b, rc: rc}
	return socket.Run(ctx, socket.Options{
		Client: b.calls.rest.Client, Dial: g.dial, Open: g.open, Receive: g.receive, Lost: g.lost,
		Ping: -1, Silence: silence,
	})
}

func (b *bot) identity() string {
	if me := b.me.Load(); me != nil {
		return "@" + me.Username
	}
	return ""
}
