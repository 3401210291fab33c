package memory

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// Links that a command planted among the copies in the workspace lead nowhere:
// the history takes nothing in through them and writes nothing through them,
// also when it starts again.
func TestMirrorFollowsNoLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	const canary = `{"cursor": 99, "timestamp": "2026-01-01 00:00", "content": "canary"}` + "\n"
	for _, name := range []string{"memory", "memory/" + fileHistory, "memory/" + fileCursor, "memory/" + fileDreamCursor, "memory/" + fileOldHist} {
		for _, when := range []string{"before", "between"} {
			t.Run(strings.ReplaceAll(name, "/", "+")+" "+when, func(t *testing.T) {
				t.Parallel()
				base := t.TempDir()
				ws, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
				for _, dir := range []string{ws, out} {
					if err := os.MkdirAll(dir, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				files := []string{fileHistory, fileCursor, fileDreamCursor, fileOldHist}
				for _, file := range files {
					if err := os.WriteFile(filepath.Join(out, file), []byte(canary), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				run := func(content string) {
					h, err := OpenHistory(HistoryOptions{Store: disk.Open(filepath.Join(base, "data"), nil), Workspace: ws})
					if err != nil {
						t.Fatal(err)
					}
					defer h.Close()
					if _, err := h.Append(t.Context(), Entry{Content: content}); err != nil {
						t.Fatalf("append: %v", err)
					}
					_, _ = mirrorAgain(t, h) // may fail; what it does outside counts
					entries, err := h.since(t.Context(), 0)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range entries {
						if strings.Contains(e.Content, "canary") {
							t.Errorf("took in %q", e.Content)
						}
					}
				}
				if when == "between" {
					run("first")
				}
				at := filepath.Join(ws, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(at); err != nil {
					t.Fatal(err)
				}
				target := out
				if name != "memory" {
					target = filepath.Join(out, filepath.Base(name))
				}
				if err := os.Symlink(target, at); err != nil {
					t.Fatal(err)
				}
				run("second")
				run("third")

				list, err := os.ReadDir(out)
				if err != nil || len(list) != len(files) {
					t.Errorf("outside are %v, %v", list, err)
				}
				for _, file := range files {
					if got, err := os.ReadFile(filepath.Join(out, file)); err != nil || string(got) != canary {
						t.Errorf("%s outside is %q, %v", file, got, err)
					}
				}
			})
		}
	}
}

// Pages of the memory are neither read nor written through links.
func TestPagesFollowNoLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	base := t.TempDir()
	ws, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
	for _, dir := range []string{filepath.Join(ws, "skills"), out} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"file", "MEMORY.md", "SKILL.md"} {
		if err := os.WriteFile(filepath.Join(out, file), []byte("canary"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"SOUL.md": "file", "memory": ".", "skills/x": ".", "USER.md": "missing"} {
		if err := os.Symlink(filepath.Join(out, target), filepath.Join(ws, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := diskio.OpenTree(ws)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	files := change.NewWriter(ws, nil)
	for _, name := range []string{soulName, userName, memoryName, "skills/x/SKILL.md"} {
		if p, err := readPage(tree, name); err == nil {
			t.Errorf("read %s: %+v", name, p)
		}
		if err := (&page{Name: name, After: "written"}).write(files); err == nil {
			t.Errorf("wrote %s", name)
		}
		for _, p := range []*page{{Name: name, Existed: true, Before: "x"}, {Name: name}} {
			_ = p.unwrite(files) // a link itself may go
		}
	}
	list, err := os.ReadDir(out)
	if err != nil || len(list) != 3 {
		t.Errorf("outside are %v, %v", list, err)
	}
	for _, e := range list {
		if got, err := os.ReadFile(filepath.Join(out, e.Name())); err != nil || string(got) != "canary" {
			t.Errorf("%s outside is %q, %v", e.Name(), got, err)
		}
	}
}
