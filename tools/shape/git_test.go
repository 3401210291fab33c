package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// history is a repository of a test.
type history struct {
	t    *testing.T
	root string
}

func newHistory(t *testing.T) *history {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	h := &history{t, t.TempDir()}
	h.git("", "init", "--quiet")
	return h
}

func (h *history) git(date string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", append([]string{"-C", h.root, "-c", "user.name=a", "-c", "user.email=a@b.example"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *history) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// commit writes a file, commits it on a day, and returns the commit.
func (h *history) commit(day, name, text string) string {
	h.t.Helper()
	h.write(name, text)
	h.git("", "add", "-A")
	h.git(day+"T12:00:00Z", "commit", "--quiet", "-m", "change "+name)
	return h.git("", "rev-parse", "--short", "HEAD")
}

func (h *history) choose(since string) choice {
	h.t.Helper()
	c, err := chooseCommit(h.t.Context(), h.root, since)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

const mainFile = "cmd/nanobot/main.go"

func TestChooseCommit(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	if c := h.choose(""); c.commit != "" || c.why == "" {
		t.Errorf("%+v was chosen without a commit", c)
	}
	h.commit("2026-01-01", "README.md", "soon")
	if c := h.choose(""); c.commit != "" || c.why == "" {
		t.Errorf("%+v was chosen without the program", c)
	}
	first := h.commit("2026-03-01", mainFile, "package main\n")
	if c := h.choose(""); c.commit != "" || c.why == "" {
		t.Errorf("%+v was chosen when the only commit with the program is the newest one", c)
	}

	second := h.commit("2026-03-20", mainFile, "package main // second\n")
	if c := h.choose(""); c.commit != first || c.date != "2026-03-01" {
		t.Errorf("%+v was chosen, want the first one with the program, %s", c, first)
	}
	h.commit("2026-04-10", mainFile, "package main // third\n")
	if c := h.choose(""); c.commit != first {
		t.Errorf("%+v was chosen, want %s: the other one is younger than a month", c, first)
	}
	h.commit("2026-04-21", mainFile, "package main // fourth\n")
	if c := h.choose(""); c.commit != second || c.date != "2026-03-20" {
		t.Errorf("%+v was chosen, want %s, which is a month old by now", c, second)
	}

	if c := h.choose(first); c.commit != first {
		t.Errorf("%+v was chosen, want %s, which was asked for", c, first)
	}
	if c, err := chooseCommit(t.Context(), h.root, "gone"); err == nil {
		t.Errorf("%+v was chosen for a commit that is not there", c)
	}
}

func TestChooseCommitWithoutHistory(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.commit("2026-01-01", mainFile, "package main\n")
	h.commit("2026-03-01", mainFile, "package main // second\n")

	t.Run("a folder of another repository", func(t *testing.T) {
		c, err := chooseCommit(t.Context(), filepath.Join(h.root, "cmd"), "")
		if err != nil || c.commit != "" || c.why == "" {
			t.Errorf("%+v was chosen, with the error %v", c, err)
		}
	})
	t.Run("no repository", func(t *testing.T) {
		c, err := chooseCommit(t.Context(), t.TempDir(), "")
		if err != nil || c.commit != "" || c.why == "" {
			t.Errorf("%+v was chosen, with the error %v", c, err)
		}
	})
	t.Run("a shallow clone", func(t *testing.T) {
		shallow := filepath.Join(t.TempDir(), "shallow")
		h.git("", "clone", "--quiet", "--depth=1", "file://"+filepath.ToSlash(h.root), shallow)
		c, err := chooseCommit(t.Context(), shallow, "")
		if err != nil || c.commit != "" || !strings.Contains(c.why, "shorter than a month") {
			t.Errorf("%+v was chosen, with the error %v", c, err)
		}
	})
}

func TestReadCommit(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.write("internal/a/testdata/b.go", "not code")
	h.write("README.md", "not code")
	old := h.commit("2026-01-01", mainFile, "package main\n")
	h.commit("2026-01-02", mainFile, "package main // second\n")
	h.write(mainFile, "package main // third\n")

	files, err := readCommit(t.Context(), h.root, old)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || files[0] != (file{mainFile, "package main\n"}) {
		t.Errorf("the files are %+v, want the one with code as it was", files)
	}
	if _, err := readCommit(t.Context(), h.root, "gone"); err == nil {
		t.Error("no error for a commit that is not there")
	}
}
