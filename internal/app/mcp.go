package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// MCPServers reads the configured servers. One that makes no sense is left out
// and named in the notes: the others work without it.
func MCPServers(l *config.Loaded) (servers []mcp.Server, notes []string) {
	configured := l.Config.Tools.MCPServers
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		s, warnings, err := mcp.ParseServer(name, configured[name].JSON())
		if err != nil {
			notes = append(notes, fmt.Sprintf("MCP server %s is left out: %v", name, err))
			continue
		}
		for _, w := range warnings {
			notes = append(notes, fmt.Sprintf("MCP server %s: %s", name, w))
		}
		if !s.Disabled {
			servers = append(servers, s)
		}
	}
	slices.Sort(notes)
	return servers, notes
}

// mcpPool makes the pool of MCP servers. None is started here.
func (a *App) mcpPool(o Options, reserved []string) (*mcp.Pool, error) {
	servers, notes := MCPServers(a.Config)
	a.Notes = append(a.Notes, notes...)
	auth, err := MCPLogins(a.Config, o)
	if err != nil {
		return nil, err
	}
	confined := a.guard.Servers()
	return mcp.New(mcp.Options{
		Servers:     servers,
		Environ:     o.Env,
		Memory:      confined.Memory,
		Spawn:       confined.Spawn,
		Cover:       confined.Cover,
		Auth:        auth,
		Reserved:    reserved,
		MediaDir:    datadir.Media.In(a.Config.DataDir, "mcp"),
		Pins:        State(a.Config, a.log),
		HoldChanged: a.guard.Posture().Approval == approve.Ask,
		Redact:      a.secrets.Scrub,
		Version:     o.Version,
		Log:         o.Log,
	})
}

// confineServers confines MCP servers as the agent would, for a trial without
// it. Stop ends what it started.
func confineServers(ctx context.Context, l *config.Loaded, o Options) (s guard.Servers, stop func(), err error) {
	ws, err := workspaceOf(o.Workspace, l)
	if err != nil {
		return guard.Servers{}, nil, err
	}
	s, stop = guard.OpenServers(ctx, guard.Options{
		Config:    l,
		Workspace: ws,
		State:     State(l, nil),
		Getenv:    Getenv(o.Env),
		Log:       o.Log,
	})
	return s, stop, nil
}

// MCPLogins opens the store of logins at MCP servers.
func MCPLogins(l *config.Loaded, o Options) (*mcp.OAuth, error) {
	return mcp.NewOAuth(mcp.OAuthOptions{
		Store: State(l, o.Log), Proxy: l.Config.Tools.Web.Proxy.Reveal(),
		Allow: Networks(l.Config.Tools.SSRFWhitelist), Agent: "nanobot/" + cmp.Or(o.Version, "dev"), Log: o.Log,
		Known: func(name string, s httpsafe.Secret) {
			if o.Secrets != nil {
				_ = o.Secrets.Add(name, s) // a token is never too ordinary
			}
		},
	})
}
