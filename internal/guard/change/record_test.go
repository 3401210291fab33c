package change_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// work is a workspace and folders beside it.
type work struct {
	*change.Record
	t   *testing.T
	top string
	ws  string
	now time.Time
	n   int
}

// open opens the record of the workspace below top, as another process would.
func open(t *testing.T, top string) *work {
	t.Helper()
	w := &work{t: t, top: top, ws: filepath.Join(top, "ws"), now: time.Now()}
	must(t, os.MkdirAll(w.ws, 0o700))
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: w.ws})
	must(t, err)
	w.Record, err = change.Open(change.Options{Dir: filepath.Join(top, "data", "undo"), Jail: jail, Now: func() time.Time { return w.now }})
	must(t, err)
	t.Cleanup(func() {
		must(t, w.Close())
		must(t, jail.Close())
	})
	return w
}

func newWork(t *testing.T) *work {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return open(t, top)
}

// folder makes a folder beside the workspace.
func (w *work) folder(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.top, name)
	must(w.t, os.MkdirAll(dir, 0o700))
	return dir
}

// write lets a turn that works in a folder write files.
func (w *work) write(turn, dir string, paths ...string) {
	w.t.Helper()
	w.n++
	w.now = w.now.Add(time.Second)
	input, err := json.Marshal(paths)
	must(w.t, err)
	c := tool.Call{ID: fmt.Sprint("c", w.n), TurnID: turn, SessionKey: "s", Input: input, Project: tool.Project{Dir: dir}}
	write := tool.Tool{Name: "write", Sink: tool.SinkWrite, Paths: func(in json.RawMessage) (out []string) {
		must(w.t, json.Unmarshal(in, &out))
		return out
	}}
	must(w.t, w.Before(w.t.Context(), write, c))
	for _, path := range paths {
		must(w.t, os.WriteFile(path, []byte(turn), 0o600))
	}
	edits, err := w.After(w.t.Context(), c)
	must(w.t, err)
	if len(edits) != len(paths) {
		w.t.Errorf("turn %s: %d edits are told, want %d", turn, len(edits), len(paths))
	}
}

func (w *work) ids() (out []string) {
	w.t.Helper()
	turns, err := w.Turns(w.t.Context(), "")
	must(w.t, err)
	for _, t := range turns {
		out = append(out, t.ID)
	}
	return out
}

func (w *work) undo(turn string) undo.Report {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	r, err := w.Undo(w.t.Context(), turn, undo.Choice{})
	must(w.t, err)
	return r
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// A turn that changed several folders is one turn: it is shown as one, undone at
// once, and so is its undo, by its own process and by another one.
func TestTurnInSeveralFolders(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	dir := w.folder("proj")
	inside, beside := filepath.Join(w.ws, "a.txt"), filepath.Join(dir, "b.txt")
	w.write("t1", dir, inside, beside)
	w.write("t2", dir, beside)
	w.write("t3", "", inside)

	other := open(t, w.top)
	for name, r := range map[string]*work{"own": w, "other": other} {
		if got := r.ids(); !slices.Equal(got, []string{"t3", "t2", "t1"}) {
			t.Errorf("%s process: the turns are %v", name, got)
		}
	}
	diff, err := other.Diff(t.Context(), "t1")
	must(t, err)
	if !strings.Contains(diff, "+++ b/a.txt") || !strings.Contains(diff, filepath.ToSlash(beside)[1:]) {
		t.Errorf("the diff is %s", diff)
	}

	other.undo("t3")
	other.undo("t2")
	r := other.undo("t1")
	if there(inside) || there(beside) || len(r.Deleted) != 2 || !slices.Contains(r.Deleted, filepath.ToSlash(beside)) {
		t.Errorf("undo left a.txt %v and b.txt %v: %+v", there(inside), there(beside), r)
	}
	one, err := w.Find(t.Context(), "t1")
	if err != nil || one.UndoneBy != r.Undo || len(one.Changes) != 2 {
		t.Errorf("the turn is %+v, %v", one, err)
	}
	if last, err := w.Last(t.Context(), ""); err == nil {
		t.Errorf("a turn that can be undone is left: %+v", last)
	}
	if again := w.undo(r.Undo); len(again.Restored) != 2 || !there(inside) || !there(beside) {
		t.Errorf("the undo of the undo: %+v", again)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("the folder holds %v, %v", list, err)
	}
}

// A folder whose name leads elsewhere now is not written to.
func TestFolderThatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	w := newWork(t)
	dir, victim := w.folder("proj"), w.folder("victim")
	path := filepath.Join(dir, "a.txt")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	w.write("t1", dir, path)
	must(t, os.Rename(dir, dir+".aside"))
	must(t, os.Symlink(victim, dir))
	must(t, os.WriteFile(filepath.Join(victim, "a.txt"), []byte("t1"), 0o600))

	for _, r := range []*work{w, open(t, w.top)} {
		if _, err := r.Undo(t.Context(), "t1", undo.Choice{Force: true}); err == nil {
			t.Error("the turn was undone")
		}
	}
	if data, _ := os.ReadFile(filepath.Join(victim, "a.txt")); string(data) != "t1" {
		t.Errorf("the other folder's file is %q", data)
	}
}

// Only the folders that were used last are kept, and not for ever.
func TestFoldersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWork(t)
	first := w.folder("first")
	w.write("t-first", first, filepath.Join(first, "a.txt"))
	logs := func() int {
		list, err := filepath.Glob(filepath.Join(w.top, "data", "undo", "folder-*"))
		must(t, err)
		return len(list)
	}
	old := filepath.Join(w.top, "data", "undo", change.FolderName(first), "log")
	for i := range 25 {
		must(t, os.Chtimes(old, time.Time{}, w.now.Add(-time.Hour)))
		dir := w.folder(fmt.Sprint("f", i))
		w.write(fmt.Sprint("t", i), dir, filepath.Join(dir, "a.txt"))
		if !there(old) {
			break
		}
	}
	if n := logs(); n != 20 || there(old) {
		t.Errorf("there are %d logs, that of the first folder is there: %v", n, there(old))
	}
	if slices.Contains(w.ids(), "t-first") || slices.Contains(open(t, w.top).ids(), "t-first") {
		t.Error("a turn is listed that cannot be undone")
	}
	w.now = w.now.Add(20 * 24 * time.Hour)
	w.write("late", first, filepath.Join(first, "a.txt"))
	if n := logs(); n != 1 {
		t.Errorf("after weeks there are %d logs, want 1", n)
	}
}
