package cli

import (
	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

func statusCommand(c *command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the configuration and the model in use", Args: noArgs,
		Long: `status shows where the configuration and the workspace are, which model is used
and why, and how commands are contained. It never calls a model.`,
		Example: "  nanobot status\n  nanobot status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := doctor.StatusOf(cmd.Context(), c.appOptions())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, r)
			}
			printStatus(cmd, r)
			printStartFolder(c, cmd)
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printStartFolder says where a chat that is opened here would work.
func printStartFolder(c *command, cmd *cobra.Command) {
	if folder, note := c.folders.here(cmd.Context()); note != "" {
		say(cmd, "Start folder   %s\n", note)
	} else if folder != "" {
		say(cmd, "Start folder   %s (nanobot agent started here works in it)\n", folder)
	}
}

func printStatus(cmd *cobra.Command, r doctor.Status) {
	mark := func(ok bool) string {
		if ok {
			return "✓"
		}
		return words(cmd, "✗ not there yet")
	}
	cmd.Printf("nanobot %s\n\n", r.Version)
	say(cmd, "Configuration  %s %s\n", r.Config, mark(r.ConfigExists))
	say(cmd, "Workspace      %s %s\n", r.Workspace, mark(r.Exists))
	switch {
	case r.Problem != "":
		say(cmd, "Model          ✗ %s\n", known(cmd, r.Problem))
	default:
		say(cmd, "Model          %s\n               %s\n", r.Model, known(cmd, r.Why))
	}
	if r.KeySource != "" {
		say(cmd, "Key            from %s\n", r.KeySource)
	}
	files := phrase.Later("the whole disk except protected paths")
	if r.Restricted {
		files = phrase.Later("the workspace only")
	}
	say(cmd, "Files          %s\nCommands       %s\n", files, known(cmd, r.Exec))
	for i, p := range r.Providers {
		head := words(cmd, "Providers      ")
		if i > 0 {
			head = pad("", tui.Width(head))
		}
		key := words(cmd, "no key")
		if p.Key != "" {
			key = words(cmd, "key from %s", p.Key)
		}
		if p.Base != "" {
			key += ", " + p.Base
		}
		cmd.Printf("%s%s (%s)\n", head, p.Name, key)
	}
	for _, w := range r.Warnings {
		say(cmd, "Warning        %s\n", known(cmd, w))
	}
	if !r.ConfigExists || r.Demo {
		say(cmd, "\nSet up a model with: nanobot onboard\n")
	}
}
