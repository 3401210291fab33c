package gitstore

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// snapshotOf is every name below a folder with its content.
func snapshotOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || !d.Type().IsRegular() {
			out[rel] = d.Type().String()
			return err
		}
		data, err := os.ReadFile(path)
		out[rel] = string(data)
		return err
	}))
	return out
}

// Links that a command planted in the work tree or in its repository lead
// nowhere: nothing outside is committed, changed, made or removed, whatever the
// store is asked to do.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	for _, name := range []string{
		"SOUL.md", "memory", "memory/MEMORY.md", "skills", "skills/x/SKILL.md",
		".git", ".git/HEAD", ".git/config", ".git/index", ".git/index.lock", ".git/objects", ".git/objects/pack", ".git/refs", ".git/refs/heads",
		".git/refs/heads/main", ".git/refs/heads/main.lock", ".git/info", ".git/packed-refs", ".git/shallow", ".git/" + lockName,
	} {
		for _, when := range []string{"before", "between"} {
			targets := []string{"file", "missing"}
			if slices.Contains([]string{"memory", "skills", ".git", ".git/objects", ".git/objects/pack", ".git/refs", ".git/refs/heads", ".git/info"}, name) {
				targets = []string{"folder"}
			}
			for _, target := range targets {
				t.Run(strings.ReplaceAll(name, "/", "+")+" "+when+" "+target, func(t *testing.T) {
					t.Parallel()
					b := newBench(t)
					out := filepath.Join(filepath.Dir(b.work), "out")
					must(t, os.MkdirAll(filepath.Join(out, "folder", "heads"), 0o700))
					for _, file := range []string{"file", "folder/MEMORY.md", "folder/SKILL.md", "folder/HEAD", "folder/tmp_obj_1_2_3"} {
						must(t, os.WriteFile(filepath.Join(out, filepath.FromSlash(file)), []byte("canary"), 0o600))
					}
					if when == "between" {
						b.write("SOUL.md", "soul")
						b.write("memory/MEMORY.md", "memory")
						b.write("skills/x/SKILL.md", "skill")
						b.old().commit("first")
					}
					at := filepath.Join(b.work, filepath.FromSlash(name))
					must(t, os.MkdirAll(filepath.Dir(at), 0o700))
					must(t, os.RemoveAll(at))
					must(t, os.Symlink(filepath.Join(out, target), at))
					before := snapshotOf(t, out)

					// What fails, fails: only what happens outside counts.
					ctx := t.Context()
					b.tryWrite("USER.md", "user")
					_, _ = b.Import(ctx, ownFile)
					id, _, _ := b.Commit(ctx, "second", "")
					_ = b.WriteWork("SOUL.md", []byte("written"))
					_ = b.WriteWork("memory/MEMORY.md", []byte("written"))
					_, _ = b.Restore(ctx, id)
					_, _ = b.Rewrite(ctx, func(_ string, data []byte) []byte { return append(data, '!') }, func(s string) string { return s })
					if diff := cmp.Diff(before, snapshotOf(t, out)); diff != "" {
						t.Errorf("outside changed (-want +got):\n%s", diff)
					}
					for _, file := range []string{"SOUL.md", "memory/MEMORY.md", "skills/x/SKILL.md"} {
						if data, err := b.ReadWork(file); err == nil && strings.Contains(string(data), "canary") {
							t.Errorf("read %s: %s", file, data)
						}
						if data, err := b.File(ctx, "HEAD", file); err == nil && strings.Contains(string(data), "canary") {
							t.Errorf("committed %s: %s", file, data)
						}
					}
				})
			}
		}
	}
}

// tryWrite is write where that may fail.
func (b *bench) tryWrite(name, text string) {
	_ = os.WriteFile(filepath.Join(b.work, filepath.FromSlash(name)), []byte(text), 0o600)
}
