//go:build unix

package search

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFIFOs puts FIFOs where notes and old conversations are looked for. Who
// opened one would wait for ever.
func TestFIFOs(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	old := filepath.Join(ws, "sessions")
	x := &Index{opt: Options{Workspace: ws, OldSessions: []string{old}}, dirs: map[string]logDir{}}
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"memory", "USER.md", "sessions/a.jsonl"} {
		if err := syscall.Mkfifo(filepath.Join(ws, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found, _ := x.notes(); len(found) > 0 { // an error is fine, too
		t.Errorf("found %v", found)
	}
	found := func(in folder) {
		if found, err := x.logs("o0/", in); err != nil || len(found) > 0 {
			t.Errorf("found %v, %v", found, err)
		}
	}
	if err := x.oldLogs(old, found); err != nil {
		t.Error(err)
	}
	if err := x.oldLogs(filepath.Join(ws, "memory"), found); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a FIFO instead of the folder: %v", err)
	}
	for _, label := range []string{"n/USER.md", "n/memory/MEMORY.md", "o0/a.jsonl"} {
		if f, err := x.openSource(t.Context(), label); err == nil {
			t.Errorf("%s was opened: %v", label, f.Close())
		}
	}
	// One FIFO does not hide the rest.
	if err := errors.Join(os.Remove(filepath.Join(ws, "USER.md")), os.WriteFile(filepath.Join(ws, "USER.md"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if found, err := x.notes(); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
}
