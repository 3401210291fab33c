package origin_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// clean is a command that brings in nothing by itself.
func (r *room) clean() *origin.Window {
	r.t.Helper()
	w, err := r.store.Begin(origin.Running{Outside: func() bool { return false }})
	r.must(err)
	r.t.Cleanup(w.Close)
	return w
}

// A clean command that runs is as clean as everything that becomes readable for
// it until it has ended, whoever writes it and even if it is gone again.
func TestCleanCommandThatReadsLater(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		meanwhile func(r *room, other *origin.Store)
		want      bool
	}{
		"nothing happens":             {func(*room, *origin.Store) {}, false},
		"the owner writes":            {func(r *room, _ *origin.Store) { r.write("notes.md", text) }, false},
		"a clean turn writes":         {func(r *room, _ *origin.Store) { r.must(r.store.Wrote(r.write("notes.md", text))) }, false},
		"a tainted turn writes":       {func(r *room, _ *origin.Store) { r.must(r.store.Mark(r.write("page.md", text))) }, true},
		"a tainted turn will write":   {func(r *room, _ *origin.Store) { r.must(r.store.Expect(r.path("page.md"))) }, true},
		"another process's turn does": {func(r *room, other *origin.Store) { r.must(other.Mark(r.write("page.md", text))) }, true},
		"it is removed again": {func(r *room, other *origin.Store) {
			path := r.write("page.md", text)
			r.must(other.Mark(path))
			r.must(os.Remove(path))
			r.store.Example(r.root)
		}, true},
		"it is trusted again": {func(r *room, other *origin.Store) {
			path := r.write("page.md", text)
			r.must(other.Mark(path))
			r.must(other.Trust(path))
		}, true},
		"a tainted command runs": {func(r *room, _ *origin.Store) {
			_, err := r.store.Begin(origin.Running{})
			r.must(err)
		}, true},
		"a tainted command of another process ran": {func(r *room, other *origin.Store) {
			w, err := other.Begin(origin.Running{})
			r.must(err)
			r.must(w.Foreign(r.t.Context()))
		}, true},
		"a clean command of another process ran": {func(r *room, other *origin.Store) {
			w, err := other.Begin(origin.Running{Outside: func() bool { return false }})
			r.must(err)
			r.must(w.Clean())
		}, false},
		"a clean command of another process runs": {func(r *room, other *origin.Store) {
			_, err := other.Begin(origin.Running{Outside: func() bool { return false }})
			r.must(err)
		}, false},
		"another clean command fetches something": {func(r *room, _ *origin.Store) {
			var fetched atomic.Bool
			_, err := r.store.Begin(origin.Running{Outside: fetched.Load})
			r.must(err)
			fetched.Store(true)
		}, true},
		"that of another process fetches something": {func(r *room, other *origin.Store) {
			w, err := other.Begin(origin.Running{Outside: func() bool { return false }})
			r.must(err)
			r.must(w.Taint())
		}, true},
		"the owner moves a stranger's file in": {func(r *room, _ *origin.Store) {
			elsewhere := filepath.Join(r.t.TempDir(), "page.md")
			r.must(os.WriteFile(elsewhere, []byte(text), 0o600))
			there, err := origin.Open(origin.Options{Store: disk.Open(r.dir, nil), Name: "there", Root: filepath.Dir(elsewhere)})
			r.must(err)
			r.must(there.Mark(elsewhere))
			r.must(os.Rename(elsewhere, r.path("moved.md")))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, frozen := range []bool{false, true} {
				r := newRoom(t)
				other, err := origin.Open(origin.Options{Store: disk.Open(r.dir, nil), Name: "ws", Root: r.root})
				r.must(err)
				w := r.clean()
				if frozen { // it reads on, although it cannot write
					r.must(w.Clean())
				}
				row.meanwhile(r, other)
				if got := w.Outside(); got != row.want {
					t.Errorf("frozen %v: what it prints is from outside: %v, want %v", frozen, got, row.want)
				}
				if got := w.Outside(); got != row.want {
					t.Errorf("frozen %v: at the second look: %v, want %v", frozen, got, row.want)
				}
			}
		})
	}
}

