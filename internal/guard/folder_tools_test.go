package guard_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// settle gives the owner's conversation a folder.
func (s *shared) settle(mode string) {
	s.t.Helper()
	s.settleChat("test:owner", mode)
}

func (s *shared) settleChat(key, mode string) {
	s.t.Helper()
	ws, err := filepath.EvalSymlinks(s.ws)
	if err != nil {
		s.t.Fatal(err)
	}
	err = s.app.Sessions.Annotate(s.t.Context(), key, func(sess *session.Session) error {
		return sess.SetMeta(turn.WorkspaceScopeKey, guard.Scope{Path: filepath.Join(ws, "proj"), Mode: mode})
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// try is run, without the prompt, which is the same in every folder.
func (s *shared) try(calls ...map[string]any) string {
	s.t.Helper()
	s.run("", calls...)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String() + s.sent.String()
}

// project puts a folder into the workspace, with ways out of it.
func (s *shared) project() {
	s.t.Helper()
	s.put("proj/own.txt", ownTag+" proj\n")
	s.put("proj/sub/deep.txt", ownTag+" deep\n")
	s.put("skills/greet/SKILL.md", "skill-words-77\n")
	s.put(".nanobot/tool-results/"+text.SafeName("test:owner")+"/c.txt", ownTag+" kept\n")
	s.put("../outside.txt", canary+" outside\n")
	if runtime.GOOS == "windows" {
		return
	}
	for name, target := range map[string]string{
		"out": "../memory/MEMORY.md", "abs": filepath.Join(s.ws, "USER.md"), "dir": "..", "root": "/",
	} {
		if err := os.Symlink(target, filepath.Join(s.ws, "proj", name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A conversation that is kept inside a folder reads and changes nothing else,
// whether the rest of the house is kept inside the workspace or not.
func TestProjectKeepsFiles(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{"restricted": calmConfig, "open": `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShared(t, conf)
			s.project()
			tries := []map[string]any{
				call("grep", "pattern", token, "path", "..", "output_mode", "content"), call("grep", "pattern", token, "path", s.ws, "output_mode", "content"),
				call("grep", "pattern", token, "path", "dir", "output_mode", "content"), call("grep", "pattern", token, "output_mode", "content"),
				call("glob", "pattern", "../**/*.md"), call("list_dir", "path", s.ws, "recursive", true), call("list_dir", "path", "dir"),
				call("message", "content", "look", "media", []string{"../memory/MEMORY.md"}), call("message", "content", "look", "media", []string{"out"}),
				call("apply_patch", "patch", "*** Begin Patch\n*** Add File: ../planted.txt\n+x\n*** End Patch"),
				call("write_file", "path", "../planted.txt", "content", "x"), call("write_file", "path", "dir/planted.txt", "content", "x"),
				call("write_file", "path", filepath.Join(s.ws, "planted.txt"), "content", "x"), call("write_file", "path", filepath.Join(s.ws, "skills", "evil", "SKILL.md"), "content", "x"),
				call("write_file", "path", "out", "content", "x"), call("edit_file", "path", "abs", "old_text", "0143", "new_text", "gone"),
			}
			for _, path := range []string{
				"out", "abs", "dir/USER.md", "../USER.md", "sub/../../USER.md", filepath.Join(s.ws, "memory", "MEMORY.md"), "root" + s.ws + "/USER.md",
				"../../outside.txt", filepath.Join(s.home, "outside.txt"), filepath.Join(s.home, "config.json"), "memory/MEMORY.md", "../proj/../USER.md",
				filepath.Join(s.ws, ".nanobot/tool-results", text.SafeName("cli:direct"), "c.txt"), "~/.profile", "/etc/passwd", "/proc/self/environ",
			} {
				tries = append(tries, call("read_file", "path", path))
			}
			if seen := s.try(tries...); strings.Count(seen, canary) < 8 {
				t.Fatalf("without a folder too little is seen, so this test tests nothing: %s", seen)
			}
			for _, planted := range []string{"planted.txt", "../planted.txt", "skills/evil"} {
				_ = os.RemoveAll(filepath.Join(s.ws, planted))
			}
			s.settle(guard.AccessRestricted)
			seen := s.try(tries...)
			if at := strings.Index(seen, canary); at >= 0 {
				t.Errorf("a canary got out: ...%s", seen[max(0, at-600):at+40])
			}
			if strings.Contains(seen, "root:x:0") {
				t.Error("/etc/passwd got out")
			}
			for _, planted := range []string{"planted.txt", "skills/evil/SKILL.md"} {
				if _, err := os.Stat(filepath.Join(s.ws, planted)); err == nil {
					t.Errorf("%s was planted", planted)
				}
			}
			if b, _ := os.ReadFile(filepath.Join(s.ws, "USER.md")); !strings.Contains(string(b), canary) {
				t.Error("USER.md was changed")
			}
			seen = s.try(call("read_file", "path", "own.txt"), call("grep", "pattern", ownTag, "output_mode", "content"),
				call("read_file", "path", filepath.Join(s.ws, "skills", "greet", "SKILL.md")),
				call("read_file", "path", filepath.Join(s.ws, ".nanobot", "tool-results", text.SafeName("test:owner"), "c.txt")),
				call("write_file", "path", "new/made.txt", "content", "made"), call("message", "content", "here", "media", []string{"sub/deep.txt"}))
			for _, want := range []string{ownTag + " proj", ownTag + " deep", "skill-words-77", ownTag + " kept"} {
				if !strings.Contains(seen, want) {
					t.Errorf("%q is not seen", want)
				}
			}
			if b, err := os.ReadFile(filepath.Join(s.ws, "proj", "new", "made.txt")); string(b) != "made" {
				t.Errorf("made.txt is %q, %v", b, err)
			}
		})
	}
}

// With full access only the beginning of names moves, and undo finds the files.
func TestProjectMovesNames(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	s.project()
	s.settle(guard.AccessFull)
	seen := s.try(call("read_file", "path", "own.txt"), call("read_file", "path", "../USER.md"), call("write_file", "path", "own.txt", "content", "changed"))
	if !strings.Contains(seen, ownTag+" proj") || !strings.Contains(seen, canary) {
		t.Errorf("seen: %s", seen[max(0, len(seen)-1500):])
	}
	own := filepath.Join(s.ws, "proj", "own.txt")
	if b, _ := os.ReadFile(own); string(b) != "changed" {
		t.Fatalf("own.txt is %q", b)
	}
	var said strings.Builder
	for out, err := range s.app.Agent.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "test", ChatID: "owner"}, SenderID: "7", Text: "/undo"}) {
		if err != nil {
			t.Fatal(err)
		}
		said.WriteString(out.Text)
	}
	if b, _ := os.ReadFile(own); string(b) != ownTag+" proj\n" || !strings.Contains(said.String(), "proj/own.txt") {
		t.Errorf("after /undo own.txt is %q: %s", b, said.String())
	}
}

// A guest has no folder, whatever is set for the conversation.
func TestGuestsHaveNoProject(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	s.project()
	s.settleChat(group, guard.AccessFull)
	if seen := s.run(guest, call("read_file", "path", "own.txt")); strings.Contains(seen, ownTag+" proj") || strings.Contains(seen, "Working folder") {
		t.Errorf("seen: %s", seen[max(0, len(seen)-1500):])
	}
}

// A folder that is gone: the turn says so and goes on, inside the workspace.
func TestProjectGone(t *testing.T) {
	t.Parallel()
	s := newShared(t, `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`)
	s.project()
	s.settle(guard.AccessRestricted)
	if seen := s.try(call("read_file", "path", "own.txt")); !strings.Contains(seen, ownTag+" proj") {
		t.Fatal("the folder is not used")
	}
	if err := os.RemoveAll(filepath.Join(s.ws, "proj")); err != nil {
		t.Fatal(err)
	}
	seen := s.run("", call("read_file", "path", "notes.txt"), call("read_file", "path", filepath.Join(s.home, "outside.txt")))
	if !strings.Contains(seen, ownTag+" 3") || !strings.Contains(seen, "cannot be used any more") || !strings.Contains(seen, "is gone; this turn works in the workspace") {
		t.Errorf("seen: %s", seen[max(0, len(seen)-2500):])
	}
	if strings.Contains(seen, canary+" outside") {
		t.Error("what was kept inside a folder is kept inside nothing now")
	}
	// It is there again, as another folder.
	s.put("proj/own.txt", ownTag+" anew\n")
	if seen := s.try(call("read_file", "path", "own.txt")); !strings.Contains(seen, ownTag+" anew") {
		t.Errorf("seen: %s", seen[max(0, len(seen)-1500):])
	}
}
