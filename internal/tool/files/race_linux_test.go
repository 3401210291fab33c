package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func makeFIFO(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// T6: a directory is swapped for a link to the outside 100,000 times while the
// tools read, write, patch, list and search below it. What is outside is never
// read and never changed.
func TestT6SwapRace(t *testing.T) {
	t.Parallel()
	swaps := 100_000
	if testing.Short() {
		swaps = 5000
	}
	tr := newTrap(t)
	tr.put("d/secret.txt", "inside\n")
	before := tr.outsideNow(t)
	d, evil := filepath.Join(tr.dir, "d"), filepath.Join(tr.dir, "evil")
	if err := os.Symlink(tr.outside, evil); err != nil {
		t.Fatal(err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE); err != nil {
		t.Skipf("this file system cannot exchange names: %v", err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for range swaps {
			_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE)
		}
	})
	var mu sync.Mutex
	fine := map[string]int{}
	for name, in := range map[string]args{
		"read_file":   {"path": "d/secret.txt"},
		"write_file":  {"path": "d/secret.txt", "content": "inside\n"},
		"edit_file":   {"path": "d/secret.txt", "old_text": "inside", "new_text": "inside "},
		"apply_patch": patch(add("d/new.txt", "x\n")),
		"grep":        {"pattern": ".", "path": "d", "output_mode": "content"},
		"list_dir":    {"path": "d"},
	} {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				res := tr.call(name, in)
				if strings.Contains(res.Content.String(), canary) || strings.Contains(res.Content.String(), "shared.txt") {
					t.Errorf("%s reached the outside: %s", name, res.Content.String())
					return
				}
				if !res.IsError {
					mu.Lock()
					fine[name]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	tr.untouched(t, before)
	t.Logf("calls that succeeded: %v", fine)
	for _, name := range []string{"read_file", "write_file", "grep"} {
		if fine[name] == 0 {
			t.Errorf("%s never succeeded, so the test shows nothing", name)
		}
	}
}
