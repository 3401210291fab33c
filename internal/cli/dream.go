package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// dreamCommand is nanobot dream.
type dreamCommand struct {
	*console
	bots *bots
}

func (c *dreamCommand) command() *cobra.Command {
	return &cobra.Command{
		Use:   "dream",
		Short: "Turn recent conversations into long-term memory",
		Long: `dream reads summaries of past conversations and updates USER.md, SOUL.md and
MEMORY.md. A gateway and long chats do this on their own; this command does it
now. Every change is a version: nanobot memory log shows it and nanobot memory
restore takes it back.`,
		Example: `  nanobot dream
  nanobot memory show --why`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bot, err := c.bots.open(cmd.Context(), botChoice{})
			if err != nil {
				return err
			}

			defer bot.Close() //nolint:errcheck // always nil
			rep, err := bot.Memory().Dream(cmd.Context())
			if err != nil {
				fmt.Fprintln(c.Err, rep.Explain(c.language, err, "nanobot memory log"))
				return failure{exitFailure}
			}

			_, err = fmt.Fprintln(c.Out, rep.Explain(c.language, nil, "nanobot memory log"))
			return err
		},
	}
}
