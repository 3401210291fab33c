package undo

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// scribble changes the workspace at random, as programs do.
func (b *bench) scribble(r *rand.Rand) {
	b.t.Helper()
	dirs := []string{"", "a", "a/b", "c", "c/d/e", "link"}
	for range 1 + r.IntN(6) {
		p := filepath.Join(b.ws, dirs[r.IntN(len(dirs))], fmt.Sprint("f", r.IntN(4)))
		switch r.IntN(8) {
		case 0, 1, 2:
			if os.MkdirAll(filepath.Dir(p), 0o755) == nil {
				_ = os.WriteFile(p, fmt.Appendf(nil, "%d\n", r.IntN(1000)), 0o644) // it may be a folder
			}
		case 3:
			_ = os.RemoveAll(p)
		case 4:
			_ = os.RemoveAll(filepath.Dir(p) + "/")
			must(b.t, os.MkdirAll(b.ws, 0o755))
		case 5:
			_ = os.Chmod(p, []os.FileMode{0o600, 0o644, 0o755}[r.IntN(3)])
		case 6:
			_ = os.Remove(p)
			_ = os.Symlink([]string{"f0", "../x", filepath.Join(filepath.Dir(b.ws), "outside"), "a"}[r.IntN(4)], p) // what is written through a link stays in the test
		case 7:
			_ = os.Rename(p, filepath.Join(b.ws, fmt.Sprint("moved", r.IntN(3))))
		}
	}
}

// Whatever a turn did, undo brings back the tree as it was, and undoing the
// undo brings back what the turn had made.
func TestUndoRestoresEverything(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links and modes are those of Unix")
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	b := open(t, func(o *Options) { o.Keep = 20 })
	for i := range 60 {
		before := listing(t, b.ws)
		turn := fmt.Sprint("turn", i)
		for range 1 + r.IntN(3) {
			if r.IntN(2) == 0 {
				b.command(turn, func() { b.scribble(r) })
				continue
			}
			name := fmt.Sprintf("a/f%d", r.IntN(6))
			b.edit(turn, name, func() {
				if r.IntN(4) == 0 {
					_ = os.Remove(filepath.Join(b.ws, name))
				} else if os.MkdirAll(filepath.Join(b.ws, "a"), 0o755) == nil {
					if fi, err := os.Lstat(filepath.Join(b.ws, name)); err != nil || fi.Mode().IsRegular() {
						_ = os.WriteFile(filepath.Join(b.ws, name), fmt.Append(nil, r.IntN(100)), 0o644)
					}
				}
			})
		}
		after := listing(t, b.ws)
		rep := b.undo(turn, false)
		if len(rep.Skipped) > 0 {
			t.Fatalf("seed %d, turn %d: skipped %+v", seed, i, rep.Skipped)
		}
		b.want(before)
		if rep.Undo != "" {
			b.undo(rep.Undo, false)
			b.want(after)
		}
		if t.Failed() {
			t.Fatalf("seed %d, turn %d", seed, i)
		}
	}
}

// Undo never reads or writes outside of the workspace, whatever links appear
// in it while it works.
func TestLinkSwaps(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	must(t, os.MkdirAll(outside, 0o755))
	canary := func(name string) string { return filepath.Join(outside, name) }
	for i := range 3 {
		must(t, os.WriteFile(canary(fmt.Sprintf("f%d", i)), []byte("CANARY"), 0o644))
	}
	want := listing(t, outside)
	b := openIn(t, dir)
	for i := range 3 {
		b.write(fmt.Sprintf("d/f%d", i), "old")
		b.edit("changed", fmt.Sprintf("d/f%d", i), func() { b.write(fmt.Sprintf("d/f%d", i), "new") })
	}
	next := "changed"
	var stop atomic.Bool
	done := make(chan int)
	go func() {
		n := 0
		d, away := filepath.Join(b.ws, "d"), filepath.Join(b.ws, "away")
		for ; !stop.Load() || n%2 == 1; n++ {
			if n%2 == 0 {
				if os.Rename(d, away) != nil || os.Symlink(outside, d) != nil {
					n = n &^ 1
				}
				continue
			}
			if os.Remove(d) != nil {
				_ = os.RemoveAll(d)
			}
			_ = os.Rename(away, d)
		}
		done <- n
	}()
	for i := range 100 {
		// Looking ...
		turn := fmt.Sprint("t", i)
		c := b.call(turn, map[string]string{"path": fmt.Sprintf("d/f%d", i%3)})
		_ = b.Before(t.Context(), writeTool(), c) // may well fail
		_, _ = b.After(t.Context(), c)
		if i%4 == 0 {
			c = b.call(turn, nil)
			_ = b.Before(t.Context(), execTool(), c)
			_, _ = b.After(t.Context(), c)
			_, _ = b.Diff(t.Context(), turn)
		}
		// ... and writing, to and fro.
		if r, err := b.Undo(t.Context(), next, Choice{Force: true}); err == nil && r.Undo != "" {
			next = r.Undo
		} else {
			next = "changed"
		}
	}
	stop.Store(true)
	if n := <-done; n < 100 {
		t.Logf("only %d swaps happened", n)
	}
	if diff := cmp.Diff(want, listing(t, outside)); diff != "" {
		t.Errorf("outside changed:\n%s", diff)
	}
	if data, err := os.ReadFile(b.log.path()); err != nil || strings.Contains(string(data), "CANARY") {
		t.Errorf("content from outside is in the log (%v)", err)
	}
}

