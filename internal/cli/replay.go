package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
)

func replayCommand(c *command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "replay FILE", Short: "Run a recorded conversation again, without a model", Args: exactArgs(1),
		Long: `replay runs the turns of a recording again with this version of nanobot. The
model's answers and the tool results come from the file: replay sends nothing,
runs no command, and reads and changes none of your files. If the requests of
this version differ from the recorded ones, it shows the differences and exits
with 1. Create a recording with: nanobot agent --record FILE`,
		Example: `  nanobot replay bug.jsonl
  nanobot replay bug.jsonl --json | jq .differences`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return replay(c, cmd, args[0], asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func replay(c *command, cmd *cobra.Command, file string, asJSON bool) error {
	report, err := nanobot.Replay(cmd.Context(), file, nanobot.WithLogger(c.logger()), nanobot.WithEnv(c.Env))
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(cmd, report)
	} else {
		_, err = fmt.Fprint(cmd.OutOrStdout(), report)
	}
	if err != nil {
		return err
	}
	if len(report.Differences) > 0 {
		return failure{exitFailure}
	}
	return nil
}
