package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// mcpTool is a tool in mcp test --json.
type mcpTool struct {
	Name   string `json:"name"`
	About  string `json:"about,omitempty"`
	Bytes  int    `json:"bytes"`  // of name, description and schema, sent with every request
	Tokens int    `json:"tokens"` // about what that costs
}

// mcpTrial is what mcp test --json tells.
type mcpTrial struct {
	Name      string    `json:"name"`
	Transport string    `json:"transport"`
	Target    string    `json:"target"`
	OK        bool      `json:"ok"`
	State     mcp.State `json:"state"`
	Protocol  string    `json:"protocol,omitempty"`
	Seconds   float64   `json:"seconds"`
	Tools     []mcpTool `json:"tools"`
	Error     string    `json:"error,omitempty"`
	Hint      string    `json:"hint,omitempty"`
	Log       string    `json:"log,omitempty"` // the last lines of the server's log
	Odd       []string  `json:"odd,omitempty"` // printed where only messages belong
	Warnings  []string  `json:"warnings,omitempty"`
}

func (c *command) mcpTest() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Connect to a server and list what it offers", Args: exactArgs(1),
		Long: `test starts or calls a server, greets it and lists its tools as the agent would
see them, with what their definitions add to every request. When that does not
work it says why: the command is missing, the server ended and what it logged,
it printed something that is no message, or it wants a login.`,
		Example:           "  nanobot mcp test files\n  nanobot mcp test files --json | jq '.tools | length'",
		ValidArgsFunction: c.mcpNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := c.mcpTry(cmd, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				if err := writeJSON(cmd.OutOrStdout(), t); err != nil {
					return err
				}
			} else if err := printTrial(cmd, t); err != nil {
				return err
			}
			switch {
			case t.OK:
				return nil
			case t.State == mcp.PendingLogin:
				return failure{exitAuth}
			}
			return failure{exitUnavailable}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (c *command) mcpTry(cmd *cobra.Command, name string) (mcpTrial, error) {
	e, loaded, err := c.mcpNamed(name)
	if err != nil {
		return mcpTrial{}, err
	}
	e.Disabled = false // whoever asks wants to know
	auth, err := c.mcpAuth(loaded)
	if err != nil {
		return mcpTrial{}, err
	}
	p, err := c.mcpProbe(cmd.Context(), loaded, []mcp.Server{e.Server}, auth)
	if err != nil {
		return mcpTrial{}, err
	}
	st := p.status[0]
	t := mcpTrial{
		Name: name, Transport: st.Transport, Target: mcpTarget(e.Server), OK: st.State == mcp.Ready || st.State == mcp.Degraded,
		State: st.State, Protocol: st.Protocol, Seconds: p.took.Seconds(), Tools: []mcpTool{}, Odd: p.odd,
	}
	for _, w := range e.warnings {
		t.Warnings = append(t.Warnings, w.String())
	}
	for _, o := range p.tools {
		size := len(o.Name) + len(o.Description) + len(o.Schema)
		t.Tools = append(t.Tools, mcpTool{
			Name: o.Name, About: oneLine(strings.TrimPrefix(o.Description, "["+name+"] "), 60), Bytes: size,
			Tokens: text.Tokens(o.Name + o.Description + string(o.Schema)),
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
func mcpHint(t mcpTrial, s mcp.Server) string {
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
		return "The first start downloads the program and may take too long. Start it once by hand, then try again: " + mcpTarget(s)
	case s.Type == mcp.Stdio && strings.Contains(t.Error, "ended"):
		return "Run it by hand to see more: " + mcpTarget(s)
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

func printTrial(cmd *cobra.Command, t mcpTrial) error {
	for _, w := range t.Warnings {
		cmd.PrintErrf("nanobot: warning: %s\n", w)
	}
	if !t.OK {
		cmd.PrintErrf("%s does not work: %s\n", t.Name, t.Error)
		if t.Log != "" {
			cmd.PrintErrf("It logged:\n  %s\n", strings.ReplaceAll(t.Log, "\n", "\n  "))
		}
	}
	for _, line := range t.Odd {
		cmd.PrintErrf("It printed something that is no message: %s\n", line)
	}
	if t.Hint != "" {
		cmd.PrintErrln(t.Hint)
	}
	if !t.OK {
		return nil
	}
	total := 0
	for _, o := range t.Tools {
		total += o.Tokens
	}
	cmd.Printf("%s works: %s, protocol %s, ready after %s\n", t.Name, t.Transport, t.Protocol,
		time.Duration(t.Seconds*float64(time.Second)).Round(time.Millisecond))
	cmd.Printf("%d tools, about %d tokens with every request\n", len(t.Tools), total)
	if len(t.Tools) == 0 {
		return nil
	}
	cmd.Println()
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tTOKENS\tABOUT")
	for _, o := range t.Tools {
		fmt.Fprintf(w, "%s\t%d\t%s\n", o.Name, o.Tokens, o.About)
	}
	return w.Flush()
}
