package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/web/api"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// front answers HTTP beside the channels: health and the API.
type front struct {
	state    *state
	listener net.Listener // nil: the host program serves Handler
	metrics  *api.Metrics
	base     api.Options                  // what the gateway lends
	answers  atomic.Pointer[http.Handler] // with the settings in use
}

// portWait is how long to wait for a port that is taken.
const portWait = time.Second

// listen takes the port; "-" as the address is none, "" the configured one.
func (f *front) listen(ctx context.Context, addr string, cfg config.Gateway) (err error) {
	switch addr {
	case "-":
		return nil
	case "":
		addr = net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))
	}

	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // clients come one way, and asking the kernel for more takes time
	for pause := time.Millisecond; ; pause *= 2 {
		f.listener, err = lc.Listen(ctx, "tcp", addr)
		// A child of a gateway that was killed has its port until it runs another program.
		if !errors.Is(err, syscall.EADDRINUSE) || pause > portWait/2 || wait.For(ctx, pause) != nil {
			break
		}
	}

	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: %w; another program has this port: stop it, or set gateway.port", addr, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("listen on %s: %w; only the administrator may use a port below 1024: set gateway.port to a higher one", addr, err)
	}

	return fmt.Errorf("listen on %s: %w; set gateway.host and gateway.port to an address of this machine", addr, err)
}

func (f *front) addr() net.Addr {
	if f.listener == nil {
		return nil
	}
	return f.listener.Addr()
}

// renew puts the settings of an agent to use for what answers HTTP: a key
// that was changed must not open anything any more.
func (f *front) renew(a *app.App) error {
	o, err := a.APIOptions(f.metrics)
	if err != nil {
		return err
	}

	o.Health, o.Media.Transcribe, o.Log, o.Now = f.base.Health, f.base.Media.Transcribe, f.base.Log, f.base.Now
	switch {
	case !a.Config.Config.Gateway.API: // the owner does not want it
	case f.serves(a.Config.Config):
		o.Ask, o.Models, o.DeleteSession = f.base.Ask, func() []api.Model { return app.APIModels(f.state.config()) }, f.deleteSession
		o.Trigger, o.TriggerKey = f.fireTrigger, func(id string) []byte { return schedule.TriggerKey(a.Config.DataDir, id) }
		o.Nonces = api.NewNonces(app.State(a.Config, f.base.Log), string(datadir.Nonces))
	default:
		f.base.Log.Warn("the API is not served, because other machines can reach it: set api.apiKey to 16 characters or more, or gateway.host to 127.0.0.1")
	}

	fresh, err := api.New(o)
	if err != nil {
		return err
	}

	h := fresh.Handler()
	f.answers.Store(&h)
	return nil
}

// serves says whether the OpenAI-compatible API is served. Off this machine
// it needs a good key; without one only health is answered there.
func (f *front) serves(cfg config.Config) bool {
	l := f.listener
	return l == nil || api.Loopback(l.Addr()) || auth.Strong(cfg.API.APIKey)
}

// Handler answers everything: the API, health and the channels that receive by
// HTTP. A host program may mount it.
func (g *Gateway) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, ok := g.pages.match(r); ok {
			h.ServeHTTP(w, r)
			return
		}
		if h, ok := g.channels.Match(r); ok {
			h.ServeHTTP(w, r)
			return
		}
		(*g.front.answers.Load()).ServeHTTP(w, r)
	})
}

// httpServer is a server that does not wait for connections without a request when
// it stops.
type httpServer struct {
	http.Server

	mu    sync.Mutex
	fresh map[net.Conn]bool // nothing was asked over them yet
}

func newServer(ctx context.Context, h http.Handler) *httpServer {
	s := &httpServer{fresh: map[net.Conn]bool{}}
	s.Handler, s.MaxHeaderBytes = api.Hurried(h), 64<<10
	s.ReadHeaderTimeout, s.IdleTimeout = 10*time.Second, 2*time.Minute
	s.BaseContext = func(net.Listener) context.Context { return ctx }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateNew {
			s.fresh[c] = true
		} else {
			delete(s.fresh, c)
		}
	}
	return s
}

func (s *httpServer) serve(l net.Listener, log *slog.Logger) {
	if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Error("http", "err", err)
	}
}

