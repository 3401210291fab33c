package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/daemon"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/schedule"
	"github.com/nanobot-go/nanobot/internal/session"
)

// openAPI makes what answers HTTP beside the channels.
func (g *Gateway) openAPI(a *App) error {
	g.metrics.OnRead(g.gauges)
	return g.renewAPI(a)
}

// renewAPI puts the settings of an agent to use for what answers HTTP: a key
// that was changed must not open anything any more.
func (g *Gateway) renewAPI(a *App) error {
	o, err := a.apiOptions(g.metrics)
	if err != nil {
		return err
	}
	o.Health, o.Log, o.Now = g.health, g.log, g.o.Now
	o.Transcribe = func(ctx context.Context, path string) (string, error) { return g.transcribe(ctx, path), nil }
	switch {
	case !a.Config.Config.Gateway.API: // somebody does not want it
	case g.serveAPI(a.Config.Config):
		o.Ask, o.Models, o.DeleteSession = g.Ask, func() []api.Model { return apiModels(g.config()) }, g.deleteSession
		o.Trigger, o.TriggerKey = g.fireTrigger, func(id string) []byte { return triggerKey(a.Config, id) }
		o.Nonces = api.NewNonces(datadir.Nonces.In(a.Config.DataDir))
	default:
		g.log.Warn("the API is not served, because other machines can reach it: set api.apiKey to 16 characters or more, or gateway.host to 127.0.0.1")
	}
	fresh, err := api.New(o)
	if err != nil {
		return err
	}
	h := fresh.Handler()
	g.answers.Store(&h)
	return nil
}

// apiOptions are what the configuration says about the API.
func (a *App) apiOptions(m *api.Metrics) (api.Options, error) {
	cfg := a.Config.Config
	o := api.Options{
		Token: cfg.API.APIKey, Origins: cfg.API.CORSOrigins, History: cfg.API.History, MaxConcurrent: cfg.API.MaxConcurrent,
		Timeout: time.Duration(cfg.API.Timeout * float64(time.Second)), MediaDir: filepath.Join(a.safety.media, "api"),
		Fault: faultOf, MetricsPath: cfg.Gateway.Metrics.Path,
	}
	if on := cfg.Gateway.Metrics.Enabled; on == nil || *on {
		o.Metrics = m
	}
	var err error
	o.Fetch, err = httpsafe.Guarded(httpsafe.GuardOptions{Allow: networks(cfg.Tools.SSRFWhitelist)})
	return o, err
}

// APIListen is where the API is served instead of where the configuration says.
type APIListen struct {
	Host    string // "" is api.host
	Port    int    // negative is api.port
	Timeout float64
}

// ServeAPI serves the OpenAI-compatible API alone until ctx ends.
func ServeAPI(ctx context.Context, o Options, where APIListen, ready func(a *App, addr string)) error {
	a, err := New(ctx, o)
	if err != nil {
		return err
	}
	cfg := &a.Config.Config.API
	cfg.Host = cmp.Or(where.Host, cfg.Host)
	if where.Port >= 0 {
		cfg.Port = where.Port
	}
	cfg.Timeout = cmp.Or(where.Timeout, cfg.Timeout)
	h, err := a.API(o)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if err != nil {
		return errors.Join(fmt.Errorf("%w; another program has this port: stop it, or set api.port", err), a.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a.Agent.Open(running)
	var work sync.WaitGroup
	work.Go(func() { _ = a.Run(running) }) // ends with its context only
	ready(a, l.Addr().String())
	err = h.Serve(ctx, l)
	stop()
	work.Wait()
	return errors.Join(err, a.Close())
}

// serveAPI says whether the OpenAI-compatible API is served. Off this machine
// it needs a good key; without one only health is answered there.
func (g *Gateway) serveAPI(cfg config.Config) bool {
	l := g.listener
	return l == nil || api.Loopback(l.Addr()) || api.Strong(cfg.API.APIKey)
}

// Handler answers everything: the API, health and the channels that receive by
// HTTP. A host program may mount it.
func (g *Gateway) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, ok := g.channels.Match(r); ok {
			h.ServeHTTP(w, r)
			return
		}
		(*g.answers.Load()).ServeHTTP(w, r)
	})
}

