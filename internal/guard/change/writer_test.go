package change_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// files is the writer of the workspace.
func (m *marked) files() *change.Writer {
	return change.NewWriter(m.ws, func() (*origin.Store, error) { return m.rec, nil })
}

// The writer makes folders and new files private, and keeps the permissions of
// those that are there.
func TestWriterKeepsPermissions(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	w := m.files()
	must(t, w.Write("memory/MEMORY.md", []byte(ours)))
	must(t, w.Write("tool.sh", []byte(ours)))
	must(t, os.WriteFile(m.path("run.sh"), []byte("old"), 0o700)) // a program of the owner
	must(t, w.Write("run.sh", []byte(ours)))
	want := map[string]fs.FileMode{"memory": 0o700, "memory/MEMORY.md": 0o600, "tool.sh": 0o600, "run.sh": 0o700}
	for name, perm := range want {
		info, err := os.Stat(m.path(name))
		must(t, err)
		if got := info.Mode().Perm(); got != perm && runtime.GOOS != "windows" {
			t.Errorf("%s has %v, want %v", name, got, perm)
		}
	}
	for _, name := range []string{"memory/MEMORY.md", "tool.sh", "run.sh"} {
		m.want(name, ours, false)
	}
}

// Create replaces nothing, and says nothing about a file that stays.
func TestWriterCreates(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	w := m.files()
	window, err := m.rec.Begin(origin.Running{})
	must(t, err)
	m.put("mine.md", ours)
	must(t, m.rec.Wrote(m.path("mine.md")))
	for name, want := range map[string]bool{"mine.md": false, "prompts/new.md": true} {
		if created, err := w.Create(name, []byte("usual")); err != nil || created != want {
			t.Errorf("%s was created: %v, %v", name, created, err)
		}
	}
	must(t, window.Foreign(t.Context()))
	m.want("mine.md", ours, false)
	m.want("prompts/new.md", "usual", false)
}

// A mark stays with a stranger's words when the program puts them into a file.
func TestWriterKeepsMarks(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	w := m.files()
	m.write("t1", "a.md", theirs, true)
	must(t, w.Write("a.md", []byte(theirs+ours)))
	m.want("a.md", theirs+ours, true)

	must(t, w.Keeping("a.md", []byte(theirs+ours)))
	m.write("t2", "a.md", ours, false) // a clean turn replaces all of it
	m.want("a.md", ours, false)
	must(t, w.Write("a.md", []byte(ours+"more\n"), []byte(theirs+ours)))
	m.want("a.md", ours+"more\n", true)

	must(t, w.Remove("a.md"))
	must(t, w.Write("a.md", []byte(ours)))
	m.want("a.md", ours, true) // the name is still marked, until the owner trusts it
}

// No link leads the writer out of the workspace, also one that comes between its
// look at the record and its write.
func TestWriterFollowsNoLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	m := newMarked(t)
	out := filepath.Join(m.top, "out")
	must(t, os.MkdirAll(out, 0o700))
	must(t, os.WriteFile(filepath.Join(out, "MEMORY.md"), []byte("canary"), 0o600))
	must(t, os.Symlink(out, m.path("memory")))
	must(t, os.Symlink(filepath.Join(out, "MEMORY.md"), m.path("USER.md")))
	w := m.files()

	for _, name := range []string{"memory/MEMORY.md", "memory/NEW.md", "USER.md", "../out/MEMORY.md"} {
		if err := w.Write(name, []byte(ours)); err == nil {
			t.Errorf("%s was written", name)
		}
		if _, err := w.Create(name, []byte(ours)); err == nil {
			t.Errorf("%s was created", name)
		}
	}
	err := w.Put([]change.File{{Name: "notes/a.md", Data: []byte(ours)}}, func(root *diskio.Tree) error {
		must(t, os.Symlink(out, m.path("notes")))
		return root.WriteFile("notes/a.md", []byte(ours), 0o600)
	})
	if !errors.Is(err, diskio.ErrLink) {
		t.Errorf("a folder that became a link: %v", err)
	}
	must(t, w.Remove("USER.md"))

	list, err := os.ReadDir(out)
	must(t, err)
	data, err := os.ReadFile(filepath.Join(out, "MEMORY.md"))
	must(t, err)
	if len(list) != 1 || string(data) != "canary" {
		t.Errorf("outside are %v, which holds %q", list, data)
	}
}