// stop lets requests end until ctx does. Shutdown alone would wait for connections
// that browsers open before they need one.
func (s *httpServer) stop(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // who did not finish by then is cut off
	s.mu.Lock()
	for c := range s.fresh {
		_ = c.Close()
	}
	s.mu.Unlock()
	_ = s.Shutdown(context.WithoutCancel(ctx))
}

// fireTrigger takes the way of nanobot trigger: what it returns for is in the
// inbox of the triggers.
func (f *front) fireTrigger(ctx context.Context, id, message string, untrusted bool) (string, error) {
	a, err := f.state.current(ctx)
	if err != nil {
		return "", err
	}
	return a.Schedule.Triggers.Fire(ctx, id, message, untrusted)
}

func (f *front) deleteSession(ctx context.Context, key string) (bool, error) {
	a, err := f.state.current(ctx)
	if err != nil {
		return false, err
	}
	return a.DeleteSession(ctx, key)
}

// health returns what /readyz tells.
func (g *Gateway) health(context.Context) api.Report {
	s := g.Status()
	return s.Report()
}

// goodStart is how long a start must last to count as good.
const goodStart = 2 * time.Minute

// Watchdog tells the service manager that we are there and well, until ctx
// ends. While something hangs it is silent, so that the manager starts the program again.
func (g *Gateway) Watchdog(ctx context.Context, n daemon.Notifier, c daemon.Crashes) {
	tell := func(state string) {
		if err := n.Send(state); err != nil {
			g.log.WarnContext(ctx, "cannot notify the service manager", "err", err)
		}
	}

	tell("READY=1\nSTATUS=serving")
	g.background.Go(func() {
		good := time.NewTimer(goodStart)
		defer good.Stop()
		var tick <-chan time.Time
		if every := n.Watchdog(); every > 0 {
			t := time.NewTicker(every / 2) // one may be missed, because a reload takes a while
			defer t.Stop()
			tick = t.C
		}

		for {
			select {
			case <-good.C:
				if err := c.Clear(); err != nil {
					g.log.WarnContext(ctx, "cannot count the starts", "err", err)
				}
				g.letChannelsIn(ctx)

			case <-tick:
				if s := g.Status(); alive(&s) {
					tell("WATCHDOG=1")
				} else {
					g.log.ErrorContext(ctx, "the gateway is not well", "problems", s.Problems)
				}

			case <-ctx.Done():
				return
			case <-g.ending:
				return
			}
		}
	})
}

// letChannelsIn switches on what a start after many crashes left off.
func (g *Gateway) letChannelsIn(ctx context.Context) {
	if !g.state.quiet.Swap(false) {
		return
	}
	g.log.InfoContext(ctx, "the gateway has been stable for a while: chat platforms are enabled again")
	for _, err := range g.channels.Apply(ctx, g.sections(g.state.config())) {
		g.log.WarnContext(ctx, "channel", "err", err)
	}
}

// watchConfig reads the configuration again when its file changes.
func (g *Gateway) watchConfig(ctx context.Context) {
	l := g.state.config()
	if !l.Config.Gateway.Reload.Enabled {
		return
	}

	changed := make(chan struct{}, 1)
	file := l.File
	if path, err := config.Locate(g.o.file()); err == nil {
		file = path // we may have started with a copy
	}

	dirs := []string{l.DataDir}
	if at, err := filepath.EvalSymlinks(file); err == nil && !slices.Contains(dirs, filepath.Dir(at)) {
		dirs = append(dirs, filepath.Dir(at)) // people keep the file elsewhere and link to it
	}

	g.background.Go(func() {
		err := diskio.Watch(ctx, dirs, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			g.log.WarnContext(ctx, "changes of the configuration are not noticed; use: nanobot gateway reload", "err", err)
		}
	})

	g.background.Go(func() {
		stamp := g.stamp // what changed since the start counts
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}

			if wait.For(ctx, time.Duration(l.Config.Gateway.Reload.DebounceMS)*time.Millisecond) != nil {
				return
			}

			switch now := stampOf(file); now {
			case stamp:
			case "": // many programs empty a file, or move it away, before they write it
				g.log.DebugContext(ctx, "the configuration file is empty or gone, as if it was just being written")
			default:
				stamp = now
				_ = g.Reload(ctx) // it tells by itself
			}
		}
	})
}

// stampOf tells one version of a file from another; "" means that there is no file, or one
// without content.
func stampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}
