package diskio_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// What lies beside a protected name and begins like it is protected, also when
// it appears later, in walks and under another name.
func TestProtectedNames(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ws, data := filepath.Join(base, "data", "ws"), filepath.Join(base, "data")
	put := func(name string) string {
		p := filepath.Join(data, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	put("ws/config.json") // of the project
	put("ws/notes.txt")
	put("other.txt")
	put("config.json")
	put("config.json.old/deep/file")
	j, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, ProtectedNames: []string{filepath.Join(data, "config.json")}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	later := put("config.json.bak-2")
	hard := filepath.Join(ws, "hard")
	if err := os.Link(later, hard); err != nil {
		hard = filepath.Join(data, "config.json") // no hard links here
	}
	for _, c := range []struct {
		path string
		open bool
	}{
		{filepath.Join(ws, "config.json"), true},
		{filepath.Join(ws, "notes.txt"), true},
		{filepath.Join(data, "other.txt"), true},
		{filepath.Join(data, "config.json"), false},
		{later, false},
		{filepath.Join(data, "CONFIG.json.bak-2"), false},
		{filepath.Join(data, "config.json.old", "deep", "file"), false},
		{filepath.Join(ws, "..", "config.json.bak-2"), false},
		{hard, false},
	} {
		f, err := j.Open(c.path)
		if err == nil {
			f.Close()
		}
		if (err == nil) != c.open {
			t.Errorf("open %s: %v, want it open: %v", c.path, err, c.open)
		}
	}
	if _, err := j.WriteAtomic(t.Context(), filepath.Join(data, "config.json.new"), []byte("x")); !errors.Is(err, diskio.ErrProtected) {
		t.Errorf("write: %v", err)
	}
	entries, err := j.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"other.txt", "ws"}) {
		t.Errorf("listed: %q", names)
	}
}
