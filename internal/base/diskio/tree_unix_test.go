//go:build unix

package diskio

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Pipes, sockets and devices are refused at once, for reading and for writing.
func TestTreeSpecialFiles(t *testing.T) {
	treeWays(t, func(t *testing.T, open func(string, ...string) *Tree) {
		ws := t.TempDir()
		mustDo(t, syscall.Mkfifo(filepath.Join(ws, "fifo"), 0o644))
		names := []string{"fifo"}
		t.Chdir(ws) // the names of sockets are short
		if l, err := new(net.ListenConfig).Listen(t.Context(), "unix", "socket"); err == nil {
			defer l.Close()
			names = append(names, "socket")
		}
		if err := syscall.Mknod(filepath.Join(ws, "device"), syscall.S_IFCHR|0o666, 1<<8|5); err == nil { // zeros without an end
			names = append(names, "device")
		}

		tree := open(ws)
		for _, name := range names {
			if _, err := tree.ReadFile(name, 99); !errors.Is(err, ErrNotRegular) {
				t.Errorf("read %s: %v", name, err)
			}
			if err := tree.WriteFile(name, nil, 0o644); !errors.Is(err, ErrNotRegular) {
				t.Errorf("write %s: %v", name, err)
			}
			if created, err := tree.CreateNew(name, nil, 0o644); created || !errors.Is(err, ErrNotRegular) {
				t.Errorf("create %s: %v, %v", name, created, err)
			}
			if _, err := tree.ReadDir(name); !errors.Is(err, ErrNotRegular) {
				t.Errorf("list %s: %v", name, err)
			}
		}
	})
}

// A tree works while everything in it is swapped for links, pipes and back. No
// byte outside may be read, written, made or removed. NANOBOT_TREE_SWAPS=50000
// runs longer.
func TestTreeRace(t *testing.T) {
	treeWays(t, func(t *testing.T, open func(string, ...string) *Tree) {
		swaps := 4_000
		if n, err := strconv.Atoi(os.Getenv("NANOBOT_TREE_SWAPS")); err == nil {
			swaps = n
		}
		ws, out, intact := outside(t)
		put(t, ws, map[string]string{"dir/deep/secret": "inside", "secret": "inside", "spare/deep/secret": "inside"})
		tree := open(ws)

		var over atomic.Bool
		var workers sync.WaitGroup
		work := func(do func() []byte) {
			workers.Go(func() {
				for !over.Load() {
					if got := do(); bytes.Contains(got, []byte("canary")) {
						t.Errorf("read %q", got)
						return
					}
				}
			})
		}
		work(func() []byte { b, _ := tree.ReadFile("dir/deep/secret", 99); return b })
		work(func() []byte { b, _ := tree.ReadFile("secret", 99); return b })
		work(func() []byte { _ = tree.WriteFile("dir/deep/secret", []byte("inside"), 0o644); return nil })
		work(func() []byte {
			_, _ = tree.CreateNew("dir/deep/fresh", []byte("fresh"), 0o644)
			_ = tree.Remove("dir/deep/fresh")
			return nil
		})
		work(func() []byte {
			_ = tree.MkdirAll("dir/deep/made/more", 0o755)
			_ = tree.RemoveAll("dir/deep/made")
			_ = tree.RemoveAll("dir/deep")
			return nil
		})
		work(func() []byte {
			_ = tree.Rename("secret", "dir/deep/secret")
			_ = tree.Rename("dir/deep/secret", "spare/deep/taken")
			entries, _ := tree.ReadDir("dir/deep")
			for _, e := range entries {
				_, _ = e.Info()
			}
			return nil
		})

		at := func(name string) string { return filepath.Join(ws, filepath.FromSlash(name)) }
		for i := range swaps {
			switch i % 6 {
			case 0: // a folder for a link out
				_ = os.Rename(at("dir"), at("kept"))
				_ = os.Symlink(out, at("dir"))
			case 1: // and back
				_ = os.Remove(at("dir"))
				_ = os.Rename(at("kept"), at("dir"))
			case 2: // the inner folder
				_ = os.RemoveAll(at("dir/deep"))
				_ = os.Symlink("../../out/deep", at("dir/deep"))
			case 3:
				_ = os.Remove(at("dir/deep"))
				_ = os.Mkdir(at("dir/deep"), 0o755)
				_ = os.WriteFile(at("dir/deep/secret"), []byte("inside"), 0o644)
			case 4: // the file
				_ = os.Remove(at("secret"))
				if i%4 == 0 {
					_ = syscall.Mkfifo(at("secret"), 0o644)
				} else {
					_ = os.Symlink(filepath.Join(out, "secret"), at("secret"))
				}
			case 5:
				_ = os.Remove(at("secret"))
				_ = os.WriteFile(at("secret"), []byte("inside"), 0o644)
			}
		}
		over.Store(true)
		workers.Wait()
		intact()
	})
}

func TestTreeKeepsPermissions(t *testing.T) {
	ws := t.TempDir()
	tree, err := OpenTree(ws)
	mustDo(t, err)
	defer tree.Close()
	mustDo(t, tree.WriteFile("a", nil, 0o600))
	mustDo(t, tree.WriteFile("a", nil, 0o640))
	if info, err := tree.Lstat("a"); err != nil || info.Mode() != fs.FileMode(0o640) {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}
