package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a repository in the folder that guests write to, as one of
// them could, whose settings run steal.sh.
func (o *owner) repository(settings, attributes string) {
	o.t.Helper()
	const share = ".nanobot/workspace/shared"
	dir := filepath.Join(o.home, share)
	o.put(share+"/steal.sh", "#!/bin/sh\ncd \"$(git rev-parse --show-toplevel 2>/dev/null || echo .)\"\n"+
		"touch "+o.home+"/.nanobot/workspace/ran\ncp "+o.home+"/.nanobot/workspace/USER.md "+dir+"/stolen\nexit 0\n", 0o700)
	o.put(share+"/a.txt", "one\n", 0o600)
	git := func(args ...string) {
		cmd := exec.CommandContext(o.t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			o.t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", "a.txt")
	git("commit", "-qm", "x")
	o.put(share+"/a.txt", "two\n", 0o600)
	if attributes != "" {
		o.put(share+"/.gitattributes", attributes, 0o600)
	}
	config := filepath.Join(dir, ".git", "config")
	old, err := os.ReadFile(config)
	if err != nil {
		o.t.Fatal(err)
	}
	o.put(share+"/.git/config", string(old)+strings.ReplaceAll(settings, "STEAL", dir+"/steal.sh"), 0o600)
	o.put(share+"/.git/hooks/post-index-change", "#!/bin/sh\n"+dir+"/steal.sh\n", 0o700)
}

// A repository that a guest can write runs programs in a command of the owner
// that nobody can be asked about, such as that of a job. Settings with a fixed
// name have no effect; the others take nothing to where the guest is.
func TestForeignRepository(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings, attributes string
		command              string
		neutral              bool // the program does not even start
	}{
		"status asks a monitor":     {"[core]\n\tfsmonitor = STEAL\n\thooksPath = /nonexistent\n", "", "git status", true},
		"diff asks a monitor":       {"[core]\n\tfsmonitor = STEAL\n\thooksPath = /nonexistent\n", "", "git diff", true},
		"a signature is checked":    {"[log]\n\tshowSignature = true\n[gpg]\n\tprogram = STEAL\n", "", "git log", true},
		"a remote":                  {"[core]\n\tsshCommand = STEAL\n[remote \"o\"]\n\turl = ssh://example.org/x\n", "", "git ls-remote o", true},
		"a helper for words":        {"[remote \"o\"]\n\turl = ext::STEAL\n[protocol \"ext\"]\n\tallow = always\n", "", "git ls-remote o", true},
		"an editor":                 {"[core]\n\teditor = STEAL\n\thooksPath = /nonexistent\n", "", "git -c user.name=a -c user.email=a@b commit -a", true},
		"a pager":                   {"[core]\n\tpager = STEAL\n", "", "git -p log", true},
		"a driver of a diff":        {"[diff \"x\"]\n\ttextconv = STEAL\n", "* diff=x\n", "git diff", false},
		"a command for diffs":       {"[diff]\n\texternal = STEAL\n", "", "git diff", false},
		"a filter":                  {"[filter \"x\"]\n\tclean = STEAL\n", "* filter=x\n", "git status", false},
		"an alias":                  {"[alias]\n\tx = !STEAL\n", "", "git x", false},
		"a hook":                    {"", "", "touch a.txt; git status; git add a.txt", false},
		"included settings":         {"[include]\n\tpath = ../more\n", "", "printf '[alias]\\n\\tx = !./steal.sh\\n' > more; git x", false},
		"no git at all":             {"", "", "sh steal.sh; sh -c ./steal.sh", false},
		"a build file":              {"", "", "printf 'all:\\n\\t./steal.sh\\n' > /tmp/m; make -f /tmp/m", false},
		"a new name for the folder": {"", "", "cd ..; mv shared old; mkdir -p shared; cp USER.md shared/stolen", false},
		"a link to the folder":      {"", "", "cd ..; ln -s shared l; cp USER.md l/stolen; ln USER.md shared/stolen", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwner(t, "")
			o.conf = `{"agents":{"defaults":{"guestShare":"shared"}},"tools":{"exec":{"sandbox":"auto","network":"none"}}}`
			o.put(".nanobot/workspace/USER.md", "geheim\n", 0o600)
			o.repository(tt.settings, tt.attributes)
			o.start()
			got := o.run("cd shared && { " + tt.command + "; }")
			if _, err := os.Stat(filepath.Join(o.home, ".nanobot/workspace/shared/stolen")); err == nil {
				t.Errorf("it took the owner's file to where guests read it: %s", got)
			}
			if _, err := os.Stat(filepath.Join(o.home, ".nanobot/workspace/ran")); tt.neutral && err == nil {
				t.Errorf("it ran: %s", got)
			}
		})
	}
}

// Without a sandbox the settings with fixed names have no effect either, and git
// goes on working, also with settings that the owner puts into the environment.
func TestForeignRepositoryWithoutSandbox(t *testing.T) {
	t.Parallel()
	o := newOwner(t, "")
	o.conf = `{"agents":{"defaults":{"guestShare":"shared"}},"tools":{"exec":{"sandbox":"none","allowedEnvKeys":["GIT_CONFIG_COUNT","GIT_CONFIG_KEY_0","GIT_CONFIG_VALUE_0"]}}}`
	o.env = append(o.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=ada")
	o.put(".nanobot/workspace/USER.md", "geheim\n", 0o600)
	o.repository("[core]\n\tfsmonitor = STEAL\n\thooksPath = /nonexistent\n", "")
	o.start()
	got := o.run("cd shared && git status && git config user.name")
	if _, err := os.Stat(filepath.Join(o.home, ".nanobot/workspace/shared/stolen")); err == nil {
		t.Errorf("it ran: %s", got)
	}
	if !strings.Contains(got, "modified:") || !strings.Contains(got, "ada") {
		t.Errorf("git does not work any more: %s", got)
	}
}
