package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

func (c *command) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mcp", Short: "Use MCP servers, or be one for other programs",
		Long: `mcp manages the MCP servers whose tools the agent may use, and offers the agent
itself to other programs. Servers are kept under tools.mcpServers in the form
that other MCP clients use, too.`,
		Example: `  nanobot mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/docs
  nanobot mcp add tracker https://mcp.example.com/mcp --auth oauth
  nanobot mcp login tracker
  nanobot mcp test files
  nanobot mcp list --probe
  nanobot mcp serve                  be a server on standard input and output`,
		Args: subcommand, RunE: showHelp,
	}
	cmd.AddCommand(c.mcpList(), c.mcpAdd(), c.mcpRemove(), c.mcpTest(), c.mcpAccept(), c.mcpLogin(), c.mcpLogout(), c.mcpServe())
	return cmd
}

func (c *command) mcpAccept() *cobra.Command {
	return &cobra.Command{
		Use: "accept NAME", Short: "Accept what an MCP server offers now", Args: exactArgs(1),
		Long: `accept takes the tools a server describes now as the ones to expect. With
tools.approval.mode ask, tools whose description changed since they were first
seen are held back until this is said; look at them with mcp test first.`,
		Example:           "  nanobot mcp accept tracker",
		ValidArgsFunction: c.mcpNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, loaded, err := c.mcpNamed(args[0])
			if err != nil {
				return err
			}
			if err := mcp.AcceptDefinitions(app.MCPPins(loaded), args[0]); err != nil {
				return fmt.Errorf("accept %s: %w", args[0], err)
			}
			cmd.Printf("What %s offers when it is next listed is accepted.\n", args[0])
			return nil
		},
	}
}

// mcpEntry is a configured server, or why it cannot be one.
type mcpEntry struct {
	mcp.Server
	warnings []mcp.Warning
	problem  error
}

// mcpEntries reads the configured servers, by name.
func mcpEntries(loaded *config.Loaded) []mcpEntry {
	var out []mcpEntry
	for _, name := range slices.Sorted(maps.Keys(loaded.Config.Tools.MCPServers)) {
		s, warns, err := mcp.ParseServer(name, loaded.Config.Tools.MCPServers[name].JSON())
		s.Name = name
		out = append(out, mcpEntry{s, warns, err})
	}
	return out
}

// mcpNamed finds a server by the name the user typed.
func (c *command) mcpNamed(name string) (mcpEntry, *config.Loaded, error) {
	loaded, err := c.load()
	if err != nil {
		return mcpEntry{}, nil, err
	}
	list := mcpEntries(loaded)
	var names []string
	for _, e := range list {
		if e.Name == name {
			if e.problem != nil {
				return e, loaded, fmt.Errorf("tools.mcpServers.%s: %w", name, e.problem)
			}
			return e, loaded, nil
		}
		names = append(names, e.Name)
	}
	hint := "; nanobot mcp list shows them"
	if near := text.NearestRatio(name, names, 0.6); near != "" {
		hint = "; did you mean " + near + "?"
	} else if len(names) == 0 {
		hint = "; none is set up yet. See: nanobot mcp add --help"
	}
	return mcpEntry{}, nil, usageError{fmt.Errorf("there is no MCP server %q%s", name, hint)}
}

