package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

// statusCommand is nanobot status.
type statusCommand struct {
	*console
	home    *home
	folders *folders
}

func (c *statusCommand) command() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the configuration and the model in use", Args: noArgs,
		Long: `status shows where the configuration and the workspace are, which model is used
and why, and how commands are contained. It never calls a model.`,
		Example: "  nanobot status\n  nanobot status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := doctor.StatusOf(cmd.Context(), c.home.appOptions())
			if err != nil {
				return err
			}
			return c.show(asJSON, r, func() error {
				c.print(r)
				c.printStartFolder(cmd.Context())
				return nil
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

// printStartFolder says where a chat that is opened here would work.
func (c *statusCommand) printStartFolder(ctx context.Context) {
	if folder, note := c.folders.here(ctx); note != "" {
		c.say("Start folder   %s\n", note)
	} else if folder != "" {
		c.say("Start folder   %s (nanobot agent started here works in it)\n", folder)
	}
}

func (c *statusCommand) print(r doctor.Status) {
	mark := func(ok bool) string {
		if ok {
			return "✓"
		}
		return c.in("✗ not there yet")
	}

	fmt.Fprintf(c.Out, "nanobot %s\n\n", r.Version)
	c.say("Configuration  %s %s\n", r.Config, mark(r.ConfigExists))
	c.say("Workspace      %s %s\n", r.Workspace, mark(r.Exists))

	switch {
	case r.Problem != "":
		c.say("Model          ✗ %s\n", c.known(r.Problem))
	default:
		c.say("Model          %s\n               %s\n", r.Model, c.known(r.Why))
	}

	if r.KeySource != "" {
		c.say("Key            from %s\n", r.KeySource)
	}

	files := phrase.Later("the whole disk except protected paths")
	if r.Restricted {
		files = phrase.Later("the workspace only")
	}

	c.say("Files          %s\nCommands       %s\n", files, c.known(r.Exec))
	for i, p := range r.Providers {
		head := c.in("Providers      ")
		if i > 0 {
			head = pad("", tui.Width(head))
		}

		key := c.in("no key")
		if p.Key != "" {
			key = c.in("key from %s", p.Key)
		}
		if p.Base != "" {
			key += ", " + p.Base
		}
		fmt.Fprintf(c.Out, "%s%s (%s)\n", head, p.Name, key)
	}

	for _, w := range r.Warnings {
		c.say("Warning        %s\n", c.known(w))
	}

	if !r.ConfigExists || r.Demo {
		c.say("\nSet up a model with: nanobot onboard\n")
	}
}
