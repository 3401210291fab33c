package guard

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
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
	tree, err := diskio.OpenTree(ws)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	got := repositories(tree)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a/.git", "a/sub/.git", "b/c/d/.git"}, got); diff != "" {
		t.Errorf("repositories (-want +got):\n%s", diff)
	}
	for i := range 2 * repositoryFolders {
		if err := os.Mkdir(filepath.Join(ws, "0"+strings.Repeat("x", i%200)+string(rune('a'+i/200))), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(repositories(tree)); got > 3 {
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
	paths, done := s.repositories(ws)
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

// Of a folder inside the workspace only what git runs is sealed; of one around
// the workspace what the agent follows is, too.
func TestSealOfAFolder(t *testing.T) {
	t.Parallel()
	ws := filepath.Join(t.TempDir(), "ws")
	makeRepositories(t, ws, "project", "project/sub", "other")
	if err := os.WriteFile(filepath.Join(ws, "AGENTS.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &seal{workspace: ws}
	names := func(paths []string) (out []string) {
		for _, p := range paths {
			rel, _ := filepath.Rel(ws, p)
			out = append(out, rel)
		}
		return out
	}

	paths, done := s.repositories(filepath.Join(ws, "project"))
	want := []string{
		"project/sub/.git/hooks", "project/sub/.git/config", "project/sub/.git/config.worktree",
		"project/.git/hooks", "project/.git/config", "project/.git/config.worktree",
	}
	if diff := cmp.Diff(want, names(paths)); diff != "" {
		t.Errorf("sealed (-want +got):\n%s", diff)
	}
	done()
	if paths, unsealed := s.followed(filepath.Join(ws, "project")); len(paths) > 0 || unsealed {
		t.Errorf("a folder inside: %q, unsealed %v", paths, unsealed)
	}

	paths, unsealed := s.followed(filepath.Dir(ws))
	if diff := cmp.Diff([]string{"AGENTS.md", "memory", "skills", "prompts"}, names(paths)); diff != "" || unsealed {
		t.Errorf("sealed around the workspace (-want +got), unsealed %v:\n%s", unsealed, diff)
	}
}

// What the agent follows cannot be sealed where a link stands, and then nothing
// that a command could have put there counts as the owner's.
func TestSealBehindALink(t *testing.T) {
	t.Parallel()
	ws, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(ws, "skills")); err != nil {
		t.Fatal(err)
	}
	s := &seal{workspace: ws}
	if paths, unsealed := s.followed(ws); !unsealed || slices.Contains(paths, filepath.Join(ws, "skills")) {
		t.Errorf("sealed %q, unsealed %v", paths, unsealed)
	}
	s.workspace = filepath.Join(ws, "none")
	if paths, unsealed := s.followed(s.workspace); !unsealed || len(paths) > 0 {
		t.Errorf("a workspace that cannot be opened: sealed %q, unsealed %v", paths, unsealed)
	}
}

// A folder of hooks that stands there for the seal stays until the last command
// has ended, whichever that is.
func TestSealOfTwoCommands(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	makeRepositories(t, ws, "project")
	hooks := filepath.Join(ws, "project", ".git", "hooks")
	s := &seal{workspace: ws}
	_, first := s.repositories(ws)
	_, second := s.repositories(filepath.Join(ws, "project"))
	first()
	first() // a command ends once
	if _, err := os.Stat(hooks); err != nil {
		t.Errorf("a command is still running: %v", err)
	}
	second()
	if _, err := os.Stat(hooks); !os.IsNotExist(err) {
		t.Errorf("no command is running: %v", err)
	}
}

// Only the way to the workspace may contain links. What a command has put in the
// place of a folder inside is not followed, when the seal begins or when it ends.
func TestSealOfALinkedFolder(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ws, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
	makeRepositories(t, ws, "project")
	makeRepositories(t, out, "")
	project, hooks := filepath.Join(ws, "project"), filepath.Join(out, ".git", "hooks")
	link := func(old, name string) {
		t.Helper()
		if err := os.Symlink(old, name); err != nil {
			t.Fatal(err)
		}
	}

	link(ws, filepath.Join(base, "chosen"))
	s := &seal{workspace: filepath.Join(base, "chosen")}
	paths, done := s.repositories(s.workspace)
	if len(paths) == 0 {
		t.Error("nothing is sealed in a workspace that a link leads to")
	}
	done()
	if _, err := os.Stat(filepath.Join(project, ".git", "hooks")); !os.IsNotExist(err) {
		t.Errorf("the folder that stood there for the seal: %v", err)
	}

	s = &seal{workspace: ws}
	link(out, filepath.Join(ws, "link"))
	paths, done = s.repositories(filepath.Join(ws, "link"))
	if _, err := os.Stat(hooks); len(paths) > 0 || !os.IsNotExist(err) {
		t.Errorf("sealed behind a link: %q; %v", paths, err)
	}
	done()

	_, done = s.repositories(project)
	if err := errors.Join(os.Mkdir(hooks, 0o700), os.RemoveAll(project)); err != nil { // empty, so that a removal would succeed
		t.Fatal(err)
	}
	link(out, project)
	done()
	if _, err := os.Stat(hooks); err != nil {
		t.Errorf("a folder outside was removed: %v", err)
	}
}

// A folder of hooks is not made behind a link.
func TestHooksAreNotMadeBehindALink(t *testing.T) {
	t.Parallel()
	ws, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(ws, ".git")); err != nil {
		t.Fatal(err)
	}
	s := &seal{workspace: ws}
	paths, done := s.repositories(ws)
	if len(paths) > 0 {
		t.Errorf("sealed %q", paths)
	}
	done()
	if list, _ := os.ReadDir(outside); len(list) > 0 {
		t.Errorf("outside: %v", list)
	}
}

// A seal neither plants nor removes anything behind a link, whether it was there
// before or took the place of what the seal made.
func TestSealFollowsNoLink(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"AGENTS.md", "HEARTBEAT.md", "memory", "skills"} {
		base := t.TempDir()
		ws, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
		for _, dir := range []string{ws, out} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(filepath.Join(out, "planted"), filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
		s := &seal{workspace: ws}
		if paths, _ := s.followed(ws); slices.Contains(paths, filepath.Join(ws, name)) {
			t.Errorf("%s is a link and sealed: %q", name, paths)
		}
		if list, err := os.ReadDir(out); err != nil || len(list) > 0 {
			t.Errorf("%s: outside are %v, %v", name, list, err)
		}
	}

	base := t.TempDir()
	ws, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
	makeRepositories(t, ws, "project")
	if err := os.MkdirAll(filepath.Join(out, "hooks"), 0o700); err != nil { // empty, so that a removal would succeed
		t.Fatal(err)
	}
	s := &seal{workspace: ws}
	_, done := s.repositories(ws)
	for _, change := range []error{
		os.RemoveAll(filepath.Join(ws, "project", ".git")),
		os.Symlink(out, filepath.Join(ws, "project", ".git")),
	} {
		if change != nil {
			t.Fatal(change)
		}
	}
	done()
	if _, err := os.Stat(filepath.Join(out, "hooks")); err != nil {
		t.Errorf("a folder outside was removed: %v", err)
	}
}
