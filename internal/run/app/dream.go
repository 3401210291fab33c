package app

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/memory"
)

// dreams makes what turns the history into long-term memory. A recording gets
// none, because it must hold nothing but its turns.
func (a *App) dreams(o Options) (agent.Dreamer, error) {
	if o.Record != "" {
		return nil, nil // the agent does without
	}

	def := a.Config.Config.Agents.Defaults.Dream
	repo, err := memory.OpenRepo(memory.RepoOptions{Dir: a.History.Dir(), Workspace: a.Workspace, Files: a.Files(), Now: o.Now, Log: o.Log})
	if err != nil {
		return nil, err
	}

	a.Dream, err = memory.NewDream(memory.DreamOptions{
		History: a.History, Repo: repo, Skills: a.Skills, Now: o.Now, Log: o.Log, Notify: o.Notify,
		Interval: time.Duration(def.IntervalH) * time.Hour, MaxBatch: def.MaxBatchSize, Iterations: def.MaxIterations,
		Files: a.Files(), Prompt: override(a, dreamCommand).Text,
		Model: func(ctx context.Context) (memory.DreamModel, error) {
			if a.models.Info().Demo {
				return memory.DreamModel{}, errors.New("the built-in demo cannot do this; a model is needed")
			}
			rt, err := a.models.Named(ctx, def.ModelOverride)
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

// dreamAfter is how many entries of the history make Dream due where no gateway
// runs it.
const dreamAfter = 10

// DreamDue is how many entries wait for Dream, 0 if they are too few or their
// time is set by a schedule.
func (a *App) DreamDue(ctx context.Context) (int, error) {
	def := a.Config.Config.Agents.Defaults.Dream
	if a.Dream == nil || !def.Enabled || def.Cron != "" || a.models.Info().Demo {
		return 0, nil
	}
	st, err := a.Dream.Status(ctx)
	if err != nil || st.Pending < dreamAfter {
		return 0, err
	}
	return st.Pending, nil
}

// FinishMemory takes into memory what waits for it, before the program ends. The
// built-in demo cannot do that.
func (a *App) FinishMemory(ctx context.Context, begun func(n int)) (left int) {
	if a.models.Info().Demo {
		return 0
	}
	return a.Agent.FinishMemory(ctx, begun)
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
	case def.Cron == "" && !a.gateway && !a.models.Info().Demo:
		_ = a.Dream.Serve(ctx) // ends with its context only
	}
}
