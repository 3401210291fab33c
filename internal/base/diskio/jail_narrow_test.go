package diskio_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
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

// Files of an unlisted tree are there for who knows their names. A narrower jail
// may keep to the roots although the wider one does not.
func TestNarrowerUnlisted(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ws, media := filepath.Join(base, "ws"), filepath.Join(base, "media")
	for _, name := range []string{"ws/a.txt", "ws/inbox/b.txt", "media/chat/c.txt", "home.txt"} {
		p := filepath.Join(base, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wide, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, ReadOnly: []string{media}})
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	narrow := wide.Narrower(diskio.Narrow{Unlisted: []string{media, "inbox"}, Restrict: true})
	for _, c := range []struct {
		name         string
		dir          bool
		wide, narrow error
	}{
		{name: "a.txt"},
		{name: "inbox/b.txt"},
		{name: filepath.Join(media, "chat", "c.txt")},
		{name: ".", dir: true},
		{name: "inbox", dir: true, narrow: diskio.ErrProtected},
		{name: media, dir: true, narrow: diskio.ErrProtected},
		{name: filepath.Join(media, "chat"), dir: true, narrow: diskio.ErrProtected},
		{name: filepath.Join(base, "home.txt"), narrow: diskio.ErrOutside},
		{name: base, dir: true, narrow: diskio.ErrOutside},
	} {
		for j, want := range map[*diskio.Jail]error{wide: c.wide, narrow: c.narrow} {
			var err error
			if c.dir {
				_, err = j.ReadDir(c.name)
			} else if f, ferr := j.Open(c.name); ferr == nil {
				err = f.Close()
			} else {
				err = ferr
			}
			if !errors.Is(err, want) {
				t.Errorf("%s, narrower %v: %v, want %v", c.name, j == narrow, err, want)
			}
		}
	}
	d, err := narrow.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.OpenDir("inbox"); !errors.Is(err, diskio.ErrProtected) {
		t.Errorf("a walk enters an unlisted folder: %v", err)
	}
}
