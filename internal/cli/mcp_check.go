package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

func mcpTest(c *command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Connect to an MCP server and list its tools", Args: exactArgs(1),
		Long: `test connects to a server and lists its tools as the agent sees them, with the
size that they add to every request. If that fails it shows the reason: the
command is missing, the server exited (with its log), the server printed
invalid messages, or it requires a login.`,
		Example:           "  nanobot mcp test files\n  nanobot mcp test files --json | jq '.tools | length'",
		ValidArgsFunction: c.complete(mcpNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := mcpTry(c, cmd, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(cmd, t); err != nil {
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
	jsonFlag(cmd, &asJSON)
	return cmd
}

func mcpTry(c *command, cmd *cobra.Command, name string) (mcp.Trial, error) {
	e, loaded, err := mcpNamed(c, name)
	if err != nil {
		return mcp.Trial{}, err
	}
	return app.TryMCP(cmd.Context(), loaded, c.appOptions(), e)
}

func printTrial(cmd *cobra.Command, t mcp.Trial) error {
	for _, w := range t.Warnings {
		sayErr(cmd, "nanobot: warning: %s\n", w)
	}
	if !t.OK {
		sayErr(cmd, "%s does not work: %s\n", t.Name, t.Error)
		if t.Log != "" {
			sayErr(cmd, "It logged:\n  %s\n", strings.ReplaceAll(t.Log, "\n", "\n  "))
		}
	}
	for _, line := range t.Odd {
		sayErr(cmd, "It printed an invalid message: %s\n", line)
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
	say(cmd, "%s works: %s, protocol %s, ready after %s\n", t.Name, t.Transport, t.Protocol,
		time.Duration(t.Seconds*float64(time.Second)).Round(time.Millisecond))
	say(cmd, "%d tools, about %d tokens with every request\n", len(t.Tools), total)
	if len(t.Tools) == 0 {
		return nil
	}
	cmd.Println()
	w := headed(cmd, "TOOL", "TOKENS", "ABOUT")
	for _, o := range t.Tools {
		w.row(o.Name, o.Tokens, o.About)
	}
	return w.Flush()
}
