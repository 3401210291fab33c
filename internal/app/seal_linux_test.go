package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/sandbox"
)

// makeRepositories makes folders as git does, without git.
func makeRepositories(t *testing.T, workspace string, names ...string) {
	t.Helper()
	for _, name := range names {
		dir := filepath.Join(workspace, name, ".git")
		if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config"), []byte("[core]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	makeRepositories(t, ws, "", "a", "a/sub", "b/c/d", "b/c/d/e", "node_modules/x", ".cache/y")
	if err := os.Symlink("a", filepath.Join(ws, "link")); err != nil {
		t.Fatal(err)
	}
	got := repositories(ws)
	for i := range got {
		got[i], _ = filepath.Rel(ws, got[i])
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a/.git", "a/sub/.git", "b/c/d/.git"}, got); diff != "" {
		t.Errorf("repositories (-want +got):\n%s", diff)
	}
	for i := range 2 * repositoryFolders {
		if err := os.Mkdir(filepath.Join(ws, "0"+strings.Repeat("x", i%200)+string(rune('a'+i/200))), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(repositories(ws)); got > 3 {
		t.Errorf("%d repositories among many folders", got)
	}
}

// TestSealedRepositories tries to plant a program that git would run.
func TestSealedRepositories(t *testing.T) {
	t.Parallel()
	box, err := sandbox.Open(t.Context(), sandbox.Options{})
	if err != nil || !box.Level().MountNS {
		t.Skipf("this machine has no mount namespaces: %v", err)
	}
	ws := t.TempDir()
	makeRepositories(t, ws, "project")
	s := &seal{workspace: ws}
	paths, done, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `cd project
echo x >.git/hooks/pre-commit; echo x >.git/config; rm -rf .git/config; mv .git/hooks .git/h; mv .git other; mkdir .git
echo fine >.git/objects/new`)
	cmd.Dir, cmd.Env = ws, []string{"PATH=/usr/bin:/bin"}
	cleanup, err := box.Wrap(cmd, sandbox.Profile{Workspace: ws, ReadOnly: paths, ReadWrite: pins(paths)})
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	cleanup()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	git := filepath.Join(ws, "project", ".git")
	if hooks, err := os.ReadDir(filepath.Join(git, "hooks")); err != nil || len(hooks) > 0 {
		t.Errorf("hooks: %v, %v; %s", hooks, err, out)
	}
	if config, err := os.ReadFile(filepath.Join(git, "config")); string(config) != "[core]\n" {
		t.Errorf("config: %q, %v; %s", config, err, out)
	}
	if _, err := os.Stat(filepath.Join(git, "objects", "new")); err != nil {
		t.Errorf("the rest of the repository: %v; %s", err, out)
	}
	done()
	if _, err := os.Stat(filepath.Join(git, "hooks")); !os.IsNotExist(err) {
		t.Errorf("the folder that stood there for the seal: %v", err)
	}
}

// Of a folder inside the workspace only what git runs is sealed, and nothing is
// put there for it; of one around the workspace all of that is, too.
func TestSealOfAFolder(t *testing.T) {
	t.Parallel()
	ws := filepath.Join(t.TempDir(), "ws")
	makeRepositories(t, ws, "project", "project/sub", "other")
	s := &seal{workspace: ws}
	paths, done, err := s.beginIn(filepath.Join(ws, "project"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range paths {
		rel, _ := filepath.Rel(ws, p)
		got = append(got, rel)
	}
	want := []string{
		"project/sub/.git/hooks", "project/sub/.git/config", "project/sub/.git/config.worktree",
		"project/.git/hooks", "project/.git/config", "project/.git/config.worktree",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sealed (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(ws, "AGENTS.md")); err == nil {
		t.Error("a file stands there for nothing")
	}
	done()
	paths, done, err = s.beginIn(filepath.Dir(ws))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AGENTS.md", "memory", "other/.git/hooks"} {
		if !slices.Contains(paths, filepath.Join(ws, name)) {
			t.Errorf("%s is not sealed", name)
		}
	}
	done()
}
