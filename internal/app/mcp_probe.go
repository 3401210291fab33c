package app

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// MCPEntry is a configured server, or why it cannot be one.
type MCPEntry struct {
	mcp.Server
	Warnings []mcp.Warning
	Problem  error
}

// MCPEntries reads the configured servers, by name.
func MCPEntries(l *config.Loaded) []MCPEntry {
	var out []MCPEntry
	for _, name := range slices.Sorted(maps.Keys(l.Config.Tools.MCPServers)) {
		s, warns, err := mcp.ParseServer(name, l.Config.Tools.MCPServers[name].JSON())
		s.Name = name
		out = append(out, MCPEntry{s, warns, err})
	}
	return out
}

// MCPTarget is what a server is, without anything that may be a credential.
func MCPTarget(s mcp.Server) string {
	if s.Type == mcp.Stdio {
		words := append([]string{s.Command}, s.Args...)
		for i := range s.Args {
			if flag := words[i]; strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && httpsafe.SecretName(flag) {
				words[i+1] = "***"
			}
		}
		return httpsafe.RedactSecrets(strings.Join(words, " "))
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// MCPState is a server in lists for programs.
type MCPState struct {
	Name      string   `json:"name"`
	Transport string   `json:"transport,omitempty"`
	Target    string   `json:"target,omitempty"`
	Auth      string   `json:"auth,omitempty"`
	State     string   `json:"state"` // configured, disabled, invalid, pending-login, or after a probe the pool's word
	Tools     *int     `json:"tools,omitempty"`
	Resources *int     `json:"resources,omitempty"`
	Prompts   *int     `json:"prompts,omitempty"`
	Protocol  string   `json:"protocol,omitempty"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// MCPStates describes the configured servers without asking them.
func MCPStates(l *config.Loaded, auth *mcp.OAuth) []MCPState {
	out := []MCPState{}
	for _, e := range MCPEntries(l) {
		j := MCPState{Name: e.Name, State: "configured", Auth: e.Auth}
		for _, w := range e.Warnings {
			j.Warnings = append(j.Warnings, w.String())
		}
		switch {
		case e.Problem != nil:
			j.State, j.Error = "invalid", e.Problem.Error()
		default:
			j.Transport, j.Target = e.Type, MCPTarget(e.Server)
			if e.Disabled {
				j.State = string(mcp.Off)
			} else if st, err := auth.State(e.Name, e.URL); e.Auth == "oauth" && err == nil && !st.LoggedIn {
				j.State = string(mcp.PendingLogin)
			}
		}
		out = append(out, j)
	}
	return out
}

// ProbedMCP describes all servers after a moment's connection to each that can
// be used.
func ProbedMCP(ctx context.Context, l *config.Loaded, o Options, auth *mcp.OAuth) ([]MCPState, error) {
	out := MCPStates(l, auth)
	var servers []mcp.Server
	for _, e := range MCPEntries(l) {
		if e.Problem == nil {
			servers = append(servers, e.Server)
		}
	}
	if len(servers) == 0 {
		return out, nil
	}
	p, err := probeMCP(ctx, l, o, servers)
	if err != nil {
		return nil, err
	}
	for _, st := range p.Status {
		i := slices.IndexFunc(out, func(j MCPState) bool { return j.Name == st.Name })
		out[i].Live(st)
	}
	return out, nil
}

// Live puts in what a connection to the server found out.
func (j *MCPState) Live(st mcp.Status) {
	j.State, j.Error, j.Protocol = string(st.State), st.Error, st.Protocol
	if st.State == mcp.Ready || st.State == mcp.Degraded {
		j.Tools, j.Resources, j.Prompts = &st.Tools, &st.Resources, &st.Prompts
	}
}

// mcpProbed is what a short connection to servers found out.
type mcpProbed struct {
	Status []mcp.Status
	Tools  []tool.Tool
	Took   time.Duration // until the last server had answered
	Odd    []string      // what servers printed where only messages belong
}

// mcpProbeTime bounds a probe: a server has 15 s to greet, and one that ends
// at a question it does not know is greeted a second time.
const mcpProbeTime = 30 * time.Second

// probeMCP connects to servers, waits until every one of them is ready or has
// failed twice, and hangs up.
func probeMCP(ctx context.Context, l *config.Loaded, o Options, servers []mcp.Server) (mcpProbed, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	auth, err := MCPLogins(l, o)
	if err != nil {
		return mcpProbed{}, err
	}
	lines := &oddLines{next: o.Log.Handler()}
	spawn, cover, stop, err := MCPSpawn(ctx, l, o)
	if err != nil {
		return mcpProbed{}, err
	}
	defer stop()
	var redact func(string) string
	if o.Secrets != nil {
		redact = o.Secrets.Scrub
	}
	pool, err := mcp.New(mcp.Options{
		Redact: redact, Servers: servers, Environ: o.Env, Spawn: spawn, Cover: cover, Auth: auth, Version: o.Version, Log: slog.New(lines),
		Pins: o.acceptIn, Accept: o.acceptIn != nil,
	})
	if err != nil {
		return mcpProbed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, mcpProbeTime)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = pool.Run(ctx) }) // ends with ctx
	began := time.Now()
	p := mcpProbed{}
	p.Tools, _ = pool.Tools(ctx)
	failed := map[string]map[time.Time]bool{}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		p.Status = pool.Status()
		if !slices.ContainsFunc(p.Status, func(s mcp.Status) bool { return pending(s, failed) }) {
			break
		}
		select {
		case <-look.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	p.Took = time.Since(began)
	p.Tools, _ = pool.Tools(ctx)
	p.Odd = lines.take()
	return p, nil
}

// pending reports whether it is worth to wait for a server. failed collects
// when attempts of each ended.
func pending(s mcp.Status, failed map[string]map[time.Time]bool) bool {
	switch s.State {
	case mcp.Idle, mcp.Connecting:
		return true
	case mcp.Backoff:
		if failed[s.Name] == nil {
			failed[s.Name] = map[time.Time]bool{}
		}
		failed[s.Name][s.Since] = true
		// What was never started will not start the second time.
		never := s.Transport != mcp.Stdio || strings.Contains(s.Error, "is not in PATH") || strings.HasPrefix(s.Error, "start ")
		return len(failed[s.Name]) < 2 && !never
	}
	return false
}

// oddLines is a log handler that keeps the warnings about lines of a server
// which are no messages.
type oddLines struct {
	next slog.Handler

	mu    sync.Mutex
	lines []string
}

// Enabled implements slog.Handler.
func (o *oddLines) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || o.next.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (o *oddLines) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "line" {
			o.mu.Lock()
			o.lines = append(o.lines, a.Value.String())
			o.mu.Unlock()
		}
		return true
	})
	if !o.next.Enabled(ctx, r.Level) {
		return nil
	}
	return o.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler. What is added is not of interest here.
func (o *oddLines) WithAttrs([]slog.Attr) slog.Handler { return o }

// WithGroup implements slog.Handler.
func (o *oddLines) WithGroup(string) slog.Handler { return o }

func (o *oddLines) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines
}

// MCPTool is a tool of a server that was tried.
type MCPTool struct {
	Name        string `json:"name"`
	About       string `json:"about,omitempty"`
	Bytes       int    `json:"bytes"`  // of name, description and schema, sent with every request
	Tokens      int    `json:"tokens"` // about what that costs
	Description string `json:"description,omitempty"`
}

// MCPTrial is what trying a server found out.
type MCPTrial struct {
	Name      string    `json:"name"`
	Transport string    `json:"transport"`
	Target    string    `json:"target"`
	OK        bool      `json:"ok"`
	State     mcp.State `json:"state"`
	Protocol  string    `json:"protocol,omitempty"`
	Seconds   float64   `json:"seconds"`
	Tools     []MCPTool `json:"tools"`
	Error     string    `json:"error,omitempty"`
	Hint      string    `json:"hint,omitempty"`
	Log       string    `json:"log,omitempty"` // the last lines of the server's log
	Odd       []string  `json:"odd,omitempty"` // printed where only messages belong
	Warnings  []string  `json:"warnings,omitempty"`
}

// AcceptMCP connects to one server and takes what it offers now, which the
// result shows, as looked at by the owner: its words are trusted from then on,
// until they change.
func AcceptMCP(ctx context.Context, l *config.Loaded, o Options, e MCPEntry) (MCPTrial, error) {
	o.acceptIn = State(l, o.Log)
	return TryMCP(ctx, l, o, e)
}

// TryMCP connects to one server and lists what it offers, whether or not it is
// switched on.
func TryMCP(ctx context.Context, l *config.Loaded, o Options, e MCPEntry) (MCPTrial, error) {
	e.Disabled = false // whoever asks wants to know
	p, err := probeMCP(ctx, l, o, []mcp.Server{e.Server})
	if err != nil {
		return MCPTrial{}, err
	}
	st := p.Status[0]
	t := MCPTrial{
		Name: e.Name, Transport: st.Transport, Target: MCPTarget(e.Server), OK: st.State == mcp.Ready || st.State == mcp.Degraded,
		State: st.State, Protocol: st.Protocol, Seconds: p.Took.Seconds(), Tools: []MCPTool{}, Odd: p.Odd,
	}
	for _, w := range e.Warnings {
		t.Warnings = append(t.Warnings, w.String())
	}
	for _, o := range p.Tools {
		size := len(o.Name) + len(o.Description) + len(o.Schema)
		t.Tools = append(t.Tools, MCPTool{
			Name: o.Name, About: shortLine(strings.TrimPrefix(o.Description, "["+e.Name+"] "), 60), Bytes: size,
			Tokens: text.Tokens(o.Name + o.Description + string(o.Schema)), Description: o.Description,
		})
	}
	if !t.OK {
		t.Error, t.Log = st.Error, strings.TrimSpace(st.Log)
		if t.Error == "" {
			t.Error = "no answer within " + mcpProbeTime.String()
		}
	}
	if !t.OK || len(t.Odd) > 0 {
		t.Hint = mcpHint(t, e.Server)
	}
	return t, nil
}

// mcpHint says what to do about a server that does not work.
func mcpHint(t MCPTrial, s mcp.Server) string {
	switch {
	case t.State == mcp.PendingLogin:
		return "Log in with: nanobot mcp login " + t.Name
	case strings.Contains(t.Error, "not in PATH"):
		return "Install it, or give its full path: nanobot config set tools.mcpServers." + t.Name + ".command /path/to/" + s.Command
	case strings.Contains(t.Error, "wants credentials"):
		return "Log in with: nanobot mcp login " + t.Name + "\nor give a key: nanobot config set tools.mcpServers." + t.Name + ".headers.Authorization 'Bearer ${KEY}'"
	case len(t.Odd) > 0 && t.OK:
		return "The lines were skipped; a server must log to standard error."
	case len(t.Odd) > 0:
		return "Is this an MCP server? Its standard output must carry messages only, and it must log to standard error."
	case s.Type == mcp.Stdio && !strings.Contains(t.Error, "ended") && downloads(s.Command):
		return "The first start downloads the program and may take too long. Start it once by hand, then try again: " + MCPTarget(s)
	case s.Type == mcp.Stdio && strings.Contains(t.Error, "ended"):
		return "Run it by hand to see more: " + MCPTarget(s)
	case s.Type != mcp.Stdio:
		return "Is the address right? Servers of the older kind end in /sse: nanobot config set tools.mcpServers." + t.Name + ".type sse"
	}
	return ""
}

// downloads reports whether a program is one that fetches others first.
func downloads(command string) bool {
	name, _, _ := strings.Cut(filepath.Base(command), ".")
	return slices.Contains([]string{"npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman", "deno", "go"}, name)
}

func shortLine(s string, n int) string {
	return text.Ellipsis(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " "), n)
}
