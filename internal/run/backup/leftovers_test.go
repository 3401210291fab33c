package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two restores within a second both keep what was in the way, and what a killed
// one has unpacked is removed.
func TestRestoreTwice(t *testing.T) {
	t.Parallel()
	_, l := oldHome(t)
	file, _ := writeBackup(t, l, false)
	b := openBackup(t, file)
	to := t.TempDir()
	plant(t, to, map[string]string{"config.json": "{}", ".restore-20010101-000000/sessions/s": "killed", ".restore-mine": "not ours"})
	o := RestoreOptions{Config: filepath.Join(to, "config.json"), Force: true, Now: time.Unix(1e9, 0)}
	var aside []string
	for range 3 {
		r, err := b.Restore(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		aside = append(aside, r.Aside[0])
	}
	if len(aside) != 3 || aside[0] == aside[1] || aside[1] == aside[2] {
		t.Errorf("put aside in %q", aside)
	}
	left, err := filepath.Glob(filepath.Join(to, ".restore-*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != ".restore-mine" {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// What a killed backup left is removed by the next one, unless it may be alive.
func TestBackupRemovesLeftovers(t *testing.T) {
	t.Parallel()
	_, l := oldHome(t)
	dir := t.TempDir()
	now := time.Unix(1e9, 0)
	for name, age := range map[string]time.Duration{
		"nanobot-backup-1.tar.gz.part": time.Hour,
		"nanobot-backup-2.tar.gz.part": time.Minute,
		"holiday.part":                 time.Hour,
	} {
		plant(t, dir, map[string]string{name: "x"})
		if err := os.Chtimes(filepath.Join(dir, name), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Create(t.Context(), filepath.Join(dir, "new.tar.gz"), Options{Config: l, Workspace: filepath.Join(l.DataDir, "workspace"), Now: now}); err != nil {
		t.Fatal(err)
	}
	got := harvest(t, dir)
	if _, dead := got["nanobot-backup-1.tar.gz.part"]; dead || len(got) != 3 {
		t.Errorf("after the next backup: %d files, the dead one among them: %v", len(got), dead)
	}
}
