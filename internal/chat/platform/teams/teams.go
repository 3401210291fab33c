// Package teams is the chat platform Microsoft Teams, through its bots. It
// hides the Bot Framework: how requests of Teams are told from forged ones, how
// activities, quotes and files become one message for the agent, and how
// answers, cards, streams and files are sent.
//
// An activity is answered at once when it is held on the disk, since Teams
// repeats what takes longer than 15 seconds. Everything else happens after
// that, in the order of each chat.
//
// A conversation is reached at the address that came with its last message.
// Tokens of the bot go only to hosts in trustedServiceUrlHosts, which never
// come from a message.
package teams

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
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// bot is the channel.
type bot struct {
	deps    chat.Deps
	o       *options
	calls   *client
	auth    *verifier
	facts   *facts
	web     kit.Webhook
	streams streams
	asked   *recent.Map[string, bus.Question] // by chat and message
	logged  *recent.Map[string, time.Time]    // causes that were logged
	in      atomic.Pointer[kit.Intake[activity]]
	stop    atomic.Pointer[context.CancelCauseFunc] // ends the Run that goes on
	run     sync.Mutex                              // one Run at a time
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:   "Microsoft Teams",
		Aliases: []string{"teams"},
		Options: func() any { return defaults() },
		New:     newChannel,
		Probe:   probe,
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

	b := &bot{
		deps:   d,
		o:      o,
		calls:  newClient(d, o, h),
		auth:   newVerifier(d, o, h),
		facts:  &facts{state: d.State, o: o, now: d.Now},
		asked:  recent.New[string, bus.Question](1000),
		logged: recent.New[string, time.Time](100),
	}

	b.web = kit.Webhook{Path: o.Path, Host: o.Host, Port: o.Port, Known: b.known, Receive: b.receive}
	return b, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.o.caps() }

// Routes implements chat.Handler.
func (b *bot) Routes() map[string]http.Handler { return b.web.Routes() }

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.calls.connector.Client.CloseIdleConnections()
	if !b.o.ValidateInboundAuth {
		b.deps.Log.WarnContext(ctx, "validateInboundAuth is off: any program of this machine can write as any person")
	}

	if err := b.deps.Claim(b.o.AppID); err != nil {
		return err
	}

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	b.stop.Store(&stop)
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		return err
	}

	defer in.Wait()
	b.in.Store(in)
	err = b.web.Serve(ctx, b.begin)
	if cause := context.Cause(ctx); chat.IsFatal(cause) {
		return cause
	}
	return err
}

// begin shows that our credentials are right. There is no connection to Teams:
// it calls us.
func (b *bot) begin(ctx context.Context) error {
	if err := b.facts.open(); err != nil {
		return err
	}
	if _, err := b.calls.tokens.Get(ctx, ""); err != nil {
		return err
	}
	b.deps.Ready(b.o.AppID, nil)
	return nil
}

// refused ends Run if an error says that our credentials are no longer right.
func (b *bot) refused(err error) error {
	if !chat.IsFatal(err) {
		return err
	}
	if stop := b.stop.Load(); stop != nil {
		(*stop)(err)
	}
	return fmt.Errorf("%w: %w", chat.ErrNotReady, err)
}

// complainEvery is how often the same cause is logged.
const complainEvery = time.Hour

// complain logs what strangers can cause, each cause once in a while.
func (b *bot) complain(ctx context.Context, cause string, err error) {
	now := b.deps.Now()
	if at, ok := b.logged.Get(cause); ok && now.Sub(at) < complainEvery {
		return
	}
	b.logged.Put(cause, now)
	b.deps.Log.WarnContext(ctx, "a request to the messaging endpoint is not accepted", "cause", cause, "err", err)
}

// probe fetches a token with the credentials of a section, and the keys that
// Teams signs with.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return chat.Report{}, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return chat.Report{}, err
	}

	defer h.CloseIdleConnections()
	if _, err := newClient(d, o, h).tokens.Get(ctx, ""); err != nil {
		return chat.Report{}, err
	}

	r := chat.Report{Identity: o.AppID, Checks: []chat.Check{{Name: "credentials", OK: true, Detail: "Microsoft issued a token"}}}
	check := chat.Check{Name: "keys", OK: true, Detail: "the keys that Teams signs with can be read"}
	if _, err := newVerifier(d, o, h).framework.fetch(ctx); err != nil {
		check.OK, check.Detail = false, chat.Explain(err).Error()+"; check openIdUrl and the proxy"
	}

	r.Checks = append(r.Checks, check)
	return r, nil
}
