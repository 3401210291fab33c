package backup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// A backup holds the files of guests as they are, and nothing that a link of
// theirs leads to.
func TestBackupOfGuests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plant(t, dir, map[string]string{
		"config.json":                          `{}`,
		"workspace/USER.md":                    plantedKey,
		"guests/a-1/workspace/app/Cargo.lock":  "version = 4",
		"guests/a-1/workspace/rows.jsonl":      "{}\n{\"torn",
		"guests/a-1/media/p.jpg":               "picture",
		"guests/a-1/home/.bashrc":              "x",
		"guests/a-1/undo/log":                  "x",
		"guests/a-1/tool-results/r.txt":        "x",
		"guests/b-2/workspace/.nanobot/n.json": "{}",
	})
	for name, target := range map[string]string{"link": "../../../workspace/USER.md", "folder": dir} {
		if err := os.Symlink(target, filepath.Join(dir, "guests/a-1/workspace", name)); err != nil {
			t.Skip("no links here")
		}
	}
	l, err := config.Load(config.Options{Path: filepath.Join(dir, "config.json"), Home: dir})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := write(t.Context(), f, Options{Config: l, Workspace: filepath.Join(dir, "workspace"), Now: time.Now()})
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range m.Files {
		if rel, err := filepath.Rel("data/guests", one.Name); err == nil && filepath.IsLocal(rel) {
			got = append(got, filepath.ToSlash(rel))
		}
	}
	slices.Sort(got)
	want := []string{"a-1/media/p.jpg", "a-1/workspace/app/Cargo.lock", "a-1/workspace/rows.jsonl", "b-2/workspace/.nanobot/n.json"}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if holds, _ := grepBackup(t, file, plantedKey); !slices.Equal(holds, []string{"workspace/USER.md"}) {
		t.Errorf("the owner's file is in %q", holds)
	}
}
