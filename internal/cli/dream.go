package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// How long the end of a program may take for its memory.
const (
	finishTime = 20 * time.Second
	dreamTime  = 2 * time.Minute
)

func dreamCommand(c *command) *cobra.Command {
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

// finishMemory takes conversations into memory before the program ends. It does
// not take long: what is left waits for the next start.
func finishMemory(ctx context.Context, c *command, bot *nanobot.Bot, f agentFlags) {
	if f.record != "" {
		return // a recording holds nothing but its turns
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	left := bot.FinishMemory(ctx, func(n int) {
		if !f.json {
			c.sayErr("Saving %s to memory, for up to %d s. Ctrl-C exits; the next start continues.\n", phrase.Counted(n, "conversation"), int(finishTime.Seconds()))
		}
	})
	if left > 0 && !f.json {
		c.sayErr("%s not saved to memory yet; the next start of nanobot continues.\n", phrase.Counted(left, "conversation"))
	}
}

// dreamIfDue runs Dream at the end of a chat if much waits for it, because there
// may be no gateway that does.
func dreamIfDue(ctx context.Context, c *command, bot *nanobot.Bot) {
	n, err := bot.Memory().DreamDue(ctx)
	if err != nil || n == 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dreamTime)
	defer cancel()
	sentence := "Updating the long-term memory from %d summaries. Ctrl-C exits; nanobot dream continues.\n"
	if n == 1 {
		sentence = "Updating the long-term memory from %d summary. Ctrl-C exits; nanobot dream continues.\n"
	}
	c.sayErr(sentence, n)
	rep, err := bot.Memory().Dream(ctx)
	if ctx.Err() == nil {
		fmt.Fprintln(c.Err, rep.Explain(c.language, err, "nanobot memory log"))
	}
}
