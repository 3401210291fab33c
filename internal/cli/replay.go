package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
)

// replayCommand is nanobot replay.
type replayCommand struct {
	*console
	home *home
}

func (c *replayCommand) command() *cobra.Command {
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
			return c.run(cmd.Context(), args[0], asJSON)
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *replayCommand) run(ctx context.Context, file string, asJSON bool) error {
	report, err := nanobot.Replay(ctx, file, nanobot.WithLogger(c.home.logger()), nanobot.WithEnv(c.Env))
	if err != nil {
		return err
	}

	err = c.show(asJSON, report, func() error {
		_, err := fmt.Fprint(c.Out, report)
		return err
	})
	if err != nil {
		return err
	}
	if len(report.Differences) > 0 {
		return failure{exitFailure}
	}
	return nil
}
