package app

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/memory"
)

// dreams makes what turns the history into long-term memory. A recording gets
// none, because it must hold nothing but its turns.
func (a *App) dreams(o Options) (agent.Dreamer, error) {
	if o.Record != "" {
		return nil, nil // the agent does without
	}
	def := a.Config.Config.Agents.Defaults.Dream
	repo, err := memory.OpenRepo(memory.RepoOptions{Dir: a.History.Dir(), Workspace: a.Workspace, Now: o.Now, Log: o.Log})
	if err != nil {
		return nil, err
	}
	a.Dream, err = memory.NewDream(memory.DreamOptions{
		History: a.History, Repo: repo, Skills: a.Skills, Now: o.Now, Log: o.Log, Notify: o.Notify,
		Interval: time.Duration(def.IntervalH) * time.Hour, MaxBatch: def.MaxBatchSize, Iterations: def.MaxIterations,
		Writing: a.guard.Writing,
		Model: func(ctx context.Context) (memory.DreamModel, error) {
			if a.models.info.Demo {
				return memory.DreamModel{}, errors.New("the built-in demo cannot do this; a model is needed")
			}
			rt, err := a.models.named(ctx, def.ModelOverride)
			return memory.DreamModel{
				Model: rt.Model, Name: rt.Name, MaxTokens: rt.MaxTokens, Window: rt.Window, Temperature: rt.Temperature, Effort: rt.Effort,
			}, err
		},
	})
	if err != nil {
		return nil, err
	}
	return memory.DreamChat{Dream: a.Dream, Versions: repo}, nil
}

// dream serves the schedule of Dream until ctx ends, where no gateway does it
// as one of its jobs. When Dream is off, entries it will not read must not
// pile up.
func (a *App) dream(ctx context.Context) {
	def := a.Config.Config.Agents.Defaults.Dream
	switch {
	case !def.Enabled:
		if err := a.Dream.Skip(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "mark the history as read", "err", err)
		}
	case def.Cron == "" && !a.gateway && !a.models.info.Demo:
		_ = a.Dream.Serve(ctx) // ends with its context only
	}
}

// named resolves the name of a preset or else of a model; "" is the default.
func (m *models) named(ctx context.Context, name string) (agent.Runtime, error) {
	if _, preset := m.loaded.Config.ModelPresets[name]; preset || name == "" || m.fixed != nil {
		if m.fixed != nil {
			name = ""
		}
		return m.runtime(ctx, name)
	}
	key := "model " + name // no preset is called so
	m.mu.Lock()
	defer m.mu.Unlock()
	if rt, ok := m.cache[key]; ok {
		return rt, nil
	}
	choice, err := m.choose(name, "auto")
	if err != nil {
		return agent.Runtime{}, err
	}
	_, p, err := m.match("")
	if err != nil {
		return agent.Runtime{}, err
	}
	p.Model = name
	rt, err := m.chain([]target{m.settings(choice, p, "")})
	if err != nil {
		return agent.Runtime{}, err
	}
	m.fitServer(ctx, &rt, choice)
	m.cache[key] = rt
	return rt, nil
}
