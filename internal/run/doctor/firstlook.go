package doctor

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// FirstLook says in five lines, once for a data folder, what a configuration
// leaves open that was written for a program without a sandbox and questions,
// and names the command that closes it. It is empty afterwards, and for
// configurations that leave nothing of it open.
func FirstLook(l *config.Loaded) []string {
	open := leftOpen(l)
	if len(open) == 0 {
		return nil
	}

	ctx, state := context.Background(), app.State(l, nil)
	if told, err := state.Stat(ctx, string(datadir.SecurityTold)); err == nil && told.Exists() {
		return nil
	}

	_, err := state.Put(ctx, string(datadir.SecurityTold), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), store.Any, true)
	last := "Close all of it with: nanobot doctor security --fix (it keeps a copy of the file). This message appears once."
	if err != nil { // then it is said again, which does no harm
		last = "Close all of it with: nanobot doctor security --fix (it keeps a copy of the file)."
	}

	lines := append([]string{"This configuration gives the agent more access than it needs. It continues to work. What is open:"}, open...)
	return append(lines, last)
}

// leftOpen is at most one line each for commands, files and questions.
func leftOpen(l *config.Loaded) []string {
	if !l.Exists {
		return nil
	}

	var out []string
	p := app.Posture(l)
	if l.Config.Tools.Exec.Enable && p.Sandbox == sandbox.None {
		out = append(out, "- Commands run without a sandbox: they can change all your files and reach every network.")
	}
	if !p.Restrict {
		out = append(out, "- File tools read and change the whole disk, except keys and nanobot's own data.")
	}
	if p.Approval == approve.Off || p.Approval == "" {
		out = append(out, "- Risky calls need no approval, even if a web page or an email caused them.")
	}
	return out
}
