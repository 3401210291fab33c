package app

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// API is the OpenAI-compatible API of an agent that runs without a gateway. It
// answers while Run does. O is what the App was made with.
func (a *App) API(o Options) (*api.API, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := api.NewMetrics(o.Version, o.Now(), o.Now)
	a.figures.metrics.Store(m)
	ao, err := a.apiOptions(m)
	if err != nil {
		return nil, err
	}
	ao.Ask, ao.Models, ao.Log, ao.Now = a.figures.counted(a.Agent.Ask), func() []api.Model { return apiModels(a.Config) }, a.log, o.Now
	ao.DeleteSession = a.DeleteSession
	ao.Transcribe = func(ctx context.Context, path string) (string, error) {
		return a.transcribe(ctx, a.Config, lookup(o.Env), recording{path: path})
	}
	return api.New(ao)
}

// Current is the agent in use. It waits while one takes over from another, and
// must not be kept: a new configuration replaces it.
func (g *Gateway) Current(ctx context.Context) (*App, error) { return g.current(ctx) }

// Say keeps a message for a chat until its platform has taken it.
func (g *Gateway) Say(ctx context.Context, out bus.Outbound) error {
	if out.Text == "" && len(out.Media) == 0 {
		return errors.New("the message is empty")
	}
	if err := g.deliverable(out.Route); err != nil {
		return err
	}
	return g.queue.Publish(ctx, out)
}
