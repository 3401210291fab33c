package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// prune shortens the log at once. Before does so when it is time.
func (s *Store) prune(ctx context.Context) error {
	leave, err := s.enter(ctx, false)
	if err != nil {
		return fmt.Errorf("enter the undo store: %w", err)
	}
	defer leave()
	if s.log.f == nil {
		return nil
	}
	return s.shorten(ctx)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// bench is a workspace with a store that watches it.
type bench struct {
	*Store
	t  testing.TB
	ws string
	n  int
}

func open(tb testing.TB, change ...func(*Options)) *bench {
	tb.Helper()
	return openIn(tb, tb.TempDir(), change...)
}

func openIn(tb testing.TB, dir string, change ...func(*Options)) *bench {
	tb.Helper()
	ws := filepath.Join(dir, "ws")
	must(tb, os.MkdirAll(ws, 0o755))
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Restrict: true, Home: dir})
	must(tb, err)
	tb.Cleanup(func() { must(tb, jail.Close()) })
	o := Options{Dir: filepath.Join(dir, "undo"), Jail: jail}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(o)
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close()) })
	return &bench{Store: s, t: tb, ws: ws}
}

func writeTool() tool.Tool {
	return tool.Tool{Name: "write_file", Sink: tool.SinkWrite, Paths: tool.PathArg("path")}
}

func execTool() tool.Tool { return tool.Tool{Name: "exec", Sink: tool.SinkCommand} }

func (b *bench) call(turn string, input any) tool.Call {
	b.n++
	raw, err := json.Marshal(input)
	must(b.t, err)
	return tool.Call{ID: fmt.Sprint("c", b.n), TurnID: turn, SessionKey: "cli:direct", Input: raw}
}

// after ends a call.
func (b *bench) after(c tool.Call) []bus.Edit {
	b.t.Helper()
	edits, err := b.After(b.t.Context(), c)
	must(b.t, err)
	return edits
}

// edit does what a file tool of a turn would do.
func (b *bench) edit(turn, path string, do func()) []bus.Edit {
	b.t.Helper()
	c := b.call(turn, map[string]string{"path": path})
	must(b.t, b.Before(b.t.Context(), writeTool(), c))
	do()
	return b.after(c)
}

// command does what a command of a turn would do.
func (b *bench) command(turn string, do func()) []bus.Edit {
	b.t.Helper()
	c := b.call(turn, map[string]string{"command": "?"})
	must(b.t, b.Before(b.t.Context(), execTool(), c))
	do()
	return b.after(c)
}

func (b *bench) write(path, data string) {
	b.t.Helper()
	full := filepath.Join(b.ws, path)
	must(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
	must(b.t, os.WriteFile(full, []byte(data), 0o644))
}

func (b *bench) remove(path string) {
	b.t.Helper()
	must(b.t, os.RemoveAll(filepath.Join(b.ws, path)))
}

func (b *bench) undo(turn string, force bool) Report {
	b.t.Helper()
	r, err := b.Undo(b.t.Context(), turn, Choice{Force: force})
	must(b.t, err)
	return r
}

// listing is a tree as a map of paths to what is there.
func listing(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	out := map[string]string{}
	must(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			out[rel] = "-> " + target
			return err
		case d.IsDir():
			out[rel] = fmt.Sprintf("dir %o", info.Mode().Perm())
		default:
			data, err := os.ReadFile(path)
			out[rel] = fmt.Sprintf("%o %s", info.Mode().Perm(), data)
			return err
		}
		return nil
	}))
	return out
}

func (b *bench) want(before map[string]string) {
	b.t.Helper()
	if diff := cmp.Diff(before, listing(b.t, b.ws)); diff != "" {
		b.t.Errorf("workspace differs (-want +got):\n%s", diff)
	}
}

