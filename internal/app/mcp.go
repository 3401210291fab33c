package app

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// MCPServers reads the configured servers. One that makes no sense is left out
// and named in the notes: the others work without it.
func MCPServers(l *config.Loaded) (servers []mcp.Server, notes []string) {
	for name, raw := range l.Config.Tools.MCPServers {
		s, warnings, err := mcp.ParseServer(name, raw.JSON())
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
	slices.SortFunc(servers, func(a, b mcp.Server) int { return cmp.Compare(a.Name, b.Name) })
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
	wrap := a.safety.wrap(a, false)
	var spawn func(*exec.Cmd) (func(), error)
	if wrap != nil {
		spawn = wrap
	}
	return mcp.New(mcp.Options{
		Servers: servers, Environ: o.Env, Spawn: spawn, Auth: auth, Reserved: reserved, MediaDir: filepath.Join(a.safety.media, "mcp"),
		PinFile: MCPPins(a.Config), HoldChanged: a.safety.Approval == approve.Ask,
		Redact: a.safety.secrets.Scrub, Version: o.Version, Log: o.Log,
	})
}

// MCPPins is the file that remembers what MCP servers offered first.
func MCPPins(l *config.Loaded) string { return filepath.Join(l.DataDir, "run", "mcp-tools.json") }

// MCPLogins opens the store of logins at MCP servers.
func MCPLogins(l *config.Loaded, o Options) (*mcp.OAuth, error) {
	return mcp.NewOAuth(mcp.OAuthOptions{
		File: filepath.Join(l.DataDir, "auth", "mcp.json"), Proxy: l.Config.Tools.Web.Proxy.Reveal(),
		Allow: networks(l.Config.Tools.SSRFWhitelist), Agent: "nanobot/" + cmp.Or(o.Version, "dev"), Log: o.Log,
		Known: func(name string, s httpsafe.Secret) {
			if o.secrets != nil {
				_ = o.secrets.Add(name, s) // a token is never too ordinary
			}
		},
	})
}
