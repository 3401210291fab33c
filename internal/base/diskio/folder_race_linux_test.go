package diskio_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// TestFolderBecomesFIFO opens a folder again and again, which somebody else
// swaps with a FIFO. Who opens the FIFO would wait for ever; here the other one
// notices, and lets it go on.
func TestFolderBecomesFIFO(t *testing.T) {
	t.Parallel()
	const rounds = 1000
	ways := map[string]func(t *testing.T, base string) func(){
		"OpenTree": func(_ *testing.T, base string) func() {
			return func() {
				if tree, err := diskio.OpenTree(filepath.Join(base, "d")); err == nil {
					_ = tree.Close()
				}
			}
		},
		"OpenTreeAt": func(_ *testing.T, base string) func() {
			return func() {
				if tree, err := diskio.OpenTreeAt(filepath.Join(base, "d")); err == nil {
					_ = tree.Close()
				}
			}
		},
		"Tree": func(t *testing.T, base string) func() {
			tree, err := diskio.OpenTree(base)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tree.Close() })
			return func() {
				_, _ = tree.ReadDir("d")
				_, _ = tree.ReadFile("d/file", 10)
				_ = tree.WriteFile("d/file", []byte("x"), 0o600)
			}
		},
		"Jail": func(t *testing.T, base string) func() {
			jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: base, Restrict: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = jail.Close() })
			return func() {
				_, _ = jail.WriteAtomic(t.Context(), "d/file", []byte("x"))
				_, _ = jail.Stat("d/file")
				if inner, err := jail.At(diskio.Base{Dir: filepath.Join(base, "d"), Only: true}); err == nil {
					_, _ = inner.Stat("file")
					_ = inner.Close()
				}
			}
		},
		"OpenJail": func(_ *testing.T, base string) func() {
			return func() {
				if jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: filepath.Join(base, "d"), Restrict: true}); err == nil {
					_, _ = jail.Stat("file")
					_ = jail.Close()
				}
			}
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			d, p := filepath.Join(base, "d"), filepath.Join(base, "p")
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(p, 0o600); err != nil {
				t.Fatal(err)
			}
			open := way(t, base)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range rounds {
					open()
				}
			}()
			waited := 0
			for over := false; !over; {
				if err := unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, p, unix.RENAME_EXCHANGE); err != nil {
					t.Errorf("this disk cannot swap names: %v", err)
					<-done
					return
				}
				for _, name := range []string{d, p} {
					// Succeeds only if somebody has the FIFO open for reading.
					if fd, err := unix.Open(name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
						waited++
						_ = unix.Close(fd)
					}
				}
				select {
				case <-done:
					over = true
				default:
				}
			}
			if waited > 0 {
				t.Errorf("the FIFO was opened %d times", waited)
			}
		})
	}
}
