package kit

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	webhookBody = 1 << 20          // bytes of a request, unless the platform says otherwise
	webhookRead = 30 * time.Second // for the body of a request
	webhookStop = 5 * time.Second
)

// Webhook receives the requests of a platform: on a port of its own, or on the
// gateway's listener. Its fields are set before it is used.
type Webhook struct {
	Path    string // pattern of http.ServeMux, without a method
	Host    string // of a port of its own
	Port    int    // 0: the gateway's listener
	MaxBody int64  // bytes; 0: 1 MiB
	// Known reports by the headers whether the platform sent the request. It is
	// asked before the body is read. Nil: Receive checks who calls.
	Known func(r *http.Request) bool
	// Receive handles a request of the method POST and answers it; see Reply. It
	// is called only while Serve goes on, and concurrently. The request's
	// context ends with Serve as well.
	Receive func(w http.ResponseWriter, r *http.Request, body []byte)

	mu   sync.Mutex
	run  context.Context //nolint:containedctx // of the Serve that goes on; nil: none does
	work sync.WaitGroup  // calls of Receive
}

// Routes returns what a channel with this webhook returns from Handler.Routes.
func (h *Webhook) Routes() map[string]http.Handler {
	if h.Port != 0 {
		return nil
	}
	return map[string]http.Handler{h.Path: h}
}

// Serve receives requests until ctx ends, which is not an error, or the port
// fails. Begin is called when requests can come in: it tells the platform where
// we are. When Serve returns no call of Receive goes on.
func (h *Webhook) Serve(ctx context.Context, begin func(ctx context.Context) error) error {
	failed := make(chan error, 1)
	if h.Port != 0 {
		stop, err := h.listen(ctx, failed)
		if err != nil {
			return err
		}
		defer stop()
	}

	ctx, cancel := context.WithCancel(ctx)
	h.open(ctx)
	defer h.close()
	defer cancel()

	if err := begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func (h *Webhook) open(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run = ctx
}

// close lets no more requests in and waits for those that are.
func (h *Webhook) close() {
	h.mu.Lock()
	h.run = nil
	h.mu.Unlock()
	h.work.Wait()
}

// listen opens the port.
func (h *Webhook) listen(ctx context.Context, failed chan<- error) (stop func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(h.Host, strconv.Itoa(h.Port)))
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.Handle(h.Path, h)
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       webhookRead,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), webhookStop)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
	}, nil
}

// ServeHTTP implements http.Handler.
func (h *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		Reply(w, http.StatusMethodNotAllowed)
		return
	case h.Known != nil && !h.Known(r):
		Reply(w, http.StatusUnauthorized)
		return
	}

	ctx, leave := h.enter(r.Context())
	if ctx == nil {
		Reply(w, http.StatusServiceUnavailable)
		return
	}

	defer leave()

	body, err := h.body(ctx, w, r)
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		Reply(w, http.StatusRequestEntityTooLarge)
	case err != nil:
		Reply(w, http.StatusBadRequest)
	default:
		h.Receive(w, r.WithContext(ctx), body)
	}
}

// enter makes the context of a request, which ends with Serve too. It is nil
// while Serve does not go on.
func (h *Webhook) enter(ctx context.Context) (_ context.Context, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.run == nil {
		return nil, nil
	}

	h.work.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.run, cancel)
	return ctx, func() {
		stop()
		cancel()
		h.work.Done()
	}
}

// body reads a body that is neither too large nor too slow. The time for it
// ends there: the answer may take longer. It ends with Serve, too.
func (h *Webhook) body(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	most := h.MaxBody
	if most == 0 {
		most = webhookBody
	}

	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(webhookRead)) // else the server's own limit holds
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		_ = conn.SetReadDeadline(time.Time{})
	}
	return body, err
}

// Reply answers a request with a status alone.
func Reply(w http.ResponseWriter, code int) {
	w.WriteHeader(code)
	if code != http.StatusOK {
		_, _ = io.WriteString(w, http.StatusText(code)+"\n")
	}
}

// SameSecret compares a secret that came with a request in a time that says
// nothing about it. Nothing equals a secret that is not set.
func SameSecret(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return want != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
