package app

import (
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// State is where everything of a bot is that is not in its workspace. log may
// be nil. Two of them act like two processes.
func State(l *config.Loaded, log *slog.Logger) store.Store { return disk.Open(l.DataDir, log) }
