package telegram

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/recent"
)

const (
	maxHook     = 1 << 20                           // bytes of one update
	hookWait    = 50 * time.Second                  // Telegram gives up after a minute and comes again
	secretField = "X-Telegram-Bot-Api-Secret-Token" //nolint:gosec // the name of a header, not what it holds
)

// hook receives updates by HTTP. Telegram sends the updates of a chat one
// after the other and waits for each answer. Plain messages are answered when
// they are durable as messages; files and parts of albums, which take time or
// belong together, are kept in the channel's state until they are.
type hook struct {
	bot  *bot
	web  channel.Webhook
	seen *recent.Map[string, bool] // updates that were handed over

	mu     sync.Mutex
	in     *intake // of the Run that goes on
	flying map[int64]chan struct{}
	albums map[int64]*album // by chat
}

func (h *hook) prepare(b *bot) {
	h.bot, h.seen = b, recent.New[string, bool](1000)
	h.web = channel.Webhook{
		Path:    b.o.WebhookPath,
		Host:    b.o.WebhookListenHost,
		Port:    b.o.WebhookListenPort,
		MaxBody: maxHook,
		Known: func(r *http.Request) bool {
			return channel.SameSecret(r.Header.Get(secretField), b.o.WebhookSecretToken.Reveal())
		},
		Receive: func(w http.ResponseWriter, r *http.Request, body []byte) {
			channel.Reply(w, h.receive(r.Context(), body))
		},
	}
}

// album waits for its parts.
type album struct {
	id    string
	parts []update
	timer *time.Timer
}

// Routes implements channel.Handler: the webhook, if the gateway's listener
// shall serve it.
func (b *bot) Routes() map[string]http.Handler {
	if b.o.Mode != modeWebhook {
		return nil
	}
	return b.hook.web.Routes()
}

// serve receives until ctx ends.
func (h *hook) serve(ctx context.Context, in *intake) error {
	h.bot.facts.recover(in)
	h.open(in)
	defer h.close()
	return h.web.Serve(ctx, h.announce)
}

// announce tells Telegram where we are.
func (h *hook) announce(ctx context.Context) error {
	b := h.bot
	err := b.calls.call(ctx, "setWebhook", map[string]any{
		"url": b.o.WebhookURL, "secret_token": b.o.WebhookSecretToken.Reveal(),
		"max_connections": b.o.WebhookMaxConnections, "allowed_updates": b.allowedUpdates(),
	}, nil)
	if err != nil {
		if e := refusal(err); e != nil && e.Code == http.StatusBadRequest {
			return channel.Fatal(err)
		}
		return b.refusedToken(err)
	}
	b.deps.Ready(b.identity(), nil)
	return nil
}

func (h *hook) open(in *intake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.in = in
	h.flying, h.albums = map[int64]chan struct{}{}, map[int64]*album{}
}

// close leaves unfinished albums where they are: in the state.
func (h *hook) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.albums {
		a.timer.Stop()
	}
	h.albums = nil
}

// receive handles an update and says with which status to answer.
func (h *hook) receive(ctx context.Context, body []byte) int {
	u, err := readUpdate(body)
	if u.ID == 0 {
		return http.StatusBadRequest
	}
	if err != nil {
		h.bot.deps.Log.WarnContext(ctx, "an update is not understood and passed over", "update", u.ID, "err", err)
	}
	done, code := h.take(u)
	if done == nil {
		return code
	}
	t := time.NewTimer(hookWait)
	defer t.Stop()
	select {
	case <-done:
		return http.StatusOK
	case <-t.C:
	case <-ctx.Done():
	}
	return http.StatusServiceUnavailable
}

// take hands an update over. With a channel the answer waits until it is
// closed; else the code is the answer.
func (h *hook) take(u update) (done <-chan struct{}, code int) {
	key := strconv.FormatInt(u.ID, 10)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.seen.Has(key):
		return nil, http.StatusOK
	case h.flying[u.ID] != nil:
		return h.flying[u.ID], 0
	}
	if !slow(u) {
		h.flush(u.chatID())
		ready := make(chan struct{})
		h.flying[u.ID] = ready
		h.in.add([]update{u}, func() {
			h.seen.Put(key, true)
			h.mu.Lock()
			delete(h.flying, u.ID)
			h.mu.Unlock()
			close(ready)
		})
		return ready, 0
	}
	fresh, err := h.bot.facts.hold(u)
	if err != nil {
		h.in.report("keep an update", err)
		return nil, http.StatusServiceUnavailable
	}
	if fresh {
		h.collect(u)
	}
	return nil, http.StatusOK
}

// slow reports whether an update needs more than a write to disk.
func slow(u update) bool {
	m := u.Message
	if m == nil {
		m = u.Edited
	}
	return m != nil && (len(m.attachments()) > 0 || m.ReplyTo != nil && len(m.ReplyTo.attachments()) > 0)
}

// collect puts a held update to its album, or hands it over. The lock is held.
func (h *hook) collect(u update) {
	id := u.chatID()
	if a := h.albums[id]; a != nil && a.id == u.album() {
		a.parts = append(a.parts, u)
		a.timer.Reset(albumWait)
		return
	}
	h.flush(id)
	if u.album() == "" {
		h.hand([]update{u})
		return
	}
	a := &album{id: u.album(), parts: []update{u}}
	a.timer = time.AfterFunc(albumWait, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.albums[id] == a {
			h.flush(id)
		}
	})
	h.albums[id] = a
}

// flush hands over the album that a chat is waiting with: something else
// follows, so it is complete. The lock is held.
func (h *hook) flush(id int64) {
	a := h.albums[id]
	if a == nil {
		return
	}
	a.timer.Stop()
	delete(h.albums, id)
	h.hand(a.parts)
}

func (h *hook) hand(us []update) {
	in := h.in
	in.add(us, func() {
		for _, u := range us {
			h.seen.Put(strconv.FormatInt(u.ID, 10), true)
		}
		in.report("forget a held update", h.bot.facts.release(us))
	})
}
