package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// How long the end of a program may take for its memory.
const (
	consolidateTime = 20 * time.Second
	dreamTime       = 2 * time.Minute
)

// consolidateMemory adds conversations to memory before the program ends. It does
// not take long: what is left waits for the next start.
func (c *agentCommand) consolidateMemory(ctx context.Context, bot *nanobot.Bot, f agentFlags) {
	if f.record != "" {
		return // a recording holds nothing but its turns
	}

	ctx, cancel := context.WithTimeout(ctx, consolidateTime)
	defer cancel()
	left := bot.FinishMemory(ctx, func(n int) {
		if !f.json {
			c.sayErr("Saving %s to memory, for up to %d s. Ctrl-C exits; the next start continues.\n", phrase.Counted(n, "conversation"), int(consolidateTime.Seconds()))
		}
	})
	if left > 0 && !f.json {
		c.sayErr("%s not saved to memory yet; the next start of nanobot continues.\n", phrase.Counted(left, "conversation"))
	}
}

// dreamIfDue runs Dream at the end of a chat if much waits for it, because there
// may be no gateway that does.
func (c *agentCommand) dreamIfDue(ctx context.Context, bot *nanobot.Bot) {
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
