// Package weixin is personal WeChat over iLink, WeChat's own interface for
// bots: plain HTTP with a long poll, a bot token that a QR login makes, and
// files that are encrypted before they are uploaded. The package hides that
// a message needs a token out of the last message of its recipient, and that
// such a token allows only a few messages.
package weixin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// moreFollows returns what people read when an answer is longer than WeChat allows.
func moreFollows(language string) string {
	return phrase.In(language, "There is more: WeChat limits how much I may send to one message of yours. The rest follows as soon as you write anything.")
}

const (
	leastPoll = 5 * time.Second
	leaveTime = time.Second
)

// bot is the channel.
type bot struct {
	deps     chat.Deps
	o        *options
	client   *client
	account  *ledger
	progress *recent.Map[string, int] // tools that were shown, by the message
	run      sync.Mutex               // one Run at a time
	stale    chan string              // capacity 1: a bot token that a request found to be stale

	retry, rest, watch time.Duration // after a failed poll, after the third in a row, between looks at account.json
	longest, extra     time.Duration // of a poll, as the service may ask for, and beyond that
	once               *kit.Once     // logs trouble
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:    "Weixin (personal WeChat)",
		Aliases:  []string{"wechat"},
		Options:  func() any { return defaults() },
		New:      newChannel,
		Probe:    probe,
		Login:    login,
		Logout:   logout,
		Expand:   expand,
		Quiet:    true,
		Language: phrase.Chinese,
		Folder:   "weixin",
	}
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	return newBot(d, section)
}

func newBot(d chat.Deps, section json.RawMessage) (*bot, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}
	return &bot{
		deps:     d,
		o:        o,
		client:   newClient(o, h, d.Now),
		account:  newLedger(d, o),
		progress: recent.New[string, int](1000),
		stale:    make(chan string, 1),
		retry:    2 * time.Second,
		rest:     30 * time.Second,
		watch:    2 * time.Second,
		longest:  2 * time.Minute,
		extra:    10 * time.Second,
		once:     kit.NewOnce(d.Log),
	}, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.o.caps() }

func isGroup(r bus.Route) bool { return isGroupID(r.ChatID) }

// Run implements chat.Channel. It outlives the account: after a login, in
// this program or another, it goes on with the new one.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	path, err := accountPath(b.deps, b.o)
	if err != nil {
		return err
	}

	there, err := b.account.load(path) // what was held needs it at once
	if err != nil {
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

	lost := ""
	for ; ctx.Err() == nil && err == nil; there, err = b.account.load(path) {
		s, _ := b.account.session()
		if !there || s.token.Reveal() == lost {
			why := fmt.Errorf("no WeChat account is connected: run nanobot channels login %s", b.deps.Name)
			if there {
				why = fmt.Errorf("the login of WeChat has expired: run nanobot channels login %s", b.deps.Name)
			}

			b.account.forget()
			b.deps.Ready("", why)
			if b.awaitLogin(ctx, path, lost) != nil {
				return nil
			}
			continue
		}

		shown, id := b.account.name()
		if err := b.deps.Claim(id); err != nil {
			return err
		}

		if lost = ""; b.serve(ctx, in, s, shown) {
			lost = s.token.Reveal()
		}
	}

	if ctx.Err() != nil {
		return nil
	}
	return err
}

// awaitLogin waits until account.json has another token.
func (b *bot) awaitLogin(ctx context.Context, path, lost string) error {
	for {
		if err := wait.For(ctx, b.watch); err != nil {
			return err
		}
		r, err := readRecord(path)
		if token := effective(r, b.o).Token; err == nil && token != "" && token != lost {
			return nil
		}
	}
}

