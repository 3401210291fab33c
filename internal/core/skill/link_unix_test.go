//go:build unix

package skill_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/skill"
)

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	outside, ws := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "---\ndescription: leaked\n---\nx")
	write(t, ws, "real", "---\ndescription: real\n---\nx")
	write(t, ws, "filelink", "x")
	skills := filepath.Join(ws, "skills")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(skills, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("real", "inside")
	link(filepath.Join(outside, "skills", "secret"), "outside")
	link("loop", "loop")
	link("nowhere", "dangling")
	if err := os.Remove(filepath.Join(skills, "filelink", "SKILL.md")); err != nil {
		t.Fatal(err)
	}
	link(filepath.Join(outside, "skills", "secret", "SKILL.md"), "filelink/SKILL.md")
	// A pipe without a writer must not stop the prompt.
	if err := os.Mkdir(filepath.Join(skills, "pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(skills, "pipe", "SKILL.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := options(ws)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	lib := skill.Open(o)
	for range 3 {
		if diff := cmp.Diff([]string{"real"}, names(lib.List())); diff != "" {
			t.Errorf("List (-want +got):\n%s", diff)
		}
	}
	link(filepath.Join(outside, "skills", "secret"), "late")
	for range 3 {
		lib.List()
	}
	for _, name := range []string{"inside", "outside", "filelink", "pipe", "late"} {
		if got := strings.Count(log.String(), "skill="+name+" "); got != 1 {
			t.Errorf("%s was logged %d times, want once:\n%s", name, got, log.String())
		}
	}
	if want := "inside: is a link; nanobot does not follow links inside a workspace"; !strings.Contains(log.String(), want) {
		t.Errorf("the log does not say %q:\n%s", want, log.String())
	}
}

// A folder of skills that is a link is not looked into, which one line says.
func TestLinkedFolderOfSkills(t *testing.T) {
	t.Parallel()
	outside, ws := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "---\ndescription: canary\n---\nx")
	if err := os.Symlink(filepath.Join(outside, "skills"), filepath.Join(ws, "skills")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := options(ws)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	lib := skill.Open(o)
	for range 3 {
		if got := names(lib.List()); len(got) > 0 {
			t.Errorf("List = %q", got)
		}
	}
	if got := strings.Count(log.String(), "skills: is a link"); got != 1 {
		t.Errorf("it was logged %d times, want once:\n%s", got, log.String())
	}

	place := skill.Place{Workspace: ws, Ledger: disk.Open(t.TempDir(), nil), Force: true}
	if err := skill.Remove(place, "secret"); err == nil {
		t.Error("removed a skill through the link")
	}
	if _, err := skill.Scaffold(place, "fresh", "x"); err == nil {
		t.Error("made a skill through the link")
	}
	if list, err := os.ReadDir(filepath.Join(outside, "skills")); err != nil || len(list) != 1 {
		t.Errorf("outside are %v, %v", list, err)
	}
}
