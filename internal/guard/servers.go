package guard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// Servers confines the programs of MCP servers.
type Servers struct {
	Spawn  func(s mcp.Server, cmd *exec.Cmd) (done func(), err error) // for servers with "sandbox"; nil where commands have none
	Cover  func(s mcp.Server, cmd *exec.Cmd) (done func(), err error) // for all others
	Memory int64                                                      // that one may use
}

// Servers confines MCP servers as the settings say.
func (g *Guard) Servers() Servers { return g.confiner.servers() }

// OpenServers confines MCP servers as an agent would, for a trial without one.
// It needs the configuration, the workspace, which is made if it is missing,
// and the environment. Stop ends what it started.
func OpenServers(ctx context.Context, o Options) (s Servers, stop func()) {
	f := newConfiner(o, placesOf(o), nil)
	open := func(mode sandbox.Mode) opener {
		once := sync.OnceValues(func() (*sandbox.Box, error) {
			if err := os.MkdirAll(o.Workspace, 0o700); err != nil {
				return nil, fmt.Errorf("make the workspace: %w", err)
			}
			return sandbox.Open(context.WithoutCancel(ctx), sandbox.Options{Mode: mode, Log: o.Log}) // the probe is short
		})
		return func(context.Context) (*sandbox.Box, error) { return once() }
	}

	f.box, f.covers = open(f.policy.Sandbox), open(sandbox.Hide)
	return f.servers(), f.proxy.close
}

func (f *confiner) servers() Servers {
	s := Servers{Cover: f.coverServer, Memory: f.policy.maxMemory()}
	if f.policy.Sandbox != sandbox.None {
		s.Spawn = f.spawn
	}
	return s
}

// spawn puts a server into the sandbox of commands. Only one limit does not
// apply: the processor time of a command, which a server would use up in the
// long run.
func (f *confiner) spawn(server mcp.Server, cmd *exec.Cmd) (done func(), err error) {
	box, err := f.box(context.Background()) // as for commands
	if err != nil {
		return nil, fmt.Errorf("tools.exec.sandbox %q cannot be used here: %w", f.policy.Sandbox, err)
	}

	p := sandbox.Profile{
		Workspace: f.places.workspace,
		ReadOnly:  append(slices.Concat(f.policy.Exec.ReadOnly, f.fixed), f.places.media),
		ReadWrite: f.policy.Exec.ReadWrite,
		Protected: f.closed(),
		Network:   f.policy.Network,
		Limits:    sandbox.Limits{CPU: -1},
	}
	if err := f.mounted(box); err != nil {
		return nil, err
	}

	out, err := connect(box, &p, func() (*line, error) {
		access := f.proxy.policy.Server("tools.mcpServers."+server.Name+".allowedHosts", hostRules(server.AllowedHosts))
		return f.proxy.open(func(context.Context) *httpsafe.Access { return access }, func(httpsafe.Traffic) {})
	})
	if err != nil {
		return nil, err
	}

	defer out.attach(&done, &err)
	return box.Wrap(cmd, p)
}

// coverServer is coverWith for a server of the configuration, which may use
// what the configuration names for it inside the data folder.
func (f *confiner) coverServer(_ mcp.Server, cmd *exec.Cmd) (func(), error) {
	if isOurselves(cmd.Path) {
		return func() {}, nil // the owner made nanobot a server of nanobot
	}

	var named []string
	for _, word := range append([]string{cmd.Path, cmd.Dir}, cmd.Args...) {
		if dir := besideState(f.places.data, word); dir != "" {
			named = append(named, dir)
		}
	}
	return f.coverWith(cmd, named)
}