// What is done to a name happens in the folder that was opened, even if another
// one has its name by then.
func TestPutHoldsItsFolder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	for _, want := range []state{
		{Kind: kindFile, Mode: 0o644}, {Kind: kindLink, Link: "x"}, {Kind: kindDir, Mode: 0o755}, {Kind: kindGone},
	} {
		t.Run(string(want.Kind), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := openIn(t, dir)
			outside := filepath.Join(dir, "outside")
			must(t, os.MkdirAll(outside, 0o755))
			must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("CANARY"), 0o600))
			before := listing(t, outside)
			b.write("d/f", "now")
			sp, err := b.area.spot("d/f")
			must(t, err)
			defer sp.close()
			_, _, info, err := b.area.inspect(sp)
			must(t, err)
			must(t, os.Rename(filepath.Join(b.ws, "d"), filepath.Join(b.ws, "away")))
			must(t, os.Symlink(outside, filepath.Join(b.ws, "d")))
			must(t, setState(sp, want, []byte("restored"), info))
			if diff := cmp.Diff(before, listing(t, outside)); diff != "" {
				t.Errorf("outside changed:\n%s", diff)
			}
			got := listing(t, filepath.Join(b.ws, "away"))["f"]
			if ok := map[kind]bool{kindFile: got == "644 restored", kindLink: got == "-> x", kindDir: got == "dir 700", kindGone: got == ""}[want.Kind]; !ok {
				t.Errorf("f = %q", got)
			}
			if _, data, _, err := b.area.inspect(sp); err != nil || strings.Contains(string(data), "CANARY") {
				t.Errorf("look = %q, %v", data, err)
			}
		})
	}
}

// A folder that became a link after the turn is not written through.
func TestLinkAfterTheTurn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	for _, target := range []string{"inside", "outside"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := openIn(t, dir)
			victim, link := filepath.Join(b.ws, "other"), "other"
			if target == "outside" {
				victim = filepath.Join(dir, "other")
				link = victim
			}
			must(t, os.MkdirAll(victim, 0o755))
			must(t, os.WriteFile(filepath.Join(victim, "f"), []byte("victim"), 0o644))
			b.write("d/f", "old")
			b.edit("t1", "d/f", func() { b.write("d/f", "new") })
			b.remove("d")
			must(t, os.Symlink(link, filepath.Join(b.ws, "d")))
			r := b.undo("t1", true)
			if got, err := os.ReadFile(filepath.Join(victim, "f")); err != nil || string(got) != "victim" {
				t.Errorf("victim = %q, %v", got, err)
			}
			if len(r.Skipped) != 1 || len(r.Restored) > 0 {
				t.Errorf("report = %+v", r)
			}
		})
	}
}

// Files outside of the workspace, which an agent without limits may change, are
// covered; protected ones are not even read.
func TestUnrestricted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	must(t, os.WriteFile(secret, []byte("TOPSECRET"), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "ws"), 0o755))
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: filepath.Join(dir, "ws"), Home: dir, Protected: []string{secret}})
	must(t, err)
	t.Cleanup(func() { must(t, jail.Close()) })
	b := openIn(t, dir, func(o *Options) { o.Jail = jail })
	file := filepath.Join(dir, "notes", "n.txt")
	b.edit("t1", file, func() {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte("1"), 0o644))
	})
	b.edit("t2", file, func() { must(t, os.WriteFile(file, []byte("2"), 0o644)) })
	b.edit("t2", secret, func() {})
	b.undo("t2", false)
	if got, err := os.ReadFile(file); err != nil || string(got) != "1" {
		t.Errorf("file = %q, %v", got, err)
	}
	b.undo("t1", false)
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if data, err := os.ReadFile(b.log.path()); err != nil || strings.Contains(string(data), "TOPSECRET") {
		t.Errorf("a protected file was kept (%v)", err)
	}
}

// Conversations that work in one workspace at the same time are told apart
// where tools name their files.
func TestSessionsSideBySide(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("shared", "0")
	long := b.call("long", nil)
	must(t, b.Before(t.Context(), execTool(), long))
	b.write("by-command", "x")
	other := tool.Call{ID: "x", TurnID: "other", SessionKey: "cli:two", Input: []byte(`{"path":"shared"}`)}
	must(t, b.Before(t.Context(), writeTool(), other))
	b.write("shared", "1")
	b.after(other)
	b.after(long)
	r := b.undo("long", false)
	if l := listing(t, b.ws); l["shared"] != "644 1" || l["by-command"] != "" || len(r.Skipped) > 0 {
		t.Errorf("files = %v, report = %+v", l, r)
	}
	if turns, err := b.Turns(t.Context(), "cli:two"); err != nil || len(turns) != 1 || turns[0].ID != "other" {
		t.Errorf("turns = %+v, %v", turns, err)
	}
}

// A link that a tool removes comes back, also one that leads nowhere.
func TestUndoRemovedLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	b := open(t)
	b.write("a/f0", "x")
	must(t, os.Symlink("../nowhere", filepath.Join(b.ws, "a", "f1")))
	before := listing(t, b.ws)
	b.edit("turn", "a/f1", func() { must(t, os.Remove(filepath.Join(b.ws, "a", "f1"))) })
	b.undo("turn", false)
	b.want(before)
}
