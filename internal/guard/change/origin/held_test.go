package origin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

func TestHeld(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for _, name := range []string{"mine/a.txt", "mine/deep/b.txt", "mine/.git/config"} {
		r.old(name, name+text)
	}
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	for _, name := range []string{"mine/new.txt", "mine/deep/new.txt", "mine/.git/index", "repo/src/x.c", "repo/README.md"} {
		r.write(name, "new "+name+text)
	}
	r.must(os.MkdirAll(r.path("repo/empty"), 0o700))
	r.must(w.Foreign(t.Context()))

	for _, row := range []struct {
		dir  string
		deep bool
		most int
		want string
	}{
		{"mine", false, 8, "mine/new.txt"},
		{"mine", true, 8, "mine/deep/new.txt mine/new.txt"}, // what git keeps for itself is not run
		{"mine/deep", false, 8, "mine/deep/new.txt"},
		{".", false, 8, ""},
		{".", true, 8, "mine/deep/new.txt mine/new.txt repo"},
		{".", true, 1, "mine/deep/new.txt"},
		{"missing", true, 8, ""},
	} {
		var got []string
		for _, path := range r.store.Held(r.path(row.dir), row.deep, row.most) {
			rel, err := filepath.Rel(r.root, path)
			r.must(err)
			got = append(got, filepath.ToSlash(rel))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != row.want {
			t.Errorf("Held(%s, %v, %d) = %q, want %q", row.dir, row.deep, row.most, got, row.want)
		}
	}
	for path, want := range map[string]string{"repo/src/x.c": "repo", "repo": "repo", "repo/later": "repo", "mine/new.txt": "", "mine": "", ".": ""} {
		got := r.store.Folder(r.path(path))
		if got != "" {
			rel, err := filepath.Rel(r.root, got)
			r.must(err)
			got = filepath.ToSlash(rel)
		}
		if got != want {
			t.Errorf("Folder(%s) = %q, want %q", path, got, want)
		}
	}
	r.must(r.store.Trust(r.path("repo")))
	if got := r.store.Folder(r.path("repo/src/x.c")); got != "" {
		t.Errorf("Folder of what is trusted = %q", got)
	}
}
