package guard_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// A conversation works in the folder it was started in: files and commands begin
// there, its instructions are followed, and files of the workspace can be read.
func TestStartedInFolder(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{
		"sandbox":      `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`,
		"no sandbox":   `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`,
		"unrestricted": `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto}); name == "sandbox" && !level.MountNS {
				t.Skipf("no mount namespaces here: %s", level)
			}
			s := newStarted(t, conf)
			asked, got := s.in(
				call("read_file", "path", "own.txt"), call("read_file", "path", filepath.Join(s.ws, "notes.txt")),
				call("write_file", "path", "new.txt", "content", "from a tool\n"),
				call("write_file", "path", filepath.Join(s.ws, "kept.txt"), "content", "from a tool\n"),
				call("exec", "command", "pwd; cat own.txt; echo made > made.txt"),
			)
			for _, want := range []string{ownTag + " folder", ownTag + " 3", s.dir} {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not seen in %s", want, got)
				}
			}
			if s.read("new.txt") != "from a tool\n" || s.read("made.txt") != "made\n" {
				t.Errorf("the folder holds %q and %q", s.read("new.txt"), s.read("made.txt"))
			}
			if b, err := os.ReadFile(filepath.Join(s.ws, "kept.txt")); string(b) != "from a tool\n" {
				t.Errorf("the workspace holds %q, %v", b, err)
			}
			if want := name != "unrestricted"; strings.Contains(asked, "folder-words-55") != want {
				t.Errorf("the instructions of the folder are in the prompt: %v, want %v", !want, want)
			}
			entries, err := os.ReadDir(s.dir)
			if err != nil || len(entries) != 4 {
				t.Errorf("the folder holds %v, %v; want nothing that the user did not ask for", entries, err)
			}
		})
	}
}

// Commands of such a conversation do not reach the workspace, and nobody else's
// conversation reaches the folder's instructions.
func TestStartedKeepsCommands(t *testing.T) {
	t.Parallel()
	if level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto}); !level.MountNS {
		t.Skipf("no mount namespaces here: %s", level)
	}
	s := newStarted(t, `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`)
	_, got := s.in(
		call("exec", "command", "w="+s.ws+"; cat $w/U?ER.md $w/m?mory/*; echo x > $w/planted.txt; ls -la $w; true"),
		call("exec", "command", "cat "+s.home+"/outside.txt "+s.home+"/config.json; true"),
		call("read_file", "path", filepath.Join(s.home, "outside.txt")),
		call("read_file", "path", filepath.Join(s.home, "config.json")),
	)
	if at := strings.Index(got, canary); at >= 0 {
		t.Errorf("a canary got out: ...%s", got[max(0, at-600):at+40])
	}
	if _, err := os.Stat(filepath.Join(s.ws, "planted.txt")); err == nil {
		t.Error("a command wrote to the workspace")
	}

	// No command changes what the agent follows.
	s.in(call("exec", "command", "echo command-words-66 > AGENTS.md"))
	if asked, _ := s.in(call("list_dir", "path", ".")); strings.Contains(system(asked), "command-words-66") {
		t.Error("the agent follows what a command wrote")
	}
	if s.read("AGENTS.md") != "command-words-66\n" {
		t.Errorf("AGENTS.md is %q; the user's files are left where they are", s.read("AGENTS.md"))
	}
	if guest := s.run(guest, call("read_file", "path", filepath.Join(s.dir, "own.txt"))); strings.Contains(guest, ownTag+" folder") {
		t.Error("a guest read the folder")
	}
}

// A process that was not started in the folder, such as the gateway, works in the
// workspace in the same conversation, and so does a call from the workspace.
func TestStartedElsewhere(t *testing.T) {
	t.Parallel()
	s := newStarted(t, `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"enable":false}}}`)
	s.in(call("list_dir", "path", "."))
	s.dir = s.ws
	if _, got := s.in(call("read_file", "path", "notes.txt")); !strings.Contains(got, ownTag+" 3") || strings.Contains(got, "folder") {
		t.Errorf("a call from the workspace: %s", got)
	}

	other := newShared(t, `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"enable":false}}}`)
	err := other.app.Sessions.Annotate(t.Context(), "test:owner", func(sess *session.Session) error {
		return sess.SetMeta(turn.WorkspaceScopeKey, guard.Scope{Path: t.TempDir(), Mode: guard.AccessStarted})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := other.run("", call("read_file", "path", "notes.txt")); !strings.Contains(got, ownTag+" 3") || strings.Contains(got, "cannot be used") {
		t.Errorf("a process that was not started there: %s", got)
	}
}

// A tainted turn cannot leave instructions for the next one.
func TestStartedTaint(t *testing.T) {
	t.Parallel()
	if level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto}); !level.MountNS {
		t.Skipf("no mount namespaces here: %s", level)
	}
	s := newStarted(t, `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`)
	s.put("proj/page.txt", "a page\n")
	rec, err := guard.OpenOrigins(s.app.Config.DataDir, s.ws, s.app.Sessions.Workspace().ID, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Mark(filepath.Join(s.ws, "proj", "page.txt")); err != nil {
		t.Fatal(err)
	}
	s.in(call("read_file", "path", filepath.Join(s.ws, "proj", "page.txt")), call("read_file", "path", "AGENTS.md"))
	kept := filepath.Join(s.ws, "kept.md")
	_, got := s.in(call("write_file", "path", "AGENTS.md", "content", "page-words-77\n"), call("write_file", "path", kept, "content", "page-words-77\n"))
	if s.read("AGENTS.md") != "page-words-77\n" {
		t.Fatalf("nothing was written, so this test tests nothing: %s", got)
	}
	if asked, _ := s.in(call("list_dir", "path", ".")); strings.Contains(system(asked), "page-words-77") {
		t.Errorf("the agent follows what a page said: %s", system(asked))
	}
	if !rec.Foreign(kept) {
		t.Error("the record of the workspace does not know a file that a tainted turn wrote")
	}
}

// A command does not reach the workspace in a folder around it either.
func TestStartedAroundTheWorkspace(t *testing.T) {
	t.Parallel()
	if level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto}); !level.MountNS {
		t.Skipf("no mount namespaces here: %s", level)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "agent")
	if err := errors.Join(os.Mkdir(ws, 0o700), os.WriteFile(filepath.Join(ws, "USER.md"), []byte(canary+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := &started{newShared(t, `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`, func(o *app.Options) {
		o.Workspace, o.Folder = ws, dir
	}), dir}
	for _, name := range []string{dir, ws} { // hooks of repositories are closed to a contained command
		if err := os.MkdirAll(filepath.Join(name, ".git", "hooks"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, got := s.in(call("exec", "command", "echo made > made.txt; cat a?ent/U?ER.md; echo x > agent/planted.txt; true"))
	if s.read("made.txt") != "made\n" || strings.Contains(got, canary) {
		t.Errorf("made.txt is %q, and the command saw %s", s.read("made.txt"), got)
	}
	if _, err := os.Stat(filepath.Join(ws, "planted.txt")); err == nil {
		t.Error("the command wrote to the workspace")
	}
}

// In the home folder, commands read what is there and write to the workspace
// only.
func TestStartedInHome(t *testing.T) {
	if level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto}); !level.MountNS {
		t.Skipf("no mount namespaces here: %s", level)
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for name, body := range map[string]string{"own.txt": ownTag + " home\n", ".ssh/id": canary + "\n"} {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s := &started{newShared(t, `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`,
		func(o *app.Options) { o.Folder = home }), home}
	_, got := s.in(
		call("exec", "command", "pwd; cat own.txt; d=$(printf .s; printf sh); cat $d/id; echo x > planted; echo x > .bash_login; echo made > "+s.ws+"/made.txt"),
		call("read_file", "path", ".ssh/id"), call("write_file", "path", "new.txt", "content", "from a tool\n"),
	)
	if !strings.Contains(got, ownTag+" home") || strings.Contains(got, canary) {
		t.Errorf("the command saw %s", got)
	}
	if s.read("planted") != "" || s.read(".bash_login") != "" {
		t.Error("a command wrote to the home folder")
	}
	if b, err := os.ReadFile(filepath.Join(s.ws, "made.txt")); string(b) != "made\n" {
		t.Errorf("the workspace holds %q, %v", b, err)
	}
	if s.read("new.txt") != "from a tool\n" {
		t.Errorf("new.txt is %q", s.read("new.txt"))
	}
}
