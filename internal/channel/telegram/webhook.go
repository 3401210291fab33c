package telegram

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/recent"
)

const (
	maxHook     = 1 << 20          // bytes of one update
	hookWait    = 50 * time.Second // Telegram gives up after a minute and comes again
	hookStop    = 5 * time.Second
	secretField = "X-Telegram-Bot-Api-Secret-Token" //nolint:gosec // the name of a header, not what it holds
)

// hook receives updates by HTTP. Telegram sends the updates of a chat one
// after the other and waits for each answer. Plain messages are answered when
// they are durable as messages; files and parts of albums, which take time or
// belong together, are kept in the channel's state until they are.
type hook struct {
	bot  *bot
	seen *recent.Map[string, bool] // updates that were handed over

	mu     sync.Mutex
	in     *intake         // nil while Run is not going on
	ctx    context.Context //nolint:containedctx // of the Run that goes on
	flying map[int64]chan struct{}
	albums map[int64]*album // by chat
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
	if b.o.Mode != modeWebhook || b.o.WebhookListenPort != 0 {
		return nil
	}
	return map[string]http.Handler{b.o.WebhookPath: &b.hook}
}

// serve tells Telegram where we are and receives until ctx ends.
func (h *hook) serve(ctx context.Context, in *intake) error {
	b := h.bot
	failed := make(chan error, 1)
	if b.o.WebhookListenPort != 0 {
		stop, err := h.listen(ctx, failed)
		if err != nil {
			return err
		}
		defer stop()
	}
	b.facts.recover(in)
	h.open(ctx, in)
	defer h.close()
	err := b.calls.call(ctx, "setWebhook", map[string]any{
		"url": b.o.WebhookURL, "secret_token": b.o.WebhookSecretToken.Reveal(),
		"max_connections": b.o.WebhookMaxConnections, "allowed_updates": b.allowedUpdates(),
	}, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		if e := refusal(err); e != nil && e.Code == http.StatusBadRequest {
			return channel.Fatal(err)
		}
		return refusedToken(err)
	}
	b.deps.Ready(b.identity(), nil)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func (h *hook) listen(ctx context.Context, failed chan<- error) (stop func(), err error) {
	o := &h.bot.o
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(o.WebhookListenHost, strconv.Itoa(o.WebhookListenPort)))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(o.WebhookPath, h)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookStop)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
	}, nil
}

func (h *hook) open(ctx context.Context, in *intake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.in, h.ctx = in, ctx
	h.flying, h.albums = map[int64]chan struct{}{}, map[int64]*album{}
}

// close leaves unfinished albums where they are: in the state.
func (h *hook) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.albums {
		a.timer.Stop()
	}
	h.in, h.albums = nil, nil
}

// ServeHTTP implements http.Handler.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code := h.receive(r, w)
	if code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(code)
	if code != http.StatusOK {
		_, _ = io.WriteString(w, http.StatusText(code)+"\n")
	}
}

func (h *hook) receive(r *http.Request, w http.ResponseWriter) int {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed
	}
	want := h.bot.o.WebhookSecretToken.Reveal()
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(secretField)), []byte(want)) != 1 {
		return http.StatusUnauthorized
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return http.StatusBadRequest
	}
	u, err := readUpdate(body)
	if u.ID == 0 {
		return http.StatusBadRequest
	}
	if err != nil {
		h.bot.deps.Log.WarnContext(r.Context(), "an update is not understood and passed over", "update", u.ID, "err", err)
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
	case <-r.Context().Done():
	case <-h.ended():
	}
	return http.StatusServiceUnavailable
}

func (h *hook) ended() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx.Done()
}

// take hands an update over. With a channel the answer waits until it is
// closed; else the code is the answer.
func (h *hook) take(u update) (done <-chan struct{}, code int) {
	key := strconv.FormatInt(u.ID, 10)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.in == nil:
		return nil, http.StatusServiceUnavailable
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
