package agent_test

import (
	"log/slog"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
)

// openGuard opens a guard for a workspace that asks nobody and confines no command.
func openGuard(t *testing.T, workspace string) *guard.Guard {
	t.Helper()
	data, log := t.TempDir(), slog.New(slog.DiscardHandler)
	g, err := guard.New(guard.Options{
		Policy: guard.Policy{
			Posture: guard.Posture{Sandbox: sandbox.None, Network: sandbox.NetNone, Approval: approve.Off},
			DataDir: data,
		},
		Workspace: workspace, WorkspaceID: "w", State: disk.Open(data, log), Secrets: &httpsafe.Registry{},
		Getenv: func(string) string { return "" }, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}
