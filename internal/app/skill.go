package app

import (
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/skill"
)

// OpenSkills opens the skills of a workspace, those that are switched off
// included, for looking at them and changing them.
func OpenSkills(loaded *config.Loaded, workspace string, getenv func(string) string, log *slog.Logger) *skill.Library {
	tools := loaded.Config.Tools
	return skill.Open(skill.Options{
		Workspace: workspace, Ledger: State(loaded, log), Log: log, Getenv: getenv,
		HasTool: func(name string) bool {
			return (name != "my" || tools.My.Enable) && (name != "generate_image" || tools.ImageGeneration.Enabled)
		},
	})
}
