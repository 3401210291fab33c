package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// MCPEntries reads the configured servers, sorted by name.
func MCPEntries(l *config.Loaded) []mcp.Entry {
	configured := make(map[string]json.RawMessage, len(l.Config.Tools.MCPServers))
	for name, raw := range l.Config.Tools.MCPServers {
		configured[name] = raw.JSON()
	}
	return mcp.Entries(configured)
}

// MCPServers are the configured servers that are switched on. One that cannot
// be used is left out and named in the notes: the others work without it.
func MCPServers(l *config.Loaded) (servers []mcp.Server, notes []string) {
	for _, e := range MCPEntries(l) {
		if e.Problem != nil {
			notes = append(notes, fmt.Sprintf("MCP server %s is left out: %v", e.Name, e.Problem))
			continue
		}

		for _, w := range e.Warnings {
			notes = append(notes, fmt.Sprintf("MCP server %s: %s", e.Name, w))
		}

		if !e.Disabled {
			servers = append(servers, e.Server)
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
		Patient:     !a.gateway && o.Reminders == nil, // neither a gateway nor a chat
		Changed:     func() { o.Link.Changed("mcp") },
		Redact:      a.secrets.Scrub,
		Version:     o.Version,
		Log:         o.Log,
	})
}

// ProbeMCP describes all servers after a moment's connection to each that can
// be used.
func ProbeMCP(ctx context.Context, l *config.Loaded, o Options, auth *mcp.OAuth) ([]mcp.Summary, error) {
	po, stop, err := mcpTrial(ctx, l, o)
	if err != nil {
		return nil, err
	}
	defer stop()
	return mcp.Probe(ctx, po, MCPEntries(l), auth)
}

// TryMCP connects to one server and lists what it offers, whether or not it is
// switched on.
func TryMCP(ctx context.Context, l *config.Loaded, o Options, e mcp.Entry) (mcp.Trial, error) {
	po, stop, err := mcpTrial(ctx, l, o)
	if err != nil {
		return mcp.Trial{}, err
	}
	defer stop()
	return mcp.Try(ctx, po, e)
}

// AcceptMCP is TryMCP, and takes what the server offers now, which the result
// shows, as approved by the owner: the server's descriptions are trusted from
// then on, until they change. Nothing is taken if the digest is not the expected
// one, which may be empty.
func AcceptMCP(ctx context.Context, l *config.Loaded, o Options, e mcp.Entry, expect string) (mcp.Trial, error) {
	po, stop, err := mcpTrial(ctx, l, o)
	if err != nil {
		return mcp.Trial{}, err
	}
	defer stop()
	po.Pins, po.Accept, po.Expect = State(l, o.Log), true, expect
	return mcp.Try(ctx, po, e)
}

// mcpTrial are the options of a trial without an agent: servers are confined
// as the agent would confine them. Stop ends what it started.
func mcpTrial(ctx context.Context, l *config.Loaded, o Options) (_ mcp.Options, stop func(), err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	auth, err := MCPLogins(l, o)
	if err != nil {
		return mcp.Options{}, nil, err
	}

	ws, err := workspaceOf(o.Workspace, l)
	if err != nil {
		return mcp.Options{}, nil, err
	}

	opts := guardOptions(l, ws, o.Log)
	opts.Getenv = Getenv(o.Env)
	confined, stop := guard.OpenServers(ctx, opts)
	mo := mcp.Options{
		Environ: o.Env,
		Spawn:   confined.Spawn,
		Cover:   confined.Cover,
		Auth:    auth,
		Version: o.Version,
		Log:     o.Log,
	}
	if o.Secrets != nil {
		mo.Redact = o.Secrets.Scrub
	}
	return mo, stop, nil
}

// MCPLogins opens the store of logins at MCP servers.
func MCPLogins(l *config.Loaded, o Options) (*mcp.OAuth, error) {
	clients := map[string]mcp.Client{}
	for _, e := range MCPEntries(l) {
		if e.Problem == nil {
			clients[e.Name] = e.Client
		}
	}
	return mcp.NewOAuth(mcp.OAuthOptions{
		Clients: clients, Store: State(l, o.Log), Proxy: l.Config.Tools.Web.Proxy.Reveal(),
		Allow: Networks(l.Config.Tools.SSRFWhitelist), Strict: l.Config.Tools.SSRF.Strict, Agent: "nanobot/" + cmp.Or(o.Version, "dev"), Log: o.Log,
		Known: func(name string, s httpsafe.Secret) {
			if o.Secrets != nil {
				_ = o.Secrets.Add(name, s) // a token is never too ordinary
			}
		},
	})
}