// mcpNames completes names of servers.
func (c *command) mcpNames(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	loaded, err := config.Load(c.configOptions())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range mcpEntries(loaded) {
		if strings.HasPrefix(e.Name, typed) {
			out = append(out, e.Name+"\t"+oneLine(mcpTarget(e.Server), 40))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// mcpTarget is what a server is, without anything that may be a credential.
func mcpTarget(s mcp.Server) string {
	if s.Type == mcp.Stdio {
		return llm.RedactSecrets(strings.Join(append([]string{s.Command}, s.Args...), " "))
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// mcpAuth opens the store of logins.
func (c *command) mcpAuth(loaded *config.Loaded) (*mcp.OAuth, error) {
	return app.MCPLogins(loaded, app.Options{Version: nanobot.Version(), Log: c.logger()})
}

// mcpJSON is an element of mcp list --json.
type mcpJSON struct {
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

func (c *command) mcpList() *cobra.Command {
	var asJSON, probe bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List MCP servers and how they are doing", Args: noArgs,
		Long: `list shows the servers under tools.mcpServers. It starts none of them unless
--probe is given: then each is started or called, and asked what it offers.`,
		Example: "  nanobot mcp list\n  nanobot mcp list --probe\n  nanobot mcp list --json | jq -r '.[].name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			list, err := c.mcpStates(cmd.Context(), loaded, probe)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return printMCP(cmd, list, probe)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().BoolVar(&probe, "probe", false, "connect to every server for a moment")
	return cmd
}

// mcpStates describes all servers.
func (c *command) mcpStates(ctx context.Context, loaded *config.Loaded, probe bool) ([]mcpJSON, error) {
	auth, err := c.mcpAuth(loaded)
	if err != nil {
		return nil, err
	}
	out := []mcpJSON{}
	var servers []mcp.Server
	for _, e := range mcpEntries(loaded) {
		j := mcpJSON{Name: e.Name, State: "configured", Auth: e.Auth}
		for _, w := range e.warnings {
			j.Warnings = append(j.Warnings, w.String())
		}
		switch {
		case e.problem != nil:
			j.State, j.Error = "invalid", e.problem.Error()
		default:
			j.Transport, j.Target = e.Type, mcpTarget(e.Server)
			servers = append(servers, e.Server)
			if e.Disabled {
				j.State = string(mcp.Off)
			} else if st, err := auth.State(e.Name, e.URL); e.Auth == "oauth" && err == nil && !st.LoggedIn {
				j.State = string(mcp.PendingLogin)
			}
		}
		out = append(out, j)
	}
	if !probe || len(servers) == 0 {
		return out, nil
	}
	p, err := c.mcpProbe(ctx, loaded, servers, auth)
	if err != nil {
		return nil, err
	}
	for _, st := range p.status {
		i := slices.IndexFunc(out, func(j mcpJSON) bool { return j.Name == st.Name })
		out[i].State, out[i].Error, out[i].Protocol = string(st.State), st.Error, st.Protocol
		if st.State == mcp.Ready || st.State == mcp.Degraded {
			out[i].Tools, out[i].Resources, out[i].Prompts = &st.Tools, &st.Resources, &st.Prompts
		}
	}
	return out, nil
}

func printMCP(cmd *cobra.Command, list []mcpJSON, probed bool) error {
	if len(list) == 0 {
		cmd.Println("No MCP server is set up. See: nanobot mcp add --help")
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	offers := ""
	if probed {
		offers = "\tOFFERS"
	}
	fmt.Fprintf(w, "SERVER\tTRANSPORT\tSTATE%s\tTARGET\n", offers)
	for _, j := range list {
		offers := ""
		if probed {
			offers = "\t-"
			if j.Tools != nil {
				offers = fmt.Sprintf("\t%d tools, %d resources, %d prompts", *j.Tools, *j.Resources, *j.Prompts)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\t%s\n", j.Name, cmp.Or(j.Transport, "-"), j.State, offers, oneLine(cmp.Or(j.Target, "-"), 60))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, j := range list {
		switch {
		case j.State == string(mcp.PendingLogin):
			cmd.PrintErrf("nanobot: %s: log in with: nanobot mcp login %s\n", j.Name, j.Name)
		case j.Error != "":
			cmd.PrintErrf("nanobot: %s: %s\n", j.Name, j.Error)
		}
		for _, text := range j.Warnings {
			cmd.PrintErrf("nanobot: warning: %s: %s\n", j.Name, text)
		}
	}
	return nil
}

// mcpProbed is what a short connection to servers found out.
type mcpProbed struct {
	status []mcp.Status
	tools  []tool.Tool
	took   time.Duration // until the last server had answered
	odd    []string      // what servers printed where only messages belong
}

// mcpProbeTime bounds a probe: a server has 15 s to greet, and one that ends
// at a question it does not know is greeted a second time.
const mcpProbeTime = 30 * time.Second

// mcpProbe connects to servers, waits until every one of them is ready or has
// failed twice, and hangs up.
func (c *command) mcpProbe(ctx context.Context, loaded *config.Loaded, servers []mcp.Server, auth *mcp.OAuth) (mcpProbed, error) {
	lines := &oddLines{next: c.logger().Handler()}
	spawn, stop, err := app.MCPSpawn(ctx, loaded, app.Options{Workspace: c.workspace, Log: c.logger()})
	if err != nil {
		return mcpProbed{}, err
	}
	defer stop()
	pool, err := mcp.New(mcp.Options{
		Servers: servers, Environ: c.Env, Spawn: spawn, Auth: auth, Version: nanobot.Version(), Log: slog.New(lines),
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
	p.tools, _ = pool.Tools(ctx)
	failed := map[string]map[time.Time]bool{}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		p.status = pool.Status()
		if !slices.ContainsFunc(p.status, func(s mcp.Status) bool { return pending(s, failed) }) {
			break
		}
		select {
		case <-look.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	p.took = time.Since(began)
	p.tools, _ = pool.Tools(ctx)
	p.odd = lines.take()
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
