package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

func mcpCommand(c *command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mcp", Short: "Manage MCP servers, or run as one",
		Long: `mcp manages the MCP servers whose tools the agent may use, and offers the agent
itself to other programs. Servers are configured under tools.mcpServers, in the
format of other MCP clients.`,
		Example: `  nanobot mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/docs
  nanobot mcp add tracker https://mcp.example.com/mcp --auth oauth
  nanobot mcp login tracker
  nanobot mcp test files
  nanobot mcp list --probe
  nanobot mcp serve                  run as a server on standard input and output`,
		Args: subcommand, RunE: showHelp,
	}
	cmd.AddCommand(mcpList(c), mcpAdd(c), mcpRemove(c), mcpTest(c), mcpAccept(c), mcpLogin(c), mcpLogout(c), mcpServe(c))
	return cmd
}

func mcpAccept(c *command) *cobra.Command {
	return &cobra.Command{
		Use: "accept NAME", Short: "Accept the tool descriptions of an MCP server", Args: exactArgs(1),
		Long: `accept connects to a server, shows its tool descriptions and marks them as trusted.
Until then, and whenever they change, they count as content from outside: turns
with these tools ask before risky calls. With tools.approval.mode ask, changed
tools are withheld.`,
		Example:           "  nanobot mcp accept tracker",
		ValidArgsFunction: c.complete(mcpNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, loaded, err := mcpNamed(c, args[0])
			if err != nil {
				return err
			}
			t, err := app.AcceptMCP(cmd.Context(), loaded, c.appOptions(), e, "")
			if err != nil {
				return fmt.Errorf("accept %s: %w", args[0], err)
			}
			if !t.OK {
				_ = printTrial(cmd, t) // it says why, on standard error
				return failure{exitUnavailable}
			}
			for _, o := range t.Tools {
				cmd.Printf("%s\n  %s\n", o.Name, strings.ReplaceAll(strings.TrimSpace(o.Description), "\n", "\n  "))
			}
			say(cmd, "Accepted the descriptions of %s. nanobot mcp test %s shows the tools again.\n", args[0], args[0])
			return nil
		},
	}
}

// mcpNamed finds a server by the name the user typed.
func mcpNamed(c *command, name string) (mcp.Entry, *config.Loaded, error) {
	loaded, err := c.load()
	if err != nil {
		return mcp.Entry{}, nil, err
	}
	list := app.MCPEntries(loaded)
	var names []string
	for _, e := range list {
		if e.Name == name {
			if e.Problem != nil {
				return e, loaded, fmt.Errorf("tools.mcpServers.%s: %w", name, e.Problem)
			}
			return e, loaded, nil
		}
		names = append(names, e.Name)
	}
	if near := text.NearestRatio(name, names, 0.6); near != "" {
		return mcp.Entry{}, nil, usageError{fmt.Errorf("there is no MCP server %q; did you mean %s?", name, near)}
	}
	if len(names) == 0 {
		return mcp.Entry{}, nil, usageError{fmt.Errorf("there is no MCP server %q; none is configured yet. See: nanobot mcp add --help", name)}
	}
	return mcp.Entry{}, nil, usageError{fmt.Errorf("there is no MCP server %q; nanobot mcp list shows them", name)}
}

// mcpNames completes names of servers.
func mcpNames(c *command, _ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	loaded, err := c.read()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range app.MCPEntries(loaded) {
		if strings.HasPrefix(e.Name, typed) {
			out = append(out, e.Name+"\t"+text.Label(e.Target(), 40))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// mcpAuth opens the store of logins.
func mcpAuth(c *command, loaded *config.Loaded) (*mcp.OAuth, error) {
	return app.MCPLogins(loaded, c.appOptions())
}

func mcpList(c *command) *cobra.Command {
	var asJSON, probe bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List MCP servers and their status", Args: noArgs,
		Long: `list shows the servers under tools.mcpServers. It does not start them unless
--probe is given: then it connects to each server and lists its tools.`,
		Example: "  nanobot mcp list\n  nanobot mcp list --probe\n  nanobot mcp list --json | jq -r '.[].name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			list, err := mcpStates(cmd.Context(), c, loaded, probe)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, list)
			}
			return printMCP(cmd, list, probe)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&probe, "probe", false, "connect to every server briefly")
	return cmd
}

// mcpStates describes all servers.
func mcpStates(ctx context.Context, c *command, loaded *config.Loaded, probe bool) ([]mcp.Summary, error) {
	auth, err := mcpAuth(c, loaded)
	switch {
	case err != nil:
		return nil, err
	case !probe:
		return mcp.Summaries(app.MCPEntries(loaded), auth), nil
	}
	return app.ProbeMCP(ctx, loaded, c.appOptions(), auth)
}

func printMCP(cmd *cobra.Command, list []mcp.Summary, probed bool) error {
	if len(list) == 0 {
		say(cmd, "No MCP server is configured. See: nanobot mcp add --help\n")
		return nil
	}
	heads := []string{"SERVER", "TRANSPORT", "STATE", "TARGET"}
	if probed {
		heads = slices.Insert(heads, 3, "OFFERS")
	}
	w := headed(cmd, heads...)
	for _, j := range list {
		cells := []any{j.Name, cmp.Or(j.Transport, "-"), words(cmd, j.State), text.Label(cmp.Or(j.Target, "-"), 60)}
		if probed && j.Tools != nil {
			cells = slices.Insert(cells, 3, any(words(cmd, "%d tools, %d resources, %d prompts", *j.Tools, *j.Resources, *j.Prompts)))
		} else if probed {
			cells = slices.Insert(cells, 3, any("-"))
		}
		w.row(cells...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, j := range list {
		switch {
		case j.State == string(mcp.PendingLogin):
			sayErr(cmd, "nanobot: %s: log in with: nanobot mcp login %s\n", j.Name, j.Name)
		case j.Error != "":
			cmd.PrintErrf("nanobot: %s: %s\n", j.Name, known(cmd, j.Error))
		}
		for _, text := range j.Warnings {
			sayErr(cmd, "nanobot: warning: %s: %s\n", j.Name, text)
		}
	}
	return nil
}
