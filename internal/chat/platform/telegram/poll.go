package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	window       = 100         // most updates of one poll
	busyPoll     = time.Second // how often we look for new updates while old ones are not handled
	conflictWait = 10 * time.Second
	conflictMost = 60 * time.Second
	troubleWait  = time.Second
	troubleMost  = 60 * time.Second
)

// poller asks for updates. It does not need a queue of its own: Telegram repeats what
// is not acknowledged, so an album that may not be complete is simply left
// there for the next round.
type poller struct {
	bot    *bot
	in     *kit.Intake[job]
	offset int64
	at     time.Time            // of the last update
	albums map[string]time.Time // when an album counts as complete

	mu      sync.Mutex
	done    map[int64]bool // of updates that were taken: whether they are handled
	flying  int
	changed chan struct{}
}

func newPoller(b *bot, in *kit.Intake[job]) *poller {
	return &poller{
		bot: b, in: in, offset: b.facts.offset(), at: b.deps.Now(),
		albums: map[string]time.Time{}, done: map[int64]bool{}, changed: make(chan struct{}, 1),
	}
}

// run polls until ctx ends. It waits for passing trouble to end, because a new start
// could not do better.
func (p *poller) run(ctx context.Context) error {
	if err := p.bot.calls.call(ctx, "deleteWebhook", nil, nil); err != nil && ctx.Err() == nil {
		return p.bot.refusedToken(err)
	}

	up := false
	trouble := wait.Backoff{Least: troubleWait, Most: troubleMost, Spread: 0.2}
	conflict := wait.Backoff{Least: conflictWait, Most: conflictMost}
	lost := func(err error) {
		up = false
		p.bot.deps.Ready(p.bot.identity(), err)
	}
	for ctx.Err() == nil {
		err := p.round(ctx, up)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // we were told to end, whatever the round made of it
		}

		if err == nil {
			if !up {
				p.bot.deps.Ready(p.bot.identity(), nil)
			}
			up = true
			trouble.Reset()
			conflict.Reset()
			continue
		}

		e := refusal(err)
		switch {
		case chat.IsFatal(p.bot.refusedToken(err)):
			return p.bot.refusedToken(err)
		case e != nil && e.Code == http.StatusConflict && e.mentions("webhook"):
			lost(errors.New("a webhook was set for this token and is being removed: is another program using it?"))
			if err := p.bot.calls.call(ctx, "deleteWebhook", nil, nil); err != nil {
				p.bot.report("remove the webhook", err)
			}
			_ = wait.For(ctx, troubleWait)

		case e != nil && e.Code == http.StatusConflict:
			lost(errors.New("another program receives messages with the same token: stop it, or get a token of your own from @BotFather"))
			_ = conflict.Wait(ctx)
		case e != nil && e.Code == http.StatusTooManyRequests:
			_ = wait.For(ctx, time.Duration(max(e.RetryAfter, 1))*time.Second)
		default:
			lost(err)
			p.bot.polls.rest.Client.CloseIdleConnections() // a dead connection must not be used again
			_ = trouble.Wait(ctx)
		}
	}

	return nil
}

// round is one poll and what came of it. The first one does not wait for
// updates, so that the state of the connection is known soon.
func (p *poller) round(ctx context.Context, up bool) error {
	params := struct {
		Offset  int64    `json:"offset,omitempty"`
		Limit   int      `json:"limit"`
		Timeout int      `json:"timeout"`
		Allowed []string `json:"allowed_updates"`
	}{p.offset, window, int(p.bot.pollFor.Seconds()), p.bot.allowedUpdates()}

	began := p.bot.deps.Now()
	if began.Sub(p.at) > staleOffset {
		params.Offset, p.at = 0, began
	}
	if !up || p.busy() {
		params.Timeout = 0
	}

	var raw []json.RawMessage
	if err := p.bot.polls.callWithin(ctx, p.bot.pollMost, "getUpdates", params, &raw); err != nil {
		return err
	}

	updates := make([]update, 0, len(raw))
	for _, r := range raw {
		u, err := readUpdate(r)
		if err != nil && !p.handled(u.ID) {
			p.bot.deps.Log.WarnContext(ctx, "an update is not understood and passed over", "update", u.ID, "err", err)
		}
		if u.ID != 0 {
			updates = append(updates, u)
		}
	}

	if len(updates) > 0 {
		p.at = p.bot.deps.Now()
	}

	p.dispatch(updates, began)
	p.await(ctx)
	p.advance(updates)
	return nil
}

func (b *bot) allowedUpdates() []string {
	kinds := []string{"message", "callback_query"}
	if b.o.EditedMessages {
		kinds = append(kinds, "edited_message")
	}
	return kinds
}

// dispatch hands over what is new. An album waits until nothing was added to it
// for a while, and what was written after it in the same chat waits with it.
func (p *poller) dispatch(updates []update, began time.Time) {
	held, waiting := map[int64]bool{}, map[string]bool{}
	defer func() { maps.DeleteFunc(p.albums, func(key string, _ time.Time) bool { return !waiting[key] }) }()
	for i, u := range updates {
		if p.handled(u.ID) || held[u.chatID()] {
			continue
		}

		parts := []update{u}
		if u.album() != "" {
			key := strconv.FormatInt(u.chatID(), 10) + "/" + u.album()
			due, ok := p.albums[key]
			if !ok {
				due = p.bot.deps.Now().Add(albumWait)
				p.albums[key] = due
			}

			if began.Before(due) {
				held[u.chatID()], waiting[key] = true, true
				continue
			}

			for _, o := range updates[i+1:] {
				if o.album() == u.album() && o.chatID() == u.chatID() && !p.handled(o.ID) {
					parts = append(parts, o)
				}
			}
		}

		p.fly(parts)
	}
}

func (p *poller) handled(id int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.done[id]
	return ok
}

func (p *poller) fly(parts []update) {
	p.mu.Lock()
	for _, u := range parts {
		p.done[u.ID] = false
	}

	p.flying++
	p.mu.Unlock()
	j := job{Bot: p.bot.o.bot(), Updates: parts, whole: true}
	p.in.Add(j.chat(), j, func() {
		p.mu.Lock()
		for _, u := range parts {
			p.done[u.ID] = true
		}

		p.flying--
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
	})
}

func (p *poller) inFlight() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flying > 0
}

// busy reports whether updates we know of are not handled yet. Telegram would
// answer a long poll with them at once.
func (p *poller) busy() bool { return p.inFlight() || len(p.albums) > 0 }

// await waits until all is handled, the next album is complete, or it is time
// to look for new updates.
func (p *poller) await(ctx context.Context) {
	limit := busyPoll
	now := p.bot.deps.Now()
	for _, due := range p.albums {
		limit = min(limit, max(due.Sub(now), 0))
	}

	t := time.NewTimer(limit)
	defer t.Stop()
	for p.busy() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-p.changed:
		}
	}
}

// advance moves the offset to the first update that is not handled.
func (p *poller) advance(updates []update) {
	if len(updates) == 0 {
		return
	}

	next := updates[len(updates)-1].ID + 1
	p.mu.Lock()
	for _, u := range updates {
		if !p.done[u.ID] {
			next = u.ID
			break
		}
	}

	for id := range p.done {
		if id < next {
			delete(p.done, id)
		}
	}

	p.mu.Unlock()
	if next == p.offset {
		return
	}

	p.offset = next
	if err := p.bot.facts.setOffset(next, p.bot.deps.Now()); err != nil {
		// Telegram remembers it as well, and what comes again has the same id.
		p.bot.report("remember how far was read", err)
	}
}
