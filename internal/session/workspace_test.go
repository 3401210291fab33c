package session

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestWorkspaceID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "sessions")
	id := func(name string) string {
		t.Helper()
		ws := filepath.Join(dir, name)
		must(t, os.MkdirAll(ws, 0o755))
		got, err := workspaceID(ws, root)
		must(t, err)
		return got
	}
	first := id("a")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(first) {
		t.Fatalf("id = %q", first)
	}
	if again := id("a"); again != first {
		t.Errorf("second look: %s, want %s", again, first)
	}
	if other := id("b"); other == first {
		t.Error("two workspaces share an id")
	}
	must(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "moved")))
	if moved := id("moved"); moved != first {
		t.Errorf("moved: %s, want %s", moved, first)
	}
	must(t, os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(filepath.Join(dir, "moved"))))
	copied := id("copy")
	if copied == first || id("copy") != copied || id("moved") != first {
		t.Errorf("copied: %s; the original has %s", copied, first)
	}
	if err := os.Symlink(filepath.Join(dir, "moved"), filepath.Join(dir, "link")); err == nil {
		if linked := id("link"); linked != first {
			t.Errorf("through a link: %s, want %s", linked, first)
		}
	}
	// The old place now holds something else.
	must(t, os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "moved2")))
	id("moved")
	if moved := id("moved2"); moved != first {
		t.Errorf("moved twice: %s, want %s", moved, first)
	}
	must(t, os.WriteFile(filepath.Join(dir, "b", ".nanobot", "workspace-id"), []byte("../../etc"), 0o600))
	if bad := id("b"); len(bad) != 32 {
		t.Errorf("a forged id was taken: %q", bad)
	}
}
