package diskio_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// A narrower jail refuses what the wider one does and more, apart from
// exceptions, and gives way to writers of the wider one.
func TestNarrower(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for _, name := range []string{"open.txt", "key", "soul.md", "memory/facts.md", "memory/mine/facts.md"} {
		p := filepath.Join(ws, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("memory/facts.md", filepath.Join(ws, "link.md")); err != nil {
		t.Skip("no links here")
	}
	if err := os.Symlink("../facts.md", filepath.Join(ws, "memory", "mine", "link.md")); err != nil {
		t.Fatal(err)
	}
	wide, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Restrict: true, Protected: []string{"key"}})
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	narrow := wide.Narrower(diskio.Narrow{Protected: []string{"memory"}, ProtectedWrite: []string{"soul.md"}, Except: []string{"memory/mine"}})
	read := func(j *diskio.Jail, name string) error {
		f, err := j.Open(name)
		if err != nil {
			return err
		}
		_, err = io.ReadAll(f)
		return errors.Join(err, f.Close())
	}
	write := func(j *diskio.Jail, name string) error {
		_, err := j.WriteAtomic(t.Context(), name, []byte("new"))
		return err
	}
	for _, c := range []struct {
		name               string
		do                 func(*diskio.Jail, string) error
		inWide, inNarrower bool
	}{
		{"open.txt", read, true, true},
		{"open.txt", write, true, true},
		{"key", read, false, false},
		{"memory/facts.md", read, true, false},
		{"memory/new.md", write, true, false},
		{"link.md", read, true, false},
		{"memory/mine/facts.md", read, true, true},
		{"memory/mine/link.md", read, true, false},
		{"memory/mine/../facts.md", read, true, false},
		{"soul.md", read, true, true},
		{"soul.md", write, true, false},
	} {
		for j, want := range map[*diskio.Jail]bool{wide: c.inWide, narrow: c.inNarrower} {
			err := c.do(j, c.name)
			if want != (err == nil) || err != nil && !errors.Is(err, diskio.ErrProtected) {
				t.Errorf("%s, narrower %v: %v", c.name, j == narrow, err)
			}
		}
	}
	for j, want := range map[*diskio.Jail]int{wide: 1, narrow: 0} {
		entries, err := j.ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range entries {
			if e.Name() == "memory" {
				n++
			}
			if e.Name() == "key" {
				t.Error("the key is listed")
			}
		}
		if n != want {
			t.Errorf("memory is listed %d times, want %d", n, want)
		}
	}
}
