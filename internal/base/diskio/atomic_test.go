package diskio_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, data := range []string{"one", "", strings.Repeat("x", 100_000)} {
		if err := diskio.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != data {
			t.Fatalf("read back %d bytes, %v; want %d", len(got), err, len(data))
		}
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, want 0600", fi.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("directory holds %v, %v; want only the file", entries, err)
	}
}

func TestWriteFileKeepsLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if err := diskio.WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(link); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", fi, err)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "new" {
		t.Errorf("target = %q, %v; want new", got, err)
	}
}

func TestWriteFileFailureLeavesOld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := diskio.WriteFile(path, []byte("x"), 0o600); err == nil {
		t.Fatal("a directory was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("directory holds %v, %v; want no temporary file", entries, err)
	}
}

func TestCopyFileRefusesExisting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	if err := diskio.CopyFile(path, strings.NewReader("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := diskio.CopyFile(path, strings.NewReader("two"), 0o600); err == nil {
		t.Error("an existing file was overwritten")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "one" {
		t.Errorf("file = %q, %v; want one", got, err)
	}
}

func TestMkdirAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := diskio.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		t.Errorf("stat = %v, %v; want a directory", fi, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := diskio.MkdirAll(filepath.Join(dir, "f"), 0o700); err == nil {
		t.Error("a file passed for a directory")
	}
}
