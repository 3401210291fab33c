// Package matrix is the chat platform Matrix. It hides the client-server API:
// how sync, rooms, invitations, threads and files become messages for the
// agent, how Markdown becomes the HTML that clients show, and the encryption of
// rooms.
//
// How far sync has been read is saved once all messages up to there are
// durable, so a message is neither lost by a restart nor answered twice. Events
// of one room keep their order; a slow download in one room does not hold up
// the others.
//
// Encryption is that of maunium.net/go/mautrix in pure Go, which is linked with
// the build tag goolm. A program without it works in rooms that are not
// encrypted and says so in others. The keys of the device are in a database in
// the account's folder; without them older messages cannot be read.
package matrix

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
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	nameShown   = 64   // characters of a person's name
	remembered  = 1000 // messages, and causes that were told
	strangerDay = 10   // rooms of strangers that are joined in a day
	keyWait     = 10 * time.Second
)

// bot is the channel.
type bot struct {
	deps   chat.Deps
	o      *options
	client *client // everything but sync: a long poll must not share a connection pool with answers
	polls  *client
	dir    string
	device string
	rooms  *rooms
	run    sync.Mutex // one Run at a time

	keyWait   time.Duration // how long a message waits for its keys before others of its room
	pollFor   time.Duration // how long a sync waits for news
	silence   time.Duration // how long a sync may take
	trouble   time.Duration // pause after a sync that failed; the next ones are longer
	began     time.Time     // what was written before is a backlog
	downloads chan struct{}
	strangers budget
	ours      *recent.Map[string, bool] // messages that we sent
	ignored   *recent.Map[string, bool] // messages that were not for us
	logged    *recent.Map[string, bool]
	limit     atomic.Int64 // bytes of the largest file that we take and send
	vault     vault
}

// Driver describes Matrix.
func Driver() chat.Driver {
	return chat.Driver{
		Title:         "Matrix",
		Options:       func() any { return defaults() },
		New:           newChannel,
		Probe:         probe,
		Login:         login,
		LoginOptional: true,
		Folder:        "matrix-store",
	}
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	b := &bot{
		deps:      d,
		o:         o,
		downloads: make(chan struct{}, o.MaxDownloads),
		strangers: budget{most: strangerDay, per: 24 * time.Hour},
		keyWait:   keyWait,
		pollFor:   pollFor,
		silence:   pollSilence,
		trouble:   troubleWait,
		began:     d.Now(),
		ours:      recent.New[string, bool](remembered),
		ignored:   recent.New[string, bool](remembered),
		logged:    recent.New[string, bool](remembered),
	}

	b.limit.Store(o.MaxMediaBytes)
	b.rooms = newRooms(b)
	for _, c := range []**client{&b.client, &b.polls} {
		h, err := d.Client(o.Proxy)
		if err != nil {
			return nil, err
		}
		*c = newClient(o, h)
	}

	if d.Gate != nil {
		d.Gate.SetRules(o.rules())
	}
	return b, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.o.caps() }

// identity returns who we are there, for status.
func (b *bot) identity() string {
	if _, err := b.keys(); errors.Is(err, errNoCrypt) && b.o.E2EEEnabled {
		return b.o.UserID + " (without encryption)"
	}
	return b.o.UserID
}

// once reports whether something was not told yet.
func (b *bot) once(what string) bool {
	if b.logged.Has(what) {
		return false
	}
	b.logged.Put(what, true)
	return true
}

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.polls.rest.Client.CloseIdleConnections()
	defer b.client.rest.Client.CloseIdleConnections()
	if err := b.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := b.openCrypt(ctx); err != nil {
		return err
	}

	defer b.closeCrypt()
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		return err
	}

	b.vault.queue(func(e event) { in.Add(e.Room, e, func() {}) })
	defer in.Wait()
	defer b.vault.queue(nil)
	defer cancel()
	s, err := newSyncer(b, in)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// start logs in and learns the limits of the homeserver.
func (b *bot) start(ctx context.Context) error {
	if b.deps.Claim != nil {
		if err := b.deps.Claim(b.o.UserID); err != nil {
			return err
		}
	}

	dir, err := b.deps.Dir()
	if err != nil {
		return err
	}

	b.dir = dir
	if err := b.login(ctx); err != nil {
		return err
	}

	b.polls.token.Store(b.client.token.Load())

	var limits struct {
		Upload int64 `json:"m.upload.size"`
	}
	err = b.client.call(ctx, http.MethodGet, clientV1+"/media/config", nil, &limits)
	if is(err, "M_UNRECOGNIZED") {
		err = b.client.call(ctx, http.MethodGet, mediaV3+"/config", nil, &limits)
	}
	if err != nil {
		b.deps.Log.DebugContext(ctx, "the homeserver does not say how large files may be", "err", err)
	}

	if limits.Upload > 0 {
		b.limit.Store(min(b.o.MaxMediaBytes, limits.Upload))
		if b.deps.Refine != nil {
			b.deps.Refine(func(c *chat.Caps) { c.MaxMedia = b.limit.Load() })
		}
	}
	return nil
}

// openCrypt loads the keys of the device and uploads its public ones before the
// first sync: others encrypt for a device only once they know it.
func (b *bot) openCrypt(ctx context.Context) error {
	c, err := desk(nil), errOff
	if b.o.E2EEEnabled {
		c, err = newCrypt(ctx, b)
	}

	if err != nil && !errors.Is(err, errNoCrypt) {
		return fmt.Errorf("encryption: %w", err)
	}

	if err != nil && b.o.E2EEEnabled {
		b.deps.Log.WarnContext(ctx, "encrypted rooms cannot be read", "err", err)
	}

	b.vault.set(c, err)
	return nil
}

func (b *bot) closeCrypt() {
	c, err := b.keys()
	if err != nil {
		return
	}
	b.vault.set(nil, nil)
	if err := c.close(); err != nil {
		b.deps.Log.Warn("cannot close the store of keys", "err", err)
	}
}
