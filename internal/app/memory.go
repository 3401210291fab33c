package app

import (
	"time"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/memory"
)

// remember opens the history and makes what takes conversations into it. The
// demo model has nothing to say about them, and a recording must hold nothing
// but its turns: both get none.
func (a *App) remember(o Options) (*memory.Consolidator, error) {
	var err error
	a.History, err = memory.OpenHistory(memory.HistoryOptions{
		Store: memory.Place(State(a.Config, a.log), a.Sessions), Workspace: a.Workspace, Now: o.Now, Log: o.Log,
	})
	if err != nil || a.models.info.Demo || o.Record != "" {
		return nil, err
	}
	return memory.NewConsolidator(memory.ConsolidatorOptions{
		History: a.History, Ratio: a.Config.Config.Agents.Defaults.ConsolidationRatio, Redact: a.safety.secrets.Redact, Took: a.figures.took, Now: o.Now, Log: o.Log,
	})
}

// idleCompact is the silence after which a conversation is taken in.
func idleCompact(def config.AgentDefaults) time.Duration {
	return time.Duration(def.IdleCompactAfterMinutes) * time.Minute
}

// idleCheck is the pause between conversations that are taken in late.
func idleCheck(def config.AgentDefaults) time.Duration {
	return time.Duration(def.IdleCompactCheckIntervalSeconds) * time.Second
}
