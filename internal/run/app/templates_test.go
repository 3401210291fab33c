package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// The templates are the program's own, also if a command of another process runs
// in the workspace, and a record that cannot be read does not keep them away.
func TestTemplatesAreOurs(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, lost := range map[string]bool{"with a record": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws, data := t.TempDir(), t.TempDir()
			w, err := session.Identify(disk.Open(data, nil), data, ws)
			must(err)
			record, err := guard.OpenOrigins(data, ws, w.ID, "", nil)
			must(err)
			if lost {
				must(os.WriteFile(datadir.Origin.In(data), nil, 0o600)) // where its folder would be
			} else {
				_, err = record.Begin(origin.Running{Unsealed: true})
				must(err)
			}

			written, err := app.SyncTemplates(&config.Loaded{DataDir: data}, ws)
			if err != nil || len(written) == 0 {
				t.Fatalf("wrote %v, %v", written, err)
			}
			for _, name := range written {
				if got := record.Foreign(filepath.Join(ws, filepath.FromSlash(name))); got != lost {
					t.Errorf("%s counts as from outside: %v, want %v", name, got, lost)
				}
			}
		})
	}
}
