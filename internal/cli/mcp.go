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

// mcpCommand is nanobot mcp.
type mcpCommand struct {
	*console
	home     *home
	stores   *stores
	bots     *bots
	settings *settings
}

func (c *mcpCommand) command() *cobra.Command {
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

	cmd.AddCommand(c.listCommand(), c.addCommand(), c.removeCommand(), c.testCommand(), c.acceptCommand(), c.loginCommand(), c.logoutCommand(), c.serveCommand())
	return cmd
}

func (c *mcpCommand) acceptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "accept NAME", Short: "Accept the tool descriptions of an MCP server", Args: exactArgs(1),
		Long: `accept connects to a server, shows its tool descriptions and marks them as trusted.
Until then, and whenever they change, they count as content from outside: turns
with these tools ask before risky calls. With tools.approval.mode ask, changed
tools are withheld.`,
		Example:           "  nanobot mcp accept tracker",
		ValidArgsFunction: c.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, loaded, err := c.named(args[0])
			if err != nil {
				return err
			}

			t, err := app.AcceptMCP(cmd.Context(), loaded, c.home.appOptions(), e, "")
			if err != nil {
				return fmt.Errorf("accept %s: %w", args[0], err)
			}
			if !t.OK {
				_ = c.printTrial(t) // it says why, on standard error
				return failure{exitUnavailable}
			}

			for _, o := range t.Tools {
				fmt.Fprintf(c.Out, "%s\n  %s\n", o.Name, strings.ReplaceAll(strings.TrimSpace(o.Description), "\n", "\n  "))
			}

			c.say("Accepted the descriptions of %s. nanobot mcp test %s shows the tools again.\n", args[0], args[0])
			return nil
		},
	}
}

// named finds a server by the name the user typed.
func (c *mcpCommand) named(name string) (mcp.Entry, *config.Loaded, error) {
	loaded, err := c.home.load()
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

// names completes names of servers.
func (c *mcpCommand) names(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	loaded, err := c.home.read()
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

// logins opens the store of logins.
func (c *mcpCommand) logins(loaded *config.Loaded) (*mcp.OAuth, error) {
	return app.MCPLogins(loaded, c.home.appOptions())
}

func (c *mcpCommand) listCommand() *cobra.Command {
	var asJSON, probe bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List MCP servers and their status", Args: noArgs,
		Long: `list shows the servers under tools.mcpServers. It does not start them unless
--probe is given: then it connects to each server and lists its tools.`,
		Example: "  nanobot mcp list\n  nanobot mcp list --probe\n  nanobot mcp list --json | jq -r '.[].name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			list, err := c.states(cmd.Context(), loaded, probe)
			if err != nil {
				return err
			}
			return c.show(asJSON, list, func() error { return c.print(list, probe) })
		},
	}

	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&probe, "probe", false, "connect to every server briefly")
	return cmd
}

// states describes all servers.
func (c *mcpCommand) states(ctx context.Context, loaded *config.Loaded, probe bool) ([]mcp.Summary, error) {
	auth, err := c.logins(loaded)
	switch {
	case err != nil:
		return nil, err
	case !probe:
		return mcp.Summaries(app.MCPEntries(loaded), auth), nil
	}
	return app.ProbeMCP(ctx, loaded, c.home.appOptions(), auth)
}

func (c *mcpCommand) print(list []mcp.Summary, probed bool) error {
	if len(list) == 0 {
		c.say("No MCP server is configured. See: nanobot mcp add --help\n")
		return nil
	}

	heads := []string{"SERVER", "TRANSPORT", "STATE", "TARGET"}
	if probed {
		heads = slices.Insert(heads, 3, "OFFERS")
	}

	w := c.table(heads...)
	for _, j := range list {
		cells := []any{j.Name, cmp.Or(j.Transport, "-"), c.in(j.State), text.Label(cmp.Or(j.Target, "-"), 60)}
		if probed && j.Tools != nil {
			cells = slices.Insert(cells, 3, any(c.in("%d tools, %d resources, %d prompts", *j.Tools, *j.Resources, *j.Prompts)))
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
			c.sayErr("nanobot: %s: log in with: nanobot mcp login %s\n", j.Name, j.Name)
		case j.Error != "":
			fmt.Fprintf(c.Err, "nanobot: %s: %s\n", j.Name, c.known(j.Error))
		}
		for _, text := range j.Warnings {
			c.sayErr("nanobot: warning: %s: %s\n", j.Name, text)
		}
	}

	return nil
}