func TestUndoEdits(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("a.txt", "one\n")
	b.write("gone.txt", "bye\n")
	must(t, os.Chmod(filepath.Join(b.ws, "gone.txt"), 0o640))
	before := listing(t, b.ws)

	b.edit("t1", "a.txt", func() { b.write("a.txt", "two\n") })
	b.edit("t1", "a.txt", func() { b.write("a.txt", "three\n") })
	b.edit("t1", "gone.txt", func() { b.remove("gone.txt") })
	b.edit("t1", "new/deep/b.txt", func() { b.write("new/deep/b.txt", "b") })
	after := listing(t, b.ws)

	turns, err := b.Turns(t.Context(), "cli:direct")
	must(t, err)
	want := []Change{{"a.txt", "changed"}, {"gone.txt", "deleted"}, {"new", "created"}, {"new/deep", "created"}, {"new/deep/b.txt", "created"}}
	if len(turns) != 1 || cmp.Diff(want, turns[0].Changes) != "" {
		t.Fatalf("turns = %+v, want the changes %v", turns, want)
	}
	diff, err := b.Diff(t.Context(), "t1")
	must(t, err)
	for _, s := range []string{"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+three\n", "--- a/gone.txt\n+++ /dev/null\n", "--- /dev/null\n+++ b/new/deep/b.txt\n", "\\ No newline"} {
		if !strings.Contains(diff, s) {
			t.Errorf("diff lacks %q:\n%s", s, diff)
		}
	}

	r := b.undo("t1", false)
	b.want(before)
	if len(r.Skipped) > 0 || len(r.Restored) != 2 || len(r.Deleted) != 3 {
		t.Errorf("report = %+v", r)
	}
	if _, err := b.Last(t.Context(), "cli:direct"); !errors.Is(err, ErrNoTurn) {
		t.Errorf("Last after the undo: %v, want ErrNoTurn", err)
	}
	// The undo is undone, and then the turn counts again.
	b.undo(r.Undo, false)
	b.want(after)
	if last, err := b.Last(t.Context(), "cli:direct"); err != nil || last.ID != "t1" {
		t.Errorf("Last = %+v, %v; want t1", last, err)
	}
}

func TestUndoCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links and modes are those of Unix")
	}
	b := open(t)
	b.write("src/a.go", "package a\n")
	b.write("src/b.go", "package b\n")
	b.write("run.sh", "#!/bin/sh\n")
	b.write("node_modules/x/index.js", "1")
	must(t, os.Mkdir(filepath.Join(b.ws, "empty"), 0o750))
	must(t, os.Symlink("src/a.go", filepath.Join(b.ws, "link")))
	before := listing(t, b.ws)
	b.command("t1", func() {
		b.remove("src")
		b.write("src", "now a file")
		must(t, os.Chmod(filepath.Join(b.ws, "run.sh"), 0o755))
		b.remove("empty")
		b.remove("link")
		must(t, os.Symlink("/etc", filepath.Join(b.ws, "link")))
		b.write("made/deep/c", "c")
	})
	r := b.undo("t1", false)
	b.want(before)
	if len(r.Skipped) > 0 || !cmp.Equal(r.Outside, []string{"node_modules"}) {
		t.Errorf("report = %+v", r)
	}
	b.undo(r.Undo, false)
	if got, _ := os.ReadFile(filepath.Join(b.ws, "src")); string(got) != "now a file" {
		t.Errorf("src = %q after the undo was undone", got)
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("a", "1")
	b.write("b", "1")
	b.edit("t1", "a", func() { b.write("a", "2") })
	b.edit("t1", "b", func() { b.write("b", "2") })
	b.write("a", "mine")
	r := b.undo("t1", false)
	if len(r.Skipped) != 1 || r.Skipped[0].Path != "a" || !r.Skipped[0].Conflict || !cmp.Equal(r.Restored, []string{"b"}) {
		t.Errorf("report = %+v", r)
	}
	if l := listing(t, b.ws); l["a"] != "644 mine" || l["b"] != "644 1" {
		t.Errorf("files = %v", l)
	}
	r = b.undo("t1", true)
	if l := listing(t, b.ws); l["a"] != "644 1" || len(r.Skipped) > 0 {
		t.Errorf("forced: files = %v, report %+v", l, r)
	}
	// What force replaced is not lost.
	b.undo(r.Undo, false)
	if l := listing(t, b.ws); l["a"] != "644 mine" {
		t.Errorf("files = %v, want mine back", l)
	}
}

// A change by somebody else between two calls of a turn is not undone silently.
func TestMixed(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("a", "1")
	b.edit("t1", "a", func() { b.write("a", "2") })
	b.write("a", "mine")
	b.edit("t1", "a", func() { b.write("a", "3") })
	r := b.undo("t1", false)
	if len(r.Skipped) != 1 || !r.Skipped[0].Conflict {
		t.Errorf("report = %+v, want a conflict", r)
	}
}

func TestNothingCostsNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, tl := range []tool.Tool{{Name: "read_file", ReadOnly: true, Paths: tool.PathArg("path")}, {Name: "message", Sink: tool.SinkMessage}} {
		c := b.call("t1", map[string]string{"path": "x"})
		must(t, b.Before(t.Context(), tl, c))
		b.after(c)
	}
	if turns, err := b.Turns(t.Context(), ""); err != nil || len(turns) > 0 {
		t.Errorf("turns = %v, %v", turns, err)
	}
	if _, err := os.Stat(b.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *Options) { o.MaxFiles = 10; o.MaxFileBytes = 100 })
	b.write("big", strings.Repeat("x", 101))
	b.write("small", "s")
	b.command("t1", func() { b.write("big", strings.Repeat("y", 102)); b.write("small", "t") })
	r := b.undo("t1", false)
	if len(r.Skipped) != 1 || r.Skipped[0].Path != "big" || !cmp.Equal(r.Restored, []string{"small"}) {
		t.Errorf("report = %+v", r)
	}
	// What cannot be kept is not replaced, even by force.
	b.command("t1b", func() { b.write("small", strings.Repeat("z", 101)) })
	r = b.undo("t1b", true)
	if l := listing(t, b.ws); len(r.Skipped) != 1 || len(r.Restored) > 0 || len(l["small"]) < 100 {
		t.Errorf("report = %+v, small = %q", r, l["small"])
	}
	b.write("small", "s")
	// A command that makes too many files is still undone where it changed old ones.
	b.command("t2", func() {
		for i := range 20 {
			b.write(fmt.Sprint("new", i), "n")
		}
		b.remove("small")
	})
	r = b.undo("t2", false)
	if len(r.Gaps) != 1 || !cmp.Equal(r.Restored, []string{"small"}) || len(r.Deleted) > 0 {
		t.Errorf("report = %+v", r)
	}
	// From now on the workspace is too large, which is said.
	c := b.call("t3", nil)
	if err := b.Before(t.Context(), execTool(), c); err == nil {
		t.Error("a workspace over the limit was covered")
	}
	b.after(c)
	last, err := b.Last(t.Context(), "")
	must(t, err)
	if last.ID != "t3" || len(last.Gaps) != 1 || !strings.Contains(last.Gaps[0], "more than 10 files") {
		t.Errorf("last = %+v", last)
	}
}

func TestRefusedPathsAreNotKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("TOPSECRET"), 0o600))
	b := openIn(t, dir)
	must(t, os.Symlink(filepath.Join(dir, "secret"), filepath.Join(b.ws, "link")))
	for _, p := range []string{"../secret", filepath.Join(dir, "secret"), "link", ""} {
		c := b.call("t1", map[string]string{"path": p})
		must(t, b.Before(t.Context(), writeTool(), c))
		b.after(c)
	}
	b.command("t1", func() {})
	if data, err := os.ReadFile(filepath.Join(b.Dir, "log")); err == nil && strings.Contains(string(data), "TOPSECRET") {
		t.Error("content from outside the workspace is in the log")
	}
}

// Folders that were moved out of a place that is not watched are not deleted.
func TestMovedInStays(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("needs inode times")
	}
	b := open(t)
	b.write(".git/config", "[core]")
	b.write("d/f", "f")
	c := b.call("t1", nil)
	must(t, b.Before(t.Context(), execTool(), c))
	// As if the files had been there for long before the command.
	b.log.model.open[callKey(c)].at = time.Now().Add(time.Second)
	must(t, os.Rename(filepath.Join(b.ws, ".git"), filepath.Join(b.ws, "git-old")))
	must(t, os.Rename(filepath.Join(b.ws, "d"), filepath.Join(b.ws, "e")))
	b.after(c)
	r := b.undo("t1", false)
	l := listing(t, b.ws)
	if l["git-old/config"] != "644 [core]" || l["d/f"] != "644 f" || l["e/f"] != "" || len(r.Gaps) != 1 {
		t.Errorf("files = %v, report = %+v", l, r)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := open(t, func(o *Options) {
		o.Keep = 3
		o.MaxBytes = 40 << 10
		o.Now = func() time.Time { return now }
	})
	for i := range 30 {
		now = now.Add(time.Minute)
		b.edit(fmt.Sprint("t", i), "a", func() { b.write("a", strings.Repeat(fmt.Sprint(i%10), 4<<10)+fmt.Sprint(i)) })
	}
	must(t, b.prune(t.Context()))
	turns, err := b.Turns(t.Context(), "")
	must(t, err)
	if len(turns) != 3 || turns[0].ID != "t29" {
		t.Errorf("%d turns, the first %+v", len(turns), turns[0])
	}
	info, err := os.Stat(b.log.path())
	must(t, err)
	if info.Size() > 40<<10 {
		t.Errorf("the log has %d bytes", info.Size())
	}
	b.undo("t29", false)
	if l := listing(t, b.ws); !strings.HasSuffix(l["a"], "28") {
		t.Errorf("a ends in %q", l["a"][len(l["a"])-4:])
	}
	now = now.Add(15 * 24 * time.Hour)
	must(t, b.prune(t.Context()))
	if turns, err := b.Turns(t.Context(), ""); err != nil || len(turns) > 0 {
		t.Errorf("turns = %v, %v; want none after two weeks", turns, err)
	}
}

