package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/sandbox"
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
	return mcp.New(mcp.Options{
		Servers: servers, Environ: o.Env, Memory: a.safety.maxMemory(a.Config.Config.Tools.Exec), Spawn: a.safety.spawn(a), Cover: a.safety.coverServer(a), Auth: auth, Reserved: reserved, MediaDir: filepath.Join(a.safety.media, "mcp"),
		Pins: State(a.Config, a.log), HoldChanged: a.safety.Approval == approve.Ask,
		Redact: a.safety.secrets.Scrub, Version: o.Version, Log: o.Log,
	})
}

// spawn puts a server with "sandbox" where commands are. Only one bound is not
// for it: the processor time of a command, which a server would have used up
// one day. It is nil without a sandbox.
func (s *safety) spawn(a *App) func(server mcp.Server, cmd *exec.Cmd) (func(), error) {
	if s.Sandbox == sandbox.None {
		return nil
	}
	cfg := a.Config.Config.Tools.Exec
	return func(server mcp.Server, cmd *exec.Cmd) (done func(), err error) {
		box, err := s.box(context.Background()) // as for commands
		if err != nil {
			return nil, fmt.Errorf("tools.exec.sandbox %q cannot be used here: %w", s.Sandbox, err)
		}
		p := sandbox.Profile{
			Workspace: a.Workspace, ReadOnly: append(slices.Concat(cfg.SandboxROBinds, s.fixed), s.media), ReadWrite: cfg.SandboxRWBinds,
			Protected: s.closed(), Network: s.Network, Limits: sandbox.Limits{CPU: -1},
		}
		if err := s.mounted(box); err != nil {
			return nil, err
		}
		out, err := s.connect(box, &p, func() (*line, error) {
			access := s.proxy.policy.Server("tools.mcpServers."+server.Name+".allowedHosts", hostRules(server.AllowedHosts))
			return s.proxy.open(func(context.Context) *httpsafe.Access { return access }, func(httpsafe.Traffic) {})
		})
		if err != nil {
			return nil, err
		}
		defer out.attach(&done, &err)
		return box.Wrap(cmd, p)
	}
}

// MCPSpawn confines MCP servers as the agent would, for a trial without it.
// spawn is for those with "sandbox" and nil without one, cover for the others;
// stop ends what these started. The workspace is made if it is missing.
func MCPSpawn(ctx context.Context, l *config.Loaded, o Options) (spawn, cover func(server mcp.Server, cmd *exec.Cmd) (func(), error), stop func(), err error) {
	stop = func() {}
	a := &App{Config: l}
	if a.Workspace, err = workspaceOf(o.Workspace, l); err != nil {
		return nil, nil, stop, err
	}
	s := &safety{
		Posture: PostureOf(l),
		media:   datadir.Media.In(l.DataDir),
		home:    placeOf(l.DataDir),
		seal:    seal{workspace: a.Workspace},
	}
	var denyWrite []string
	s.protected, denyWrite = a.protectedPaths()
	s.names, s.sockets = a.protectedNames(), sessionSockets(Getenv(o.Env))
	for _, p := range denyWrite {
		if diskio.Within(p, a.Workspace) {
			s.fixed = append(s.fixed, p)
		}
	}
	s.proxy = newCommandProxy(l, o)
	open := func(mode sandbox.Mode) func(context.Context) (*sandbox.Box, error) {
		once := sync.OnceValues(func() (*sandbox.Box, error) {
			if err := os.MkdirAll(a.Workspace, 0o700); err != nil {
				return nil, fmt.Errorf("make the workspace: %w", err)
			}
			return sandbox.Open(context.WithoutCancel(ctx), sandbox.Options{Mode: mode, Log: o.Log}) // the probe is short
		})
		return func(context.Context) (*sandbox.Box, error) { return once() }
	}
	s.box, s.covers = open(s.Sandbox), open(sandbox.Hide)
	return s.spawn(a), s.coverServer(a), s.proxy.close, nil //nolint:contextcheck // the proxy begins with the first server and lives until stop
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
