// Package wecom is the AI bot of WeCom (WeChat Work). It hides the long
// connection: how it is subscribed and kept, which command answers which
// message, how encrypted files arrive and files are uploaded, and what happens
// when an answer takes longer than WeCom allows.
//
// An answer is one stream per message: it opens when the message was accepted,
// grows, and is finished once. What WeCom does not take as a stream any more,
// and everything that answers no message, is pushed as a message of its own.
package wecom

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	memory     = 1000             // turns and causes that are remembered
	sweepEvery = 10 * time.Second // for streams that are open for too long
)

// bot is the channel.
type bot struct {
	deps chat.Deps
	o    *options
	caps chat.Caps
	http *http.Client
	run  sync.Mutex    // one Run at a time
	beat time.Duration // between two pings

	conn   atomic.Pointer[socket.Conn] // nil: not subscribed
	turns  *recent.Map[string, *turn]  // by the message that is answered
	asked  *recent.Map[string, bool]   // keys of questions whose text was sent before their buttons
	logged *kit.Once                   // logs trouble

	streamMost atomic.Int64 // last age at which WeCom took an update of a stream that it closed by age, in ns; 0: it closes none

	mu   sync.Mutex
	open map[*turn]bool // streams that people see as unfinished
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:    "WeCom",
		Options:  func() any { return defaults() },
		New:      newChannel,
		Probe:    probe,
		Login:    login,
		Language: phrase.Chinese,
	}
}

// language returns the one of what the driver itself says.
func (b *bot) language() string { return cmp.Or(string(b.o.Language), phrase.Chinese) }

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
	return &bot{
		deps:   d,
		o:      o,
		caps:   o.caps(),
		http:   h,
		beat:   pingEvery,
		turns:  recent.New[string, *turn](memory),
		asked:  recent.New[string, bool](memory),
		logged: kit.NewOnce(d.Log),
		open:   map[*turn]bool{},
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
	if err := b.deps.Claim(b.o.BotID); err != nil {
		return err
	}
	if err := b.deps.Forget(ctx, b.o.BotID, ""); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		return err
	}

	defer in.Wait()
	var sweeper sync.WaitGroup
	defer sweeper.Wait()
	defer cancel()
	sweeper.Go(func() {
		for wait.For(ctx, sweepEvery) == nil {
			b.sweep(ctx)
		}
	})
	return (&line{bot: b, in: in}).run(ctx)
}

// once logs one cause of trouble once.
func (b *bot) once(ctx context.Context, cause string, args ...any) {
	b.logged.Warn(ctx, cause, "a frame of WeCom is ignored", append([]any{"cause", cause}, args...)...)
}
