package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// API is the OpenAI-compatible API of an agent that runs without a gateway. It
// answers while Run does. O is what the App was made with.
func (a *App) API(o Options) (*api.API, error) {
	if o.Now == nil {
		o.Now = time.Now
	}

	m := api.NewMetrics(o.Version, o.Now(), o.Now)
	a.figures.Use(m)
	ao, err := a.APIOptions(m)
	if err != nil {
		return nil, err
	}

	ao.Ask, ao.Models, ao.Log, ao.Now = a.figures.Counted(a.Agent.Ask), func() []api.Model { return APIModels(a.Config) }, a.log, o.Now
	ao.DeleteSession = a.DeleteSession
	ao.Media.Transcribe = func(ctx context.Context, path string) (string, error) {
		return a.models.Transcribe(ctx, a.Config, Getenv(o.Env), provider.Recording{Path: path})
	}
	return api.New(ao)
}

// APIOptions are what the configuration says about the API.
func (a *App) APIOptions(m *api.Metrics) (api.Options, error) {
	cfg := a.Config.Config
	o := api.Options{
		Token: cfg.API.APIKey, Origins: cfg.API.CORSOrigins, History: cfg.API.History, MaxConcurrent: cfg.API.MaxConcurrent,
		Timeout: time.Duration(cfg.API.Timeout * float64(time.Second)), Media: api.Uploads{Dir: datadir.Media.In(a.Config.DataDir, "api")},
		Fault: faultOf, MetricsPath: cfg.Gateway.Metrics.Path,
	}
	if on := cfg.Gateway.Metrics.Enabled; on == nil || *on {
		o.Metrics = m
	}

	var err error
	o.Media.Fetch, err = httpsafe.Guarded(httpsafe.GuardOptions{Allow: Networks(cfg.Tools.SSRFWhitelist), Strict: cfg.Tools.SSRF.Strict})
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

// APIModels are what clients of the API may choose.
func APIModels(l *config.Loaded) []api.Model {
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
	case errors.Is(err, turn.ErrStopped):
		return http.StatusConflict, "The turn was stopped."
	case errors.Is(err, turn.ErrClosed):
		return http.StatusServiceUnavailable, "The gateway is being stopped. Try again in a moment."
	case errors.Is(err, schedule.ErrNoTrigger):
		return http.StatusNotFound, "There is no such trigger; nanobot trigger list shows them."
	case errors.Is(err, schedule.ErrTriggerOff):
		return http.StatusConflict, "The trigger is disabled."
	case errors.Is(err, bus.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, "The message is too long."
	}
	return 0, ""
}

// EraseSession stops a conversation and removes it for good, also from the archive
// and the search. Files that it changed or received stay. The error is
// session.ErrNotFound if there is nothing of it.
func (a *App) EraseSession(ctx context.Context, key string) error {
	a.Agent.Stop(ctx, key)
	if err := session.Erase(ctx, a.Sessions, key); err != nil {
		return err
	}
	return errors.Join(a.guard.RemoveResults(key), a.updateIndex(ctx))
}

// EraseArchived removes what the archive has under an id for good.
func (a *App) EraseArchived(ctx context.Context, id string) error {
	if err := session.EraseArchived(ctx, a.Sessions, id); err != nil {
		return err
	}
	return a.updateIndex(ctx)
}

// updateIndex takes what is gone out of the search.
func (a *App) updateIndex(ctx context.Context) error {
	if a.Index == nil {
		return nil
	}
	return a.Index.Update(ctx)
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
