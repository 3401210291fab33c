package cli

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// jobs are the jobs of the workspace in use.
type jobs struct {
	*schedule.Scheduler
	loaded *config.Loaded
}

// deliverer says who runs the jobs.
func (j *jobs) deliverer(ctx context.Context) phrase.Sentence {
	if pid, running := schedule.Owner(ctx, j.State); running {
		return phrase.Later("The program with process id %d runs the jobs of this workspace.", pid)
	}
	if pid, chat := schedule.Guest(ctx, j.State); chat {
		return phrase.Later("Only the jobs of a chat that is open in a terminal (process id %d) run now: for all others start nanobot gateway.", pid)
	}
	return phrase.Later("Nothing runs the jobs of this workspace now: start nanobot gateway.")
}

// find takes an id, the beginning of one, or a name.
func (j *jobs) find(ctx context.Context, id string) (schedule.Job, error) {
	all, err := j.List(ctx)
	if err != nil {
		return schedule.Job{}, err
	}
	return schedule.FindJob(all, id)
}
