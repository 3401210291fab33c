package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

func (c *mcpCommand) testCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Connect to an MCP server and list its tools", Args: exactArgs(1),
		Long: `test connects to a server and lists its tools as the agent sees them, with the
size that they add to every request. If that fails it shows the reason: the
command is missing, the server exited (with its log), the server printed
invalid messages, or it requires a login.`,
		Example:           "  nanobot mcp test files\n  nanobot mcp test files --json | jq '.tools | length'",
		ValidArgsFunction: c.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := c.try(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := c.show(asJSON, t, func() error { return c.printTrial(t) }); err != nil {
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

func (c *mcpCommand) try(ctx context.Context, name string) (mcp.Trial, error) {
	e, loaded, err := c.named(name)
	if err != nil {
		return mcp.Trial{}, err
	}
	return app.TryMCP(ctx, loaded, c.home.appOptions(), e)
}

func (c *mcpCommand) printTrial(t mcp.Trial) error {
	for _, w := range t.Warnings {
		c.sayErr("nanobot: warning: %s\n", w)
	}

	if !t.OK {
		c.sayErr("%s does not work: %s\n", t.Name, t.Error)
		if t.Log != "" {
			c.sayErr("It logged:\n  %s\n", strings.ReplaceAll(t.Log, "\n", "\n  "))
		}
	}

	for _, line := range t.Odd {
		c.sayErr("It printed an invalid message: %s\n", line)
	}

	if t.Hint != "" {
		fmt.Fprintln(c.Err, t.Hint)
	}

	if !t.OK {
		return nil
	}

	total := 0
	for _, o := range t.Tools {
		total += o.Tokens
	}

	c.say("%s works: %s, protocol %s, ready after %s\n", t.Name, t.Transport, t.Protocol,
		time.Duration(t.Seconds*float64(time.Second)).Round(time.Millisecond))
	c.say("%d tools, about %d tokens with every request\n", len(t.Tools), total)
	if len(t.Tools) == 0 {
		return nil
	}

	fmt.Fprintln(c.Out)
	w := c.table("TOOL", "TOKENS", "ABOUT")
	for _, o := range t.Tools {
		w.row(o.Name, o.Tokens, o.About)
	}
	return w.Flush()
}
