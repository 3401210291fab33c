package guard

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// owner is somebody with a home folder, programs of their own and an agent.
type owner struct {
	t    *testing.T
	home string
	env  []string
	conf string
	g    *Guard
}

func newOwner(t *testing.T, profile string) *owner {
	t.Helper()
	if level := sandbox.Probe(t.Context(), sandbox.Options{}); !level.MountNS {
		t.Skipf("no mount namespaces here: %s", level)
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{t: t, home: home, conf: `{"tools":{"exec":{"sandbox":"auto","network":"none"}}}`}
	o.env = []string{"HOME=" + home, "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}
	o.put(".profile", profile, 0o600)
	return o
}

func (o *owner) put(name, content string, mode os.FileMode) {
	o.t.Helper()
	path := filepath.Join(o.home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		o.t.Fatal(err)
	}
}

func (o *owner) link(name, target string) {
	o.t.Helper()
	path := filepath.Join(o.home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		o.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		o.t.Fatal(err)
	}
}

// shell puts a copy of a real shell somewhere.
func (o *owner) shell(name string) {
	o.t.Helper()
	from, err := os.Open("/bin/sh")
	if err != nil {
		o.t.Fatal(err)
	}
	defer from.Close()
	data, err := io.ReadAll(from)
	if err != nil {
		o.t.Fatal(err)
	}
	o.put(name, string(data), 0o700)
}

func (o *owner) start() {
	o.t.Helper()
	o.put(".nanobot/config.json", o.conf, 0o600)
	data := filepath.Join(o.home, ".nanobot")
	l, err := config.Load(config.Options{Home: data, Env: append(o.env, "NANOBOT_HOME="+data)})
	if err != nil {
		o.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(o.t.Output(), nil))
	getenv := func(name string) string {
		for _, kv := range o.env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
	opts := Options{
		Policy: policyOf(l), Workspace: l.Workspace(), State: disk.Open(l.DataDir, log), Secrets: &httpsafe.Registry{}, Env: o.env, Getenv: getenv, Log: log,
	}
	if err := os.MkdirAll(opts.Workspace, 0o700); err != nil {
		o.t.Fatal(err)
	}
	sessions, err := session.Open(session.Options{DataDir: l.DataDir, Store: opts.State, Workspace: opts.Workspace, Log: log})
	if err != nil {
		o.t.Fatal(err)
	}
	opts.WorkspaceID = sessions.Workspace().ID
	if o.g, err = New(opts); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = o.g.Close() })
	if _, err := o.g.CommandTools(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *owner) run(command string) string {
	o.t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		o.t.Fatal(err)
	}
	r, err := byName(o.g.commands.Tools())["exec"].Run(o.t.Context(), tool.Call{Input: input, SessionKey: "test:owner", TurnID: "t1"})
	if err != nil {
		o.t.Fatal(err)
	}
	return r.Content.Text
}

// Commands find the programs of the owner, with what these consist of, and
// nothing else of the home folder.
func TestProgramsOfTheOwner(t *testing.T) {
	t.Parallel()
	o := newOwner(t, `PATH="$HOME/.local/bin:$HOME/.node/v20/bin:$HOME/.pyenv/shims:relative:$HOME/.nanobot/workspace/bin:$HOME:$PATH"; export PATH`)
	o.put(".local/bin/plain", "#!/bin/sh\necho plain works\n", 0o700)
	// A tool with an environment of its own, as pipx and uv make them.
	o.link(".local/bin/tool", "../share/tools/tool/bin/tool")
	o.put(".local/share/tools/tool/bin/tool", "#!"+o.home+"/.local/share/tools/tool/bin/interp\ncat "+o.home+"/.local/share/tools/tool/lib/words\n", 0o700)
	o.put(".local/share/tools/tool/lib/words", "tool works\n", 0o600)
	o.link(".local/share/tools/tool/bin/interp", "../../../versions/v1/bin/interp")
	o.shell(".local/share/versions/v1/bin/interp")
	// Packages beside a program, as npm installs them.
	o.link(".node/v20/bin/pack", "../lib/node_modules/pack/cli.sh")
	o.put(".node/v20/lib/node_modules/pack/cli.sh", "#!/bin/sh\ncat "+o.home+"/.node/v20/lib/node_modules/other/words\n", 0o700)
	o.put(".node/v20/lib/node_modules/other/words", "pack works\n", 0o600)
	// A version manager.
	o.put(".pyenv/shims/snake", "#!/bin/sh\nexec \"$PYENV_ROOT/versions/3/bin/snake\"\n", 0o700)
	o.put(".pyenv/versions/3/bin/snake", "#!/bin/sh\necho snake works\n", 0o700)
	secrets := []string{".local/share/app/token", ".pyenv/token", ".node/token", "letter.txt", ".cargo/credentials.toml", ".ssh/id", ".nanobot/config.json"}
	for _, name := range secrets {
		o.put(name, "geheim\n", 0o600)
	}
	o.start()

	for _, name := range []string{"plain", "tool", "pack", "snake"} {
		if got := o.run(name); !strings.Contains(got, name+" works") {
			t.Errorf("%s: %s", name, got)
		}
		if _, err := o.g.LookPath(name); err != nil {
			t.Errorf("skills: %v", err)
		}
	}
	for _, name := range secrets {
		if got := o.run("cat " + filepath.Join(o.home, name)); strings.Contains(got, "geheim") || strings.Contains(got, "exec") {
			t.Errorf("%s can be read: %s", name, got)
		}
	}
	path := o.run("echo $PATH")
	for _, bad := range []string{"relative", "workspace"} {
		if strings.Contains(path, bad) {
			t.Errorf("%s is on the PATH: %s", bad, path)
		}
	}
	if got := o.run("echo x > " + o.home + "/.local/bin/plain; plain"); !strings.Contains(got, "plain works") {
		t.Errorf("a command changed a program: %s", got)
	}
}

// The PATH is kept for the skills of the next process, which runs no shell
// until a command needs it.
func TestPathIsKeptForSkills(t *testing.T) {
	t.Parallel()
	o := newOwner(t, `PATH="$HOME/tools:$PATH"; export PATH; echo again >> "$HOME/runs" 2>/dev/null`)
	o.put("tools/own", "#!/bin/sh\necho own works\n", 0o700)
	o.start()
	if _, err := o.g.LookPath("own"); err == nil {
		t.Error("found before the login shell was asked")
	}
	if got := o.run("own"); !strings.Contains(got, "own works") {
		t.Errorf("got %s", got)
	}
	o.start()
	if _, err := o.g.LookPath("own"); err != nil || o.g.confiner.programs.read.Load() != nil {
		t.Errorf("the next process: %v", err)
	}
	if _, err := GuestLookPath("own"); err == nil {
		t.Error("a program of the owner's is one of guests")
	}
	if _, err := os.Stat(filepath.Join(o.home, "runs")); err == nil {
		t.Error("the login shell wrote to the home folder")
	}
}

// A start-up file that never ends, that prints, or that commands can write.
func TestLoginShellThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile, conf string
		own           bool // its PATH counts
	}{
		"words":    {profile: "echo PATH=/wrong; PATH=\"$HOME/tools:$PATH\"; export PATH", own: true},
		"replaced": {profile: "case $- in *i*) exec /bin/true;; esac; PATH=\"$HOME/tools:$PATH\"; export PATH", own: true},
		"ends":     {profile: "PATH=\"$HOME/tools:$PATH\"; export PATH; exit 0"},
		"writable": {profile: "PATH=\"$HOME/tools:$PATH\"; export PATH; touch \"$HOME/.nanobot/ran\"", conf: `{"tools":{"exec":{"sandbox":"auto","network":"none","sandboxRwBinds":["HOME"]}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwner(t, c.profile)
			o.put("tools/own", "#!/bin/sh\necho own works\n", 0o700)
			if c.conf != "" {
				o.conf = strings.ReplaceAll(c.conf, "HOME", o.home)
			}
			o.start()
			if got := o.run("own; ls / >/dev/null && echo then"); strings.Contains(got, "own works") != c.own || !strings.Contains(got, "then") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// The model learns that a program is there, but out of reach.
func TestProgramElsewhere(t *testing.T) {
	t.Parallel()
	o := newOwner(t, "")
	o.put("private/hidden-tool", "#!/bin/sh\n", 0o700)
	o.env = append(o.env[:2:2], "PATH=/usr/bin:/bin:"+o.home+"/private")
	o.start()
	got := o.run("hidden-tool --version")
	if !strings.Contains(got, "Exit code: 127") || !strings.Contains(got, "hidden-tool is installed as "+o.home+"/private/hidden-tool, but commands do not see it") {
		t.Errorf("got %s", got)
	}
	if got := o.run("there-is-no-such-tool"); strings.Contains(got, "installed") {
		t.Errorf("got %s", got)
	}
}
