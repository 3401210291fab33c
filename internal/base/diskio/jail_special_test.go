//go:build linux

package diskio_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

func TestJailSpecialFiles(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := y.jail(t)
	if err := syscall.Mkfifo(filepath.Join(y.ws, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	y.link(t, "fifo", "fifolink")
	names := []string{"fifo", "fifolink", "."}
	// Socket paths are short, so the test's directory may be too deep for one.
	if l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(y.ws, "sock")); err == nil {
		defer func() { _ = l.Close() }()
		names = append(names, "sock")
	}
	if err := syscall.Mknod(filepath.Join(y.ws, "null"), syscall.S_IFCHR|0o666, 1<<8|3); err == nil {
		names = append(names, "null")
	}
	for _, name := range names {
		if _, err := j.Open(name); !errors.Is(err, diskio.ErrNotRegular) {
			t.Errorf("Open(%s) = %v, want ErrNotRegular", name, err)
		}
		if _, err := j.WriteAtomic(t.Context(), name, []byte("x")); !errors.Is(err, diskio.ErrNotRegular) {
			t.Errorf("WriteAtomic(%s) = %v, want ErrNotRegular", name, err)
		}
	}
	d, err := j.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for _, name := range names {
		if data, _, err := d.ReadFile(name, 100, nil, nil); err == nil {
			t.Errorf("Dir.ReadFile(%s) = %q, want an error", name, data)
		}
	}
	if j.Restricted() {
		u := y.jail(t, free)
		for _, name := range []string{"/dev/zero", "/dev/null", "/dev/stdin", "/proc/self/fd/0", "/proc/self/mem", "/proc/1/environ", "/proc/kcore"} {
			if _, err := u.Open(name); !errors.Is(err, diskio.ErrProtected) {
				t.Errorf("unrestricted Open(%s) = %v, want ErrProtected", name, err)
			}
		}
		if text, err := readIn(u, "/proc/self/status"); err != nil || text == "" {
			t.Errorf("unrestricted Open(/proc/self/status) = %q, %v", text, err)
		}
	}
}

// A directory is swapped for a link to the outside while files below it are
// read, written and walked. The outside must never be touched.
func TestJailSwapRace(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.put(t, filepath.Join(y.ws, "d/secret.txt"), "inside")
	y.link(t, y.outside, "evil")
	j := y.jail(t)
	const rounds = 20_000
	var swaps atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		d, evil, spare := filepath.Join(y.ws, "d"), filepath.Join(y.ws, "evil"), filepath.Join(y.ws, "spare")
		for range rounds {
			_ = os.Rename(d, spare)
			_ = os.Rename(evil, d)
			_ = os.Rename(d, evil)
			_ = os.Rename(spare, d)
			swaps.Add(1)
		}
	})
	running := func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	read := 0
	wg.Go(func() {
		for running() {
			if got, err := readIn(j, "d/secret.txt"); err == nil {
				read++
				if got != "inside" && got != "mine" {
					t.Errorf("read %q", got)
					return
				}
			}
		}
	})
	wg.Go(func() {
		for running() {
			_, _ = j.WriteAtomic(t.Context(), "d/secret.txt", []byte("mine"))
			_ = j.MkdirAll("d/made")
		}
	})
	wg.Go(func() {
		for running() {
			walkForCanary(t, j)
		}
	})
	wg.Wait()
	if b, _ := os.ReadFile(y.secret); string(b) != canary {
		t.Errorf("the file outside was changed to %q", b)
	}
	if entries, _ := os.ReadDir(y.outside); len(entries) != 1 {
		t.Errorf("something was created outside: %v", entries)
	}
	if read == 0 {
		t.Error("no read ever succeeded, so the test shows nothing")
	}
}

func walkForCanary(t *testing.T, j *diskio.Jail) {
	t.Helper()
	d, err := j.OpenDir(".")
	if err != nil {
		return
	}
	defer func() { _ = d.Close() }()
	w := diskio.Walk[int]{
		Enter: func(_ *diskio.Dir, _ string, depth int, e []fs.DirEntry) (int, []fs.DirEntry) { return depth + 1, e },
		File: func(d *diskio.Dir, _ string, e fs.DirEntry, _ int) {
			if data, _, err := d.ReadFile(e.Name(), 1000, nil, nil); err == nil && string(data) == canary {
				t.Error("a walk read the file outside")
			}
		},
		Failed: func(string, error) {},
	}
	if err := w.Run(t.Context(), d, 0); err != nil {
		t.Error(err)
	}
}

// A walk that is stopped half-way closes everything it opened.
func TestWalkClosesDescriptors(t *testing.T) {
	// Not parallel: it counts the process's descriptors.
	y := newYard(t)
	for i := range 40 {
		y.put(t, filepath.Join(y.ws, fmt.Sprintf("d%d/e%d/f%d/g.txt", i%4, i%8, i)), "x")
	}
	j := y.jail(t)
	d, err := j.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := open()
	for stopAt := range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		var seen, files atomic.Int64
		w := diskio.Walk[int]{
			Enter: func(_ *diskio.Dir, _ string, _ int, e []fs.DirEntry) (int, []fs.DirEntry) {
				if seen.Add(1) == int64(stopAt) {
					cancel()
				}
				return 0, e
			},
			File:   func(*diskio.Dir, string, fs.DirEntry, int) { files.Add(1) },
			Failed: func(string, error) {},
		}
		err := w.Run(ctx, d, 0)
		if stopAt == 0 && (err != nil || files.Load() != 41) {
			t.Errorf("a whole walk saw %d files, want 41: %v", files.Load(), err)
		}
		cancel()
	}
	if after := open(); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func TestWalkDepth(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.put(t, filepath.Join(y.ws, strings.Repeat("d/", 300), "deep.txt"), "x")
	j := y.jail(t)
	d, err := j.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	var failed, dirs atomic.Int64
	w := diskio.Walk[int]{
		Enter:  func(_ *diskio.Dir, _ string, _ int, e []fs.DirEntry) (int, []fs.DirEntry) { dirs.Add(1); return 0, e },
		File:   func(*diskio.Dir, string, fs.DirEntry, int) {},
		Failed: func(string, error) { failed.Add(1) },
	}
	if err := w.Run(t.Context(), d, 0); err != nil || failed.Load() != 1 || dirs.Load() != 257 {
		t.Errorf("walk = %v, %d failed, %d entered", err, failed.Load(), dirs.Load())
	}
}
