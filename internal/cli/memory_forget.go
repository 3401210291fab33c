package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
)

func (c *memoryCommand) forgetCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "forget TEXT", Short: "Remove every remembered line that contains a text",
		Long: `forget removes all lines that contain TEXT, ignoring case, from the memory files
and all their earlier versions, from the summaries of conversations, from the
record of sources and from the search index. It shows what it found and asks
first. You cannot undo it. It does not change the conversations themselves and a
.git folder in the workspace, where older versions kept the memory files.`,
		Example: "  nanobot memory forget \"old address\"\n  nanobot memory forget 555-0100 --yes",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.with(cmd.Context(), func(m *memory.Memory) error {
				found, err := m.Find(cmd.Context(), args[0])
				if err != nil {
					return err
				}

				c.printFound(found)
				if !yes {
					if err := c.agree("Remove all of this permanently? yes or no"); err != nil {
						return err
					}
				}

				done, err := m.Forget(cmd.Context(), found)
				for _, s := range done.Removed {
					c.say("removed %s\n", printable(s))
				}

				for _, s := range done.Left {
					c.say("not changed: %s\n", printable(s))
				}

				if err == nil {
					c.say("The conversations still contain it: nanobot sessions list\n")
				}
				return err
			})
			if errors.Is(err, memory.ErrTooShort) {
				return usageError{err}
			}
			return c.home.orNothing(err, false, nil, "Nothing is remembered yet, so there is nothing to forget.")
		},
	}

	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (c *memoryCommand) printFound(found *memory.Occurrences) {
	if len(found.Lines)+len(found.Entries) == 0 {
		c.say("No memory file and no summary contains it now. Earlier versions, the record of sources and the index are cleaned anyway.\n")
	}
	for _, l := range found.Lines {
		fmt.Fprintf(c.Out, "%s: %s\n", printable(l.File), text.Label(printable(l.Line), 160))
	}
	for _, e := range found.Entries {
		c.say("summary of %s: %s\n", e.File, text.Label(printable(e.Line), 160))
	}
}