// What a clean command writes counts from the moment when it could read something
// from outside, and is marked at its end, for other processes as well.
func TestWhatAFlippedCommandWrites(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w := r.clean()
	r.write("copy.md", text)
	r.want("copy.md", false)
	r.must(r.store.Mark(r.write("page.md", "page "+text)))
	r.want("copy.md", true)
	own := r.store
	r.reopen()
	r.want("copy.md", true)
	r.store = own
	if !w.Outside() {
		t.Error("its output is clean")
	}
	r.must(w.Foreign(t.Context()))
	r.want("copy.md", true)
}

// A command that is kept inside a folder does not see the others.
func TestCommandInAFolder(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.old("a/mine.md", text)
	w, err := r.store.Begin(origin.Running{Outside: func() bool { return false }, Dir: r.path("a")})
	r.must(err)
	defer w.Close()
	r.must(r.store.Mark(r.write("b/page.md", text)))
	if w.Outside() {
		t.Error("it read a file of another folder")
	}
	r.write("b/owner.md", "owner "+text)
	r.must(r.store.Mark(r.write("a/page.md", text)))
	if !w.Outside() {
		t.Error("it did not read a file of its folder")
	}
	r.must(w.Foreign(t.Context()))
	r.want("b/owner.md", false) // it could not write there
}

// The command is told as soon as it flips, once.
func TestFlippedIsCalled(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	calls := 0
	w, err := r.store.Begin(origin.Running{Outside: func() bool { return false }, Flipped: func() { calls++ }})
	r.must(err)
	defer w.Close()
	if w.Flipped() {
		t.Error("it flipped before anything happened")
	}
	r.must(r.store.Mark(r.write("page.md", text), r.write("more.md", text)))
	if !w.Flipped() || calls != 1 {
		t.Errorf("flipped %v, told %d times", w.Flipped(), calls)
	}
	// What it fetches itself is not what others wrote.
	r.must(r.store.Trust(r.root))
	w, err = r.store.Begin(origin.Running{Outside: func() bool { return false }})
	r.must(err)
	defer w.Close()
	r.must(w.Taint())
	if w.Flipped() {
		t.Error("what a command fetched flips it")
	}
}

// A command is alone if no other one ran, in any process, and nothing was marked.
func TestAlone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before, meanwhile func(r *room, other *origin.Store)
		want              bool
	}{
		"nothing happens":           {meanwhile: func(*room, *origin.Store) {}, want: true},
		"it writes itself":          {meanwhile: func(r *room, _ *origin.Store) { r.write("built", text) }, want: true},
		"a tainted turn writes":     {meanwhile: func(r *room, _ *origin.Store) { r.must(r.store.Mark(r.write("page.md", text))) }},
		"a tainted turn will write": {meanwhile: func(r *room, _ *origin.Store) { r.must(r.store.Expect(r.path("page.md"))) }},
		"one of another process":    {meanwhile: func(r *room, other *origin.Store) { r.must(other.Mark(r.write("page.md", text))) }},
		"another command ran": {meanwhile: func(r *room, other *origin.Store) {
			w, err := other.Begin(origin.Running{})
			r.must(err)
			r.must(w.Clean())
		}},
		"another one was running": {
			before: func(r *room, other *origin.Store) {
				_, err := other.Begin(origin.Running{})
				r.must(err)
			},
			meanwhile: func(*room, *origin.Store) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			other, err := origin.Open(origin.Options{Store: disk.Open(r.dir, nil), Name: "ws", Root: r.root})
			r.must(err)
			if row.before != nil {
				row.before(r, other)
			}
			w, err := r.store.Begin(origin.Running{})
			r.must(err)
			t.Cleanup(w.Close)
			row.meanwhile(r, other)
			if got := w.Alone(); got != row.want {
				t.Errorf("alone: %v, want %v", got, row.want)
			}
		})
	}
}
