// Package napcat is a QQ account behind NapCat or another program that speaks
// OneBot 11, by a WebSocket that we open. It hides the protocol: how actions are
// answered, how messages are made of segments or CQ codes, and which messages of
// a group are for us.
package napcat

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
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// memory is how many messages of ours and causes are remembered.
const memory = 2000

// bot is the channel.
type bot struct {
	deps chat.Deps
	o    *options
	caps chat.Caps
	http *http.Client
	run  sync.Mutex // one Run at a time

	silence time.Duration // longest time without a sign of the server
	slack   time.Duration // how late a heartbeat may be

	conn   atomic.Pointer[socket.Conn] // nil: not connected
	me     atomic.Pointer[account]
	sent   *recent.Map[string, bool] // ids of our messages
	logged *kit.Once                 // logs trouble
}

// account is who we are.
type account struct {
	ID   id     `json:"user_id"`
	Name string `json:"nickname"`
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:    "NapCat (QQ)",
		Options:  func() any { return defaults() },
		New:      newChannel,
		Probe:    probe,
		Language: phrase.Chinese,
	}
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	b, err := newBot(d, section)
	if err != nil {
		return nil, err
	}
	d.Gate.SetRules(access.Rules{ForUs: func(v access.Visitor) bool { return v.Mentioned }}) // see forUs
	return b, nil
}

func newBot(d chat.Deps, section json.RawMessage) (*bot, error) {
	o, err := decode(section)
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}
	return &bot{
		deps: d,
		o:    o,
		caps: o.caps(),
		http: h,

		silence: silence,
		slack:   beatSlack,
		sent:    recent.New[string, bool](memory),
		logged:  kit.NewOnce(d.Log),
	}, nil
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

	defer b.http.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		return err
	}

	defer in.Wait()
	defer cancel()
	return (&line{bot: b, in: in}).run(ctx)
}

// identity returns who we are for people.
func (b *bot) identity() string {
	me := b.me.Load()
	if me == nil {
		return ""
	}
	return me.Name + " (" + string(me.ID) + ")"
}

// once logs one cause of trouble once.
func (b *bot) once(ctx context.Context, cause string, args ...any) {
	b.logged.Warn(ctx, cause, "a frame of NapCat is ignored", append([]any{"cause", cause}, args...)...)
}

// probe asks who we are. Other programs may be connected at the same time.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	b, err := newBot(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	b.deps.Ready = func(string, error) {}
	b.deps.Claim = func(string) error { return errReached }
	defer b.http.CloseIdleConnections()
	l := &line{bot: b}
	o := l.options()
	o.Lost = func(err error) error { return socket.Fatal(l.lost(err)) }
	err = socket.Run(ctx, o)
	check := chat.Check{Name: "connection", OK: errors.Is(err, errReached), Detail: b.o.WSURL}
	if !check.OK {
		check.Detail = fmt.Sprint(err)
	}
	return chat.Report{Identity: b.identity(), Checks: []chat.Check{check}}, nil
}

// errReached ends a probe.
var errReached = errors.New("reached")

var _ chat.Signaller = (*bot)(nil)
