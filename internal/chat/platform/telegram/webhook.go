package telegram

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxHook     = 1 << 20                           // bytes of one update
	hookWait    = 50 * time.Second                  // Telegram gives up after a minute and comes again
	secretField = "X-Telegram-Bot-Api-Secret-Token" //nolint:gosec // the name of a header, not what it holds
)

// hook receives updates by HTTP. Telegram sends the updates of a chat one
// after the other and waits for each answer. Plain messages are answered when
// they are durable as messages; files and parts of albums, which take time or
// belong together, are held until they are.
type hook struct {
	bot  *bot
	web  kit.Webhook
	seen *recent.Map[string, bool] // updates that were handed over

	mu     sync.Mutex
	in     *kit.Intake[job] // of the Run that goes on
	flying map[int64]chan struct{}
}

func (h *hook) prepare(b *bot) {
	h.bot, h.seen = b, recent.New[string, bool](1000)
	h.web = kit.Webhook{
		Path:    b.o.WebhookPath,
		Host:    b.o.WebhookListenHost,
		Port:    b.o.WebhookListenPort,
		MaxBody: maxHook,
		Known: func(r *http.Request) bool {
			return kit.SameSecret(r.Header.Get(secretField), b.o.WebhookSecretToken.Reveal())
		},
		Receive: func(w http.ResponseWriter, r *http.Request, body []byte) {
			kit.Reply(w, h.receive(r.Context(), body))
		},
	}
}

// Routes implements chat.Handler: the webhook, if the gateway's listener
// shall serve it.
func (b *bot) Routes() map[string]http.Handler {
	if b.o.Mode != modeWebhook {
		return nil
	}
	return b.hook.web.Routes()
}

// serve receives until ctx ends.
func (h *hook) serve(ctx context.Context, in *kit.Intake[job]) error {
	h.mu.Lock()
	h.in, h.flying = in, map[int64]chan struct{}{}
	h.mu.Unlock()
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
			return chat.Fatal(err)
		}
		return b.refusedToken(err)
	}

	b.deps.Ready(b.identity(), nil)
	return nil
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

	done, code := h.dispatch(ctx, u)
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

// dispatch hands an update over. With a channel the answer waits until it is
// closed; else the code is the answer.
func (h *hook) dispatch(ctx context.Context, u update) (done <-chan struct{}, code int) {
	j := job{Bot: h.bot.o.bot(), Updates: []update{u}}
	if !slow(u) {
		return h.fly(j)
	}

	h.mu.Lock()
	in := h.in
	h.mu.Unlock()

	if err := in.Hold(ctx, j.chat(), j.key(), j); err != nil {
		if !errors.Is(err, chat.ErrStopping) {
			h.bot.report("keep an update", err)
		}
		return nil, http.StatusServiceUnavailable
	}
	return nil, http.StatusOK
}

// fly hands over an update that Telegram can wait for.
func (h *hook) fly(j job) (done <-chan struct{}, code int) {
	key, id := j.key(), j.Updates[0].ID
	h.mu.Lock()
	defer h.mu.Unlock()

	switch {
	case h.seen.Has(key):
		return nil, http.StatusOK
	case h.flying[id] != nil:
		return h.flying[id], 0
	}

	ready := make(chan struct{})
	h.flying[id] = ready
	h.in.Add(j.chat(), j, func() {
		h.seen.Put(key, true)
		h.mu.Lock()
		delete(h.flying, id)
		h.mu.Unlock()
		close(ready)
	})
	return ready, 0
}

// slow reports whether an update needs more than a write to disk.
func slow(u update) bool {
	m := u.Message
	if m == nil {
		m = u.Edited
	}
	return m != nil && (len(m.attachments()) > 0 || m.ReplyTo != nil && len(m.ReplyTo.attachments()) > 0)
}