// serve receives with one account until ctx ends or the account is of no use:
// stale, or replaced by another login.
func (b *bot) serve(ctx context.Context, in *kit.Intake[arrival], s session, shown string) (stale bool) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer func() {
		cancel()
		work.Wait()
		if err := b.account.save(); err != nil && !errors.Is(err, errReplaced) {
			b.deps.Log.WarnContext(ctx, "the account cannot be kept; messages may come again after a restart", "err", err)
		}
	}()

	work.Go(func() {
		if b.account.saveChanges(ctx) != nil {
			cancel()
		}
	})
	select {
	case <-b.stale: // of the account before
	default:
	}

	err := b.client.post(ctx, signalTime, s, "msg/notifystart", object{}, nil)
	if refusedAs(err, codeStale) {
		return true
	}

	up := err == nil
	if up {
		b.deps.Ready(shown, nil)
	}

	defer func() {
		if stale {
			return
		}
		end, done := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer done()
		_ = b.client.post(end, leaveTime, s, "msg/notifystop", object{}, nil)
	}()
	return b.poll(ctx, in, s, shown, up)
}

// poll receives messages. Up says that the manager knows of the connection. The
// service says itself how long it lets a poll wait: one that takes longer has
// lost its connection.
func (b *bot) poll(ctx context.Context, in *kit.Intake[arrival], s session, shown string, up bool) (stale bool) {
	limit := time.Duration(b.o.PollTimeout) * time.Second
	failures := 0
	told := false
	_, account := b.account.name()
	for ctx.Err() == nil {
		var got updates
		err := b.ask(ctx, limit, s, &got)
		switch {
		case ctx.Err() != nil:
			return false
		case refusedAs(err, codeStale):
			return true
		case errors.Is(err, errPollOver) && told:
			up = false
			b.deps.Ready("", err)
			b.client.rest.Client.CloseIdleConnections() // none that is dead may be used again
			continue

		case errors.Is(err, errPollOver):
			got = updates{}
		case err != nil:
			if failures++; failures > 1 {
				up = false
				b.deps.Ready("", err)
			}

			d := b.retry
			if failures%3 == 0 {
				d = b.rest
			}

			b.once.Warn(ctx, "poll "+errorCause(err), "messages cannot be received; trying again", "err", err)
			_ = wait.For(ctx, d)
			continue
		}

		if failures = 0; !up {
			up = true
			b.deps.Ready(shown, nil)
		}
		if ms := got.Timeout.number(); ms > 0 {
			told = true
			limit = min(max(time.Duration(ms)*time.Millisecond, leastPoll), b.longest)
		}
		if b.hold(ctx, in, account, got.Messages) {
			b.account.advance(got.Cursor)
		}
	}

	return false
}

// errPollOver says that nothing came in the time of a poll.
var errPollOver = errors.New("WeChat does not answer")

// ask waits for messages. It ends early when another request finds out that the
// token is stale.
func (b *bot) ask(ctx context.Context, limit time.Duration, s session, got *updates) error {
	poll, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel(nil)
	watcher.Go(func() {
		select {
		case token := <-b.stale:
			if token == s.token.Reveal() {
				cancel(&apiError{Call: "sendmessage", Code: codeStale})
			}
		case <-poll.Done():
		}
	})

	err := b.client.post(poll, limit+b.extra, s, "getupdates", object{"get_updates_buf": b.account.cursor()}, got)
	if cause := context.Cause(poll); cause != nil && ctx.Err() == nil {
		return cause
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		return errPollOver
	}
	return err
}

// errorCause tells kinds of errors apart, for the log.
func errorCause(err error) string {
	if e := refusal(err); e != nil {
		return fmt.Sprint(e.Status, e.Code)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "syntax"
	}
	return fmt.Sprintf("%T", errors.Unwrap(err))
}

// arrival is a message that is on the disk and not yet with the agent.
type arrival struct {
	Account string          `json:"account"` // that it came to
	Message json.RawMessage `json:"message"`
}

// hold keeps messages before the cursor passes them. False means that ctx ended
// before all were kept.
func (b *bot) hold(ctx context.Context, in *kit.Intake[arrival], account string, list []json.RawMessage) bool {
	for _, raw := range list {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			b.once.Warn(ctx, "message", "a message cannot be read and was dropped", "err", err)
			continue
		}
		if m.Type == ownMessage || m.From == "" {
			continue
		}

		for {
			err := in.Hold(ctx, m.From, m.id(), arrival{account, raw})
			if err == nil {
				break
			}
			b.once.Warn(ctx, "held", "too many messages wait; reading pauses", "err", err)
			if wait.For(ctx, time.Second) != nil {
				return false
			}
		}
	}
	return true
}
