package gateway

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/skill"
	"github.com/nanobot-go/nanobot/internal/webui"
)

// desk answers web interfaces about this gateway. It goes on when the agent is
// replaced.
func (g *Gateway) desk() *webui.Desk {
	o := webui.Options{
		House: g.house, Dir: datadir.WebUI.In(g.config().DataDir), Log: g.log, Now: g.o.Now,
		Reads: g.settingsReads(), Actions: g.settingsActions(),
	}
	for _, c := range app.Commands(g.o.Options) {
		o.Commands = append(o.Commands, webui.Command{Name: c.Name, Args: c.Args, About: c.Help})
	}
	return webui.New(o)
}

// house is the program as it is now, for the desk.
func (g *Gateway) house(ctx context.Context) (webui.House, error) {
	a, err := g.current(ctx)
	if err != nil {
		return webui.House{}, err
	}
	return webui.House{
		Workspace: a.Workspace, Sessions: a.Sessions, Schedule: a.Schedule, Skills: a.Skills, Jail: a.Jail(),
		Disabled: a.Config.Config.Agents.Defaults.DisabledSkills,
		Place:    skill.Place{Workspace: a.Workspace, Ledger: app.State(a.Config, g.log)},
		Running:  a.Agent.BusyWith, Delete: a.DeleteSession, Redact: a.Secrets().Redact,
		Context: func(ctx context.Context, key string) (any, error) { return a.Agent.Context(ctx, key) },
	}, nil
}