// A command that runs while the log is rewritten is undone all the same, also
// by a process that only knows the log.
func TestPruneDuringCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openIn(t, dir)
	b.write("a", "1")
	b.write("b", "1")
	c := b.call("t1", nil)
	must(t, b.Before(t.Context(), execTool(), c))
	b.write("a", "2")
	other := b.call("t2", nil)
	other.SessionKey = "cli:other"
	must(t, b.Before(t.Context(), execTool(), other)) // sees a as it is now
	b.write("b", "2")
	b.after(other)
	must(t, b.prune(t.Context()))
	b.write("c", "3")
	// The process "dies": its lock goes, its memory is forgotten.
	must(t, b.calls[callKey(c)].lock.Unlock())
	b2 := openIn(t, dir)
	r := b2.undo("t1", true)
	l := listing(t, b.ws)
	if l["a"] != "644 1" || l["b"] != "644 2" || l["c"] != "" || !r.Interrupted {
		t.Errorf("files = %v, report = %+v", l, r)
	}
}

func TestBackgroundCommandIsSaid(t *testing.T) {
	t.Parallel()
	busy := true
	b := open(t, func(o *Options) { o.Busy = func(session string) bool { return busy && session == "cli:direct" } })
	b.command("t1", func() { b.write("a", "1") })
	busy = false
	b.command("t2", func() { b.write("a", "2") })
	turns, err := b.Turns(t.Context(), "")
	must(t, err)
	if len(turns) != 2 || len(turns[0].Gaps) > 0 || len(turns[1].Gaps) != 1 || !strings.Contains(turns[1].Gaps[0], "background") {
		t.Errorf("turns = %+v", turns)
	}
}

// What a dying process left at the end of the log is dropped for good.
func TestTornTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openIn(t, dir)
	b.write("a", "1")
	b.edit("t1", "a", func() { b.write("a", "2") })
	must(t, b.Close())
	f, err := os.OpenFile(b.log.path(), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(`{"op":"blob","hash":"00","n":1000000}` + "\n" + strings.Repeat(`{"op":"gap","turn":"t1","why":"forged"}`+"\n", 200))
	must(t, err)
	must(t, f.Close())
	for _, turn := range []string{"t2", "t3"} {
		b = openIn(t, dir)
		b.edit(turn, "a", func() { b.write("a", turn) })
		turns, err := b.Turns(t.Context(), "")
		must(t, err)
		for _, turn := range turns {
			if len(turn.Gaps) > 0 {
				t.Fatalf("turn = %+v", turn)
			}
		}
	}
	for _, turn := range []string{"t3", "t2", "t1"} {
		b.undo(turn, false)
	}
	if l := listing(t, b.ws); l["a"] != "644 1" {
		t.Errorf("a = %q", l["a"])
	}
}

func TestUnknownTurns(t *testing.T) {
	t.Parallel()
	b := open(t)
	if _, err := b.Undo(t.Context(), "nope", Choice{}); !errors.Is(err, ErrNoTurn) {
		t.Errorf("Undo = %v", err)
	}
	b.edit("abc1", "a", func() { b.write("a", "1") })
	b.edit("abc2", "a", func() { b.write("a", "2") })
	if _, err := b.Diff(t.Context(), "abc"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("Diff = %v", err)
	}
	if turn, err := b.Find(t.Context(), "abc2"); err != nil || turn.ID != "abc2" {
		t.Errorf("Find = %+v, %v", turn, err)
	}
	c := b.call("abc3", nil)
	must(t, b.Before(t.Context(), execTool(), c))
	if _, err := b.Undo(t.Context(), "abc3", Choice{}); !errors.Is(err, ErrRunning) {
		t.Errorf("Undo of a running turn = %v", err)
	}
	b.after(c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Before(ctx, execTool(), b.call("abc4", nil)); err == nil {
		t.Error("Before with a dead context returned nil")
	}
}
