//go:build unix

package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

// A pipe in place of a file is refused: to read from it would be to wait for
// ever, and what is written to it is gone.
func TestPipe(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	for _, name := range []string{"x.jsonl", "x.json"} {
		must(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	s := disk.Open(dir, nil)
	l, err := s.Log(ctx, "x.jsonl")
	must(t, err)
	defer l.Close()
	_, infoErr := l.Info(ctx)
	_, _, docErr := s.Doc(ctx, "x.json")
	_, putErr := s.Put(ctx, "x.json", []byte("{}"), store.Missing, true)
	for what, err := range map[string]error{
		"Info":    infoErr,
		"Append":  l.Append(ctx, 0, []byte("1\n"), true),
		"Replace": l.Replace(ctx, -1, []byte("1\n")),
		"Archive": s.Archive(ctx, "x.jsonl", "y.jsonl", 0),
		"Doc":     docErr,
		"Put":     putErr,
	} {
		if err == nil {
			t.Errorf("%s works with a pipe", what)
		}
	}
}

// Files that people linked to another place stay linked, and an archive is a
// file of its own.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir, other, ctx := t.TempDir(), t.TempDir(), t.Context()
	for _, name := range []string{"x.jsonl", "x.json"} {
		must(t, os.WriteFile(filepath.Join(other, name), []byte("1\n"), 0o600))
		must(t, os.Symlink(filepath.Join(other, name), filepath.Join(dir, name)))
	}
	target := func(name, want string) {
		t.Helper()
		if data, err := os.ReadFile(filepath.Join(other, name)); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v; want %q", name, data, err, want)
		}
		if fi, err := os.Lstat(filepath.Join(dir, name)); err != nil || fi.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s is no link any more: %v, %v", name, fi.Mode(), err)
		}
	}
	s := disk.Open(dir, nil)
	_, err := s.Put(ctx, "x.json", []byte("2\n"), store.Any, true)
	must(t, err)
	target("x.json", "2\n")
	_, err = s.Put(ctx, "x.json", []byte("3\n"), store.Any, false)
	must(t, err)
	target("x.json", "3\n")

	l, err := s.Log(ctx, "x.jsonl")
	must(t, err)
	must(t, l.Append(ctx, 2, []byte("2\n"), true))
	must(t, s.Archive(ctx, "x.jsonl", "archive/x.jsonl", 4))
	must(t, l.Replace(ctx, 4, []byte("3\n")))
	target("x.jsonl", "3\n")
	must(t, l.Append(ctx, 2, []byte("4\n"), true))
	target("x.jsonl", "3\n4\n")
	must(t, l.Close())
	if data, err := os.ReadFile(filepath.Join(dir, "archive", "x.jsonl")); err != nil || string(data) != "1\n2\n" {
		t.Errorf("the archive holds %q, %v", data, err)
	}
}

// A log that may not be written says so, and not that it is broken.
func TestMayNotWrite(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	dir, ctx := t.TempDir(), t.Context()
	must(t, os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte("1\n"), 0o400))
	l, err := disk.Open(dir, nil).Log(ctx, "x.jsonl")
	must(t, err)
	_, err = l.Info(ctx)
	must(t, err)
	if err := l.Append(ctx, 2, []byte("2\n"), false); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Append: %v", err)
	}
	must(t, l.Close())
}
