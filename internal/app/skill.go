package app

import (
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/skill"
)

// OpenSkills opens the skills of a workspace, those that are switched off
// included, for looking at them and changing them.
func OpenSkills(loaded *config.Loaded, workspace string, getenv func(string) string, log *slog.Logger) *skill.Library {
	tools, state := loaded.Config.Tools, State(loaded, log)
	return skill.Open(skill.Options{
		Workspace: workspace, Ledger: state, Log: log, Getenv: getenv,
		LookPath: guard.LookPathOf(guard.Options{Config: loaded, Workspace: workspace, State: state, Getenv: getenv, Log: log}),
		HasTool: func(name string) bool {
			return (name != "my" || tools.My.Enable) && (name != "generate_image" || tools.ImageGeneration.Enabled)
		},
	})
}
