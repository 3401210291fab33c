//go:build unix

package diskio

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A FIFO in place of a folder is an error at once, wherever a folder is opened.
func TestFolderIsPipe(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	fifo := filepath.Join(ws, "folder")
	mustDo(t, syscall.Mkfifo(fifo, 0o644))
	root, err := os.OpenRoot(ws)
	mustDo(t, err)
	t.Cleanup(func() { _ = root.Close() })
	jail, err := OpenJail(JailOptions{Workspace: ws, Restrict: true})
	mustDo(t, err)
	t.Cleanup(func() { _ = jail.Close() })
	file := filepath.Join(fifo, "a.txt")

	for name, open := range map[string]func() error{
		"OpenRoot": func() error { _, err := OpenRoot(fifo); return err },
		"OpenRootIn": func() error {
			_, err := OpenRootIn(root, "folder")
			return err
		},
		"OpenTree": func() error { _, err := OpenTree(fifo); return err },
		"Jail.Update": func() error {
			_, err := jail.Update(t.Context(), file, 9, func([]byte, fs.FileInfo) ([]byte, error) { return []byte("x"), nil })
			return err
		},
		"Jail.WriteAtomic": func() error { _, err := jail.WriteAtomic(t.Context(), file, []byte("x")); return err },
		"Jail.MkdirAll":    func() error { return jail.MkdirAll(file) },
		"Jail.Remove":      func() error { return jail.Remove(t.Context(), file, nil) },
		"Jail.ReadDir":     func() error { _, err := jail.ReadDir(fifo); return err },
		"Jail.At":          func() error { _, err := jail.At(Base{Dir: fifo}); return err },
		"OpenJail":         func() error { _, err := OpenJail(JailOptions{Workspace: fifo}); return err },
		"a jail's folder": func() error {
			j, err := OpenJail(JailOptions{Workspace: ws, Restrict: true, ReadOnly: []string{fifo}})
			if err != nil {
				return err
			}
			defer j.Close() //nolint:errcheck // nothing was written through it
			_, err = j.Stat(file)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan error, 1)
			go func() { done <- open() }()
			select {
			case err := <-done:
				if err == nil {
					t.Error("a FIFO was taken for a folder")
				}
			case <-time.After(5 * time.Second):
				w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0) // wakes who waits
				if err == nil {
					_ = w.Close()
				}
				t.Errorf("it waits for the FIFO; then %v", <-done)
			}
		})
	}
}
