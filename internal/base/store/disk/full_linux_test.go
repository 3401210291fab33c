package disk_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

const fullEnv = "NANOBOT_DISKTEST_FULL"

// On a full disk every write fails as a whole: what was there stays, half a
// line is never left behind, and with room again everything works.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDiskChild$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), fullEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) || bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("this system gives no small disk: %v", err)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullDiskChild")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFullDiskChild is the process with a small disk.
func TestFullDiskChild(t *testing.T) {
	dir, ctx := os.Getenv(fullEnv), t.Context()
	if dir == "" {
		t.Skip("only for another test")
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Skip(err)
	}
	s := disk.Open(dir, nil)
	doc := []byte(`{"old":true}`)
	version, err := s.Put(ctx, "d/x.json", doc, store.Missing, true)
	must(t, err)
	l, err := s.Log(ctx, "l/x.jsonl")
	must(t, err)

	line := []byte(strings.Repeat("x", 10_000) + "\n")
	var size int64
	for err == nil {
		if err = l.Append(ctx, size, line, size%2 == 0); err == nil {
			size += int64(len(line))
		}
	}
	full := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	full("Append", err)
	full("Replace", l.Replace(ctx, size, bytes.Repeat(line, 5)))
	full("Archive", s.Archive(ctx, "l/x.jsonl", "l/archive/x.jsonl", size-int64(len(line))))
	big := bytes.Repeat([]byte("1"), 100_000)
	_, err = s.Put(ctx, "d/x.json", big, version, true)
	full("Put", err)
	_, err = s.Put(ctx, "d/x.json", big, store.Any, false)
	full("Put without sync", err)

	want := bytes.Repeat(line, int(size)/len(line))
	if got, err := os.ReadFile(filepath.Join(dir, "l", "x.jsonl")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the log has %d bytes, %v; %d were said to be safe", len(got), err, len(want))
	}
	if got, _, err := s.Doc(ctx, "d/x.json"); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("the document holds %.50q, %v", got, err)
	}
	for _, pattern := range []string{"*/*.tmp", "*/.*tmp*", "*/*/*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
			t.Errorf("%s was left behind", left)
		}
	}

	must(t, l.Replace(ctx, size, []byte("1\n"))) // small enough for what is left
	must(t, l.Append(ctx, 2, line, true))
	if _, err = s.Put(ctx, "d/x.json", big[:50_000], version, true); err != nil {
		t.Errorf("with room again: %v", err)
	}
	must(t, l.Close())
}