func (g *Gateway) server(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: api.Hurried(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}

// apiModels are what clients of the API may choose.
func apiModels(l *config.Loaded) []api.Model {
	out := []api.Model{{ID: "nanobot"}}
	if m := l.Config.Agents.Defaults.Model; m != "" && m != "nanobot" {
		out = append(out, api.Model{ID: m})
	}
	for _, name := range slices.Sorted(maps.Keys(l.Config.ModelPresets)) {
		if name != "nanobot" {
			out = append(out, api.Model{ID: name, Preset: name})
		}
	}
	return out
}

func faultOf(err error) (status int, message string) {
	switch {
	case errors.Is(err, agent.ErrBusy):
		return http.StatusTooManyRequests, err.Error()
	case errors.Is(err, agent.ErrStopped):
		return http.StatusConflict, "The turn was stopped."
	case errors.Is(err, agent.ErrClosed):
		return http.StatusServiceUnavailable, "The gateway is being stopped. Try again in a moment."
	case errors.Is(err, schedule.ErrNoTrigger):
		return http.StatusNotFound, "There is no such trigger; nanobot trigger list shows them."
	case errors.Is(err, schedule.ErrTriggerOff):
		return http.StatusConflict, "The trigger is switched off."
	case errors.Is(err, bus.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, "The message is too long."
	}
	return 0, ""
}

// fireTrigger takes the way of nanobot trigger: what it returns for is in the
// inbox of the triggers.
func (g *Gateway) fireTrigger(ctx context.Context, id, message string, untrusted bool) (string, error) {
	a, err := g.current(ctx)
	if err != nil {
		return "", err
	}
	return a.Schedule.FireTrigger(ctx, id, message, untrusted)
}

func (g *Gateway) deleteSession(ctx context.Context, key string) (bool, error) {
	a, err := g.current(ctx)
	if err != nil {
		return false, err
	}
	return a.DeleteSession(ctx, key)
}

// DeleteSession stops a conversation and moves it to the archive. It reports
// whether there was one.
func (a *App) DeleteSession(ctx context.Context, key string) (bool, error) {
	a.Agent.Stop(ctx, key)
	err := a.Sessions.Delete(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// health is what /readyz tells.
func (g *Gateway) health(context.Context) api.Report {
	s := g.Status()
	var r api.Report
	add := func(name string, ok, optional bool, detail string) {
		r.Checks = append(r.Checks, api.Check{Name: name, OK: ok, Optional: optional, Detail: detail})
	}
	stuck := ""
	if len(s.Agent.Stuck) > 0 {
		stuck = fmt.Sprintf("has not moved for %s: %s", stuckAfter, s.Agent.Stuck)
	}
	add("agent", s.Model != "" && stuck == "", false, stuck)
	queue := ""
	if s.Queue.Err != nil {
		queue = s.Queue.Err.Error()
	}
	add("queue", s.Queue.Err == nil, false, queue)
	add("schedule", s.schedule == "", s.Ready, s.schedule) // a file that somebody has to mend is no reason to send nobody here
	add("model", s.model == "", true, s.model)
	add("disk", s.disk == "", true, s.disk) // messages that cannot be kept are the queue's matter
	for _, c := range s.Channels {
		if c.Enabled {
			add("channel "+c.Name, c.State == channel.Running, true, c.Error)
		}
	}
	g.mu.Lock()
	bad := g.bad
	g.mu.Unlock()
	add("configuration", bad == "", true, bad)
	return r
}

// settled is how long a start must last to count as good.
const settled = 2 * time.Minute

// Watchdog tells the service manager that we are there and well, until ctx
// ends. While something hangs it is silent, so that the manager starts us anew.
func (g *Gateway) Watchdog(ctx context.Context, n daemon.Notifier, c daemon.Crashes) {
	tell := func(state string) {
		if err := n.Tell(state); err != nil {
			g.log.WarnContext(ctx, "tell the service manager", "err", err)
		}
	}
	tell("READY=1\nSTATUS=serving")
	g.background.Go(func() {
		good := time.NewTimer(settled)
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
				if err := c.End(); err != nil {
					g.log.WarnContext(ctx, "count starts", "err", err)
				}
				g.letChannelsIn(ctx)
			case <-tick:
				if s := g.Status(); s.Alive() {
					tell("WATCHDOG=1")
				} else {
					g.log.ErrorContext(ctx, "not well", "problems", s.Problems)
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
	if !g.o.NoChannels {
		return
	}
	g.log.InfoContext(ctx, "it has run for a while: chat platforms are switched on again")
	for _, err := range g.channels.Apply(ctx, sections(g.config())) {
		g.log.WarnContext(ctx, "channel", "err", err)
	}
}

// watchConfig reads the configuration again when its file changes.
func (g *Gateway) watchConfig(ctx context.Context) {
	l := g.config()
	if !l.Config.Gateway.Reload.Enabled {
		return
	}
	changed := make(chan struct{}, 1)
	file := l.File
	if path, err := config.Locate(g.configOptions()); err == nil {
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
			if httpsafe.Pause(ctx, time.Duration(l.Config.Gateway.Reload.DebounceMS)*time.Millisecond) != nil {
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

// stampOf tells one version of a file from another; "" is no file, or one
// without content.
func stampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}
