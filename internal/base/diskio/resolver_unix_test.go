//go:build unix

package diskio

import (
	"os"
	"path/filepath"
	"testing"
)

// A resolver finds what ResolveExisting finds, in any order of the paths.
func TestResolver(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"link": "a", "a/up": "../a/b", "dangling": "nowhere/at/all", "a/b/far": filepath.Join(dir, "link", "up"), "loop": "loop",
	} {
		if err := os.Symlink(filepath.FromSlash(to), filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	r := resolver{}
	for _, name := range []string{
		"", "a", "a/b", "a/new/er", "a/file/below", "link", "link/b", "link/up/far/new", "link/up/far", "dangling", "dangling/x/y", "loop/x", "a/b/far", "none",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if got, want := r.existing(path), ResolveExisting(path); got != want {
			t.Errorf("%s leads to %s, want %s", name, got, want)
		}
	}
	if got := r.existing("/"); got != "/" {
		t.Errorf("the root leads to %s", got)
	}
}
