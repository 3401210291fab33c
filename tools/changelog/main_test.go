package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository is a folder with a changelog and changes.
func repository(t *testing.T, log string, changes map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "docs", "changes"), 0o700); err != nil {
		t.Fatal(err)
	}
	changes["README.md"] = "# Changes since the last version\n"
	for name, text := range changes {
		if err := os.WriteFile(filepath.Join(root, "docs", "changes", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

const first = "# Changelog\n\nNewest first.\n\n## 0.1.0 (not released yet)\n\n### What it does\n\n- It chats.\n"

func TestRun(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	root := repository(t, first, map[string]string{
		"b.md": "# Fixed: an answer shown twice\n\nIt was shown twice.\nIt is shown once.\n",
		"a.md": "# New: a page about costs\n\nThere was none.\n",
	})
	if err := run(root, "0.1.0", day); err != nil {
		t.Fatal(err)
	}
	const want = "# Changelog\n\nNewest first.\n\n## 0.1.0 (2026-11-30)\n\n### What it does\n\n- It chats.\n" +
		"\n### New\n\n- **a page about costs.** There was none.\n" +
		"\n### Fixed\n\n- **an answer shown twice.** It was shown twice.\n  It is shown once.\n"
	got, _ := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	left, _ := filepath.Glob(filepath.Join(root, "docs", "changes", "*"))
	if len(left) != 1 || filepath.Base(left[0]) != "README.md" {
		t.Errorf("left: %v", left)
	}

	if err := run(root, "0.1.0", day); err == nil {
		t.Error("a version is released twice")
	}
	if err := run(root, "0.2.0", day); err == nil {
		t.Error("a version without a change is released")
	}
	change := filepath.Join(root, "docs", "changes", "c.md")
	if err := os.WriteFile(change, []byte("# Security: a link that led out\n\nIt led out.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(root, "0.2.0", day); err != nil {
		t.Fatal(err)
	}
	got, _ = os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if !strings.HasPrefix(string(got), "# Changelog\n\nNewest first.\n\n## 0.2.0 (2026-11-30)\n\n### Security\n\n- **a link that led out.** It led out.\n\n## 0.1.0 (2026-11-30)\n") {
		t.Errorf("got:\n%s", got)
	}
}

// What cannot be joined changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{"no kind": "# An answer\n\nText.\n", "no text": "# New: a page\n"} {
		root := repository(t, first, map[string]string{"a.md": change})
		if err := run(root, "0.1.0", time.Now()); err == nil {
			t.Errorf("%s: it is joined", name)
		}
		if got, _ := os.ReadFile(filepath.Join(root, "CHANGELOG.md")); string(got) != first {
			t.Errorf("%s: the changelog is now:\n%s", name, got)
		}
	}
	if err := run(repository(t, first, map[string]string{}), "1.0", time.Now()); err == nil {
		t.Error("1.0 is a version")
	}
}
