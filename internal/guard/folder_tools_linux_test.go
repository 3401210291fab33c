package guard_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Commands of a conversation that is kept inside a folder are kept there by the
// kernel, also where other commands run without a sandbox.
func TestProjectKeepsCommands(t *testing.T) {
	t.Parallel()
	level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	if level.LandlockABI == 0 && !level.MountNS {
		t.Skipf("no sandbox here: %s", level)
	}
	for name, conf := range map[string]string{
		"sandbox": `{"tools":{"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`,
		"none":    `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShared(t, conf)
			s.project()
			// Names are written so that the rules on the text do not see them.
			tries := []map[string]any{
				call("exec", "command", "cat o?t a?s d?r/USER.md d?r/m?mory/* ../U?ER.md; d=$(pwd); cat $d/../USER.md; true"),
				call("exec", "command", "cd ..; pwd; find . -type f | xargs cat; true"),
				call("exec", "command", "w=$(echo "+s.ws+"); cat $w/U?ER.md $w/m?mory/*; ls -la $w; true"),
				call("exec", "command", "h=$(echo "+s.home+"); cat $h/outside.txt $h/config.json $h/sess*/*/*; true"),
				call("exec", "command", "w=$(echo "+s.ws+"); echo x > $w/planted.txt; echo x > ../planted.txt; echo x > d?r/planted.txt; mkdir $w/skills/evil; true"),
				call("exec", "command", "ln ../USER.md hard; cat hard; mv ../USER.md .; cat USER.md; true"),
				call("exec", "command", "cat USER.md", "working_dir", ".."), call("exec", "command", "cat USER.md", "working_dir", s.ws),
				call("exec", "command", "cat USER.md", "working_dir", "dir"),
			}
			if seen := s.try(call("exec", "command", "cat U?ER.md m?mory/*; true")); !strings.Contains(seen, canary) {
				t.Fatalf("without a folder nothing is seen, so this test tests nothing: %s", seen)
			}
			s.settle(guard.AccessRestricted)
			seen := s.try(tries...)
			if at := strings.Index(seen, canary); at >= 0 {
				t.Errorf("a canary got out: ...%s", seen[max(0, at-600):at+40])
			}
			for _, planted := range []string{"planted.txt", "../planted.txt", "skills/evil"} {
				if _, err := os.Stat(filepath.Join(s.ws, planted)); err == nil {
					t.Errorf("%s was planted", planted)
				}
			}
			seen = s.try(call("exec", "command", "pwd; cat own.txt; echo made > made.txt; echo home is $HOME"),
				call("exec", "command", "cat deep.txt", "working_dir", "sub"), call("exec", "command", "cat "+s.ws+"/skills/greet/SKILL.md; echo x > "+s.ws+"/skills/greet/SKILL.md"))
			for _, want := range []string{ownTag + " proj", ownTag + " deep", "skill-words-77", "home is /tmp"} {
				if !strings.Contains(seen, want) {
					t.Errorf("%q is not seen in %s", want, seen)
				}
			}
			if b, err := os.ReadFile(filepath.Join(s.ws, "proj", "made.txt")); string(b) != "made\n" {
				t.Errorf("made.txt is %q, %v", b, err)
			}
			if b, _ := os.ReadFile(filepath.Join(s.ws, "skills", "greet", "SKILL.md")); string(b) != "skill-words-77\n" {
				t.Errorf("the skill is %q", b)
			}
		})
	}
}

// With full access commands begin in the folder and reach what they always did.
func TestProjectMovesCommands(t *testing.T) {
	t.Parallel()
	s := newShared(t, `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`)
	s.project()
	s.settle(guard.AccessFull)
	seen := s.try(call("exec", "command", "pwd; cat own.txt ../notes.txt"), call("exec", "command", "cat deep.txt", "working_dir", "sub"))
	for _, want := range []string{filepath.Join(s.ws, "proj"), ownTag + " proj", ownTag + " 3", ownTag + " deep"} {
		if !strings.Contains(seen, want) {
			t.Errorf("%q is not seen in %s", want, seen)
		}
	}
}

// A command that began before the conversation was kept inside a folder cannot
// be used to get out of it.
func TestProjectForgetsCommands(t *testing.T) {
	t.Parallel()
	level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	if level.LandlockABI == 0 && !level.MountNS {
		t.Skipf("no sandbox here: %s", level)
	}
	s := newShared(t, `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`)
	s.project()
	seen := s.try(call("exec", "command", "cat", "yield_time_ms", 0))
	_, id, ok := strings.Cut(seen, "session_id ")
	id, _, _ = strings.Cut(id, ",")
	if !ok {
		t.Fatalf("no session: %s", seen)
	}
	s.settle(guard.AccessRestricted)
	seen = s.try(call("list_exec_sessions"), call("write_stdin", "session_id", id, "chars", "hello there\n", "yield_time_ms", 0))
	if strings.Contains(strings.Split(seen, `{"kind"`)[0], "hello there") || !strings.Contains(seen, "No commands are running") || !strings.Contains(seen, "there is no session") {
		t.Errorf("seen: %s", seen)
	}
	s.settle(guard.AccessFull)
	if seen := s.try(call("list_exec_sessions")); !strings.Contains(seen, id) {
		t.Errorf("the session is lost: %s", seen)
	}
}

// A service of this machine, such as our own, would give a command more than
// its folder.
func TestProjectReachesNoLocalService(t *testing.T) {
	t.Parallel()
	level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	if level.LandlockABI == 0 && !level.MountNS {
		t.Skipf("no sandbox here: %s", level)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newShared(t, `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none","network":"host"}}}`)
	s.project()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	try := call("exec", "command", `bash -c 'exec 3<>/dev/tcp/127.0.0.1/`+port+` && echo "we are" "there"'; echo all is said`)
	if seen := s.try(try); !strings.Contains(seen, "we are there") {
		t.Skip("nobody gets there")
	}
	s.settle(guard.AccessRestricted)
	if seen := s.try(try); strings.Contains(seen, "we are there") || !strings.Contains(seen, "all is said") {
		t.Errorf("seen: %s", seen)
	}
}

// A command line of the owner is kept inside the folder of its chat, too.
func TestUserShellInAProject(t *testing.T) {
	t.Parallel()
	level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	if level.LandlockABI == 0 && !level.MountNS {
		t.Skipf("no sandbox here: %s", level)
	}
	s := newShared(t, `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`)
	s.project()
	s.settleChat("websocket:owner", guard.AccessRestricted)
	if got, _ := s.typed("pwd; cat own.txt; cat ../U?ER.md"); !strings.Contains(got, ownTag+" proj") || strings.Contains(got, canary) {
		t.Errorf("got %q", got)
	}
}

// What a command leaves behind does not open other places to the next one: links
// where the profile names something, or in place of the folder itself.
func TestProjectHoldsAgainstLinks(t *testing.T) {
	t.Parallel()
	level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	if level.LandlockABI == 0 && !level.MountNS {
		t.Skipf("no sandbox here: %s", level)
	}
	var between func()
	s := newShared(t, `{"tools":{"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`, func(o *app.Options) {
		o.Observers.Hooks = append(o.Observers.Hooks, runner.Hooks{AfterTool: func(_ context.Context, c tool.Call, _ tool.Result, _ time.Duration) {
			if between != nil && strings.Contains(string(c.Input), "echo first") {
				between()
			}
		}})
	})
	s.project()
	s.put("../private/secret.txt", canary+" private\n")
	private := filepath.Join(s.home, "private")
	for _, name := range []string{"triggers", "skills"} {
		if err := os.RemoveAll(filepath.Join(s.ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	look := call("exec", "command", "cd "+s.ws+"; cat "+private+"/s?cret.txt triggers/s?cret.txt skills/s?cret.txt; echo all is said")
	// A chat that has the whole workspace puts one there. The other, where the
	// agent's own folder belongs, no command can.
	s.try(call("exec", "command", "ln -s "+private+" triggers; rmdir skills; ln -sfT "+private+" skills"))
	if info, err := os.Lstat(filepath.Join(s.ws, "skills")); err != nil || !info.IsDir() {
		t.Fatalf("skills is %v, %v; want the folder", info, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(s.ws, "skills")), os.Symlink(private, filepath.Join(s.ws, "skills"))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.ws, "skills", "secret.txt")); err != nil {
		t.Fatal(err)
	}
	if seen := s.try(look); strings.Contains(seen, canary) || !strings.Contains(seen, "all is said") {
		t.Errorf("in the workspace: %s", seen)
	}
	s.settle(guard.AccessRestricted)
	if seen := s.try(look, call("read_file", "path", filepath.Join(s.ws, "skills", "secret.txt"))); strings.Contains(seen, canary) || !strings.Contains(seen, "all is said") {
		t.Errorf("in the folder: %s", seen)
	}
	// The folder itself is replaced in the middle of a turn.
	between = func() {
		dir := filepath.Join(s.ws, "proj")
		if err := errors.Join(os.Rename(dir, dir+"2"), os.Symlink(private, dir)); err != nil {
			t.Error(err)
		}
	}
	seen := s.try(call("exec", "command", "echo first"), call("exec", "command", "cat *; cat "+private+"/s?cret.txt; echo second"), call("read_file", "path", "secret.txt"))
	if strings.Contains(seen, canary) || !strings.Contains(seen, "first\n") || strings.Contains(seen, "second\n") {
		t.Errorf("after the folder was replaced: %s", seen)
	}
}
