package guard

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Approvals, undo and marks of origin look only at what a tool says about itself.
func TestToolsSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	workspace := filepath.Join(home, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{
		Policy:    Policy{DataDir: home},
		Workspace: workspace,
		State:     storetest.Disk(t, home),
		Secrets:   &httpsafe.Registry{},
		Getenv:    func(string) string { return "" },
		Log:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})

	commands, err := g.CommandTools()
	if err != nil {
		t.Fatal(err)
	}
	for _, tl := range append(g.FileTools(), commands...) {
		switch {
		case tl.ReadOnly && tl.Sink == "":
		case tl.ReadOnly:
			t.Errorf("%s is ReadOnly and has the sink %q: remove one of them", tl.Name, tl.Sink)
		case tl.Sink == "":
			t.Errorf("%s changes something and has no Sink, so every tainted turn asks: choose one of tool.Sink, or set ReadOnly", tl.Name)
		case tl.Sink == tool.SinkWrite && tl.Paths == nil:
			t.Errorf("%s writes files and has no Paths, so its changes cannot be undone: set Paths, such as tool.PathArg", tl.Name)
		}
	}
}
