package cli

import (
	"context"

	"github.com/nanobot-go/nanobot"
)

// bots makes the SDK's bot for the commands that chat.
type bots struct {
	*console
	home *home
}

// botChoice is what the flags of a command say about its bot.
type botChoice struct {
	model  string // "" is the configured one
	record string // the file of a recording; "" is none
	folder string // to work in; "" is the workspace
}

func (b *bots) open(ctx context.Context, choice botChoice, more ...nanobot.Option) (*nanobot.Bot, error) {
	log := b.home.logger()
	opts := []nanobot.Option{nanobot.WithEnv(b.Env), nanobot.WithLogger(log), nanobot.WithClock(b.Now)}
	opts = append(opts, more...)
	if choice.folder != "" {
		opts = append(opts, nanobot.WithFolder(choice.folder))
	}
	if b.home.configPath != "" {
		opts = append(opts, nanobot.WithConfigFile(b.home.configPath))
	}
	if b.home.workspace != "" {
		opts = append(opts, nanobot.WithWorkspace(b.home.workspace))
	}
	if choice.model != "" {
		opts = append(opts, nanobot.WithModelName(choice.model))
	}
	if choice.record != "" {
		opts = append(opts, nanobot.WithRecording(choice.record))
	}

	bot, err := nanobot.New(ctx, opts...)
	if err != nil {
		return nil, err
	}

	log.InfoContext(ctx, "agent ready", "version", nanobot.Version(), "model", bot.Model(), "workspace", bot.Workspace(), "data", bot.DataDir())
	return bot, nil
}
