package app

import (
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// OpenSkills opens the skills of a workspace, those that are switched off
// included, for looking at them and changing them.
func OpenSkills(loaded *config.Loaded, workspace string, getenv func(string) string, log *slog.Logger) *skill.Library {
	tools := loaded.Config.Tools
	opts := guardOptions(loaded, workspace, log)
	opts.Getenv = getenv
	return skill.Open(skill.Options{
		Workspace: workspace,
		Ledger:    opts.State,
		Log:       log,
		Getenv:    getenv,
		LookPath:  guard.LookPathOf(opts),
		HasTool: func(name string) bool {
			return (name != "my" || tools.My.Enable) && (name != "generate_image" || tools.ImageGeneration.Enabled)
		},
	})
}
