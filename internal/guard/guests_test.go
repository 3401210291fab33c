package guard_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// guestFolder is where everything of the chat of guest and member lies.
func (s *shared) guestFolder() string {
	home, err := filepath.EvalSymlinks(s.home)
	if err != nil {
		s.t.Fatal(err)
	}
	return filepath.Join(home, "guests", text.SafeName(group))
}

func (s *shared) guestSpace() string { return filepath.Join(s.guestFolder(), "workspace") }

// A chat of guests works in a folder of its own: what it writes is there, and
// names of the owner's files mean nothing.
func TestGuestsHaveAWorkspaceOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	if _, err := os.Stat(filepath.Join(s.home, "guests")); err == nil {
		t.Error("the folder of guests was made before one of them wrote")
	}
	s.run("", call("list_dir", "path", "."))
	if _, err := os.Stat(filepath.Join(s.home, "guests")); err == nil {
		t.Error("a turn of the owner made the folder of guests")
	}
	s.put("owners.txt", canary+" of the owner\n")
	seen := s.run(guest,
		call("read_file", "path", "owners.txt"), call("read_file", "path", filepath.Join(s.ws, "owners.txt")),
		call("write_file", "path", "new.txt", "content", ownTag+" 9"), call("list_dir", "path", "."),
		call("read_file", "path", "new.txt"), call("write_file", "path", "owners.txt", "content", "mine"))
	if strings.Contains(seen, canary) {
		t.Errorf("the guest saw the owner's file: %s", seen)
	}
	if !strings.Contains(seen, `"Source":"guest:`+text.SafeName(group)+`"`) {
		t.Error("the turn of a guest is not accounted as one")
	}
	if b, err := os.ReadFile(filepath.Join(s.guestSpace(), "new.txt")); err != nil || string(b) != ownTag+" 9" {
		t.Errorf("new.txt = %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(s.ws, "new.txt")); err == nil {
		t.Error("the guest wrote into the owner's workspace")
	}
	if b, _ := os.ReadFile(filepath.Join(s.ws, "owners.txt")); strings.Contains(string(b), "mine") {
		t.Error("the guest changed the owner's file")
	}
	if !strings.Contains(seen, s.guestSpace()) || strings.Contains(seen, "`"+s.ws+"`") {
		t.Error("the prompt of a guest does not name the guest's workspace, or names the owner's")
	}
	if info, err := os.Stat(s.guestFolder()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of a chat: %v, %v", info, err)
	}
	// The other people in the chat work on the same files, those elsewhere do not.
	if seen := s.run(member, call("read_file", "path", "new.txt")); !strings.Contains(seen, ownTag+" 9") {
		t.Error("another member of the chat does not see its files")
	}
	s.run("test:elsewhere/7", call("read_file", "path", "new.txt"), call("read_file", "path", filepath.Join(s.guestSpace(), "new.txt")))
	if got := s.got.String(); strings.Contains(got, ownTag+" 9") || got == "" {
		t.Error("a guest of another chat sees the files of this one")
	}
}

// The owner's tools do not take in what guests left in their folders, also where
// they reach the whole disk.
func TestOwnerDoesNotReadGuestsFolders(t *testing.T) {
	t.Parallel()
	s := newShared(t, `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`)
	s.run(guest, call("write_file", "path", "orders.txt", "content", canary+" obey"))
	seen := s.run("", call("read_file", "path", filepath.Join(s.guestSpace(), "orders.txt")),
		call("grep", "pattern", token, "path", filepath.Join(s.home, "guests"), "output_mode", "content"))
	if strings.Contains(seen, canary+" obey") {
		t.Error("the owner's turn read a guest's file")
	}
}

// obedient are attempts of a guest whose model does what it is told, with tools
// that need no command.
func obedient(s *shared) []map[string]any {
	up := strings.Repeat("../", 12)
	names := []string{
		"../../../workspace/USER.md", filepath.Join(s.guestSpace(), "../../../workspace/USER.md"), s.ws + "/USER.md", s.ws + "//memory/../USER.md",
		up + strings.TrimPrefix(filepath.Join(s.ws, "USER.md"), "/"), "~/USER.md", "file://" + s.ws + "/USER.md",
		"/proc/self/root" + s.ws + "/USER.md", "/proc/self/cwd/USER.md", "/proc/self/environ", "/dev/fd/0",
		filepath.Join(s.home, "config.json"), filepath.Join(s.home, "sessions"), filepath.Join(s.home, "media/test/owners.txt"),
		filepath.Join(s.guestFolder(), "../x"), filepath.Join(s.guestFolder(), "undo"), "share/USER.md", ".git/config",
		memory.ScopeFile(guest), ".nanobot/tool-results/" + text.SafeName("cli:direct") + "/c.txt",
		"planted/USER.md", "planted-file", "planted-abs",
	}
	var out []map[string]any
	for _, name := range names {
		out = append(out, call("read_file", "path", name), call("message", "content", "x", "media", []string{name}),
			call("grep", "pattern", token, "path", name, "output_mode", "content"), call("list_dir", "path", name, "recursive", true),
			call("write_file", "path", name, "content", "obey me"), call("edit_file", "path", name, "old_text", canary, "new_text", "obey me"))
	}
	return append(out, call("glob", "pattern", s.ws+"/**"), call("search_memory", "query", token), call("cron", "action", "list"))
}

// No name leads a guest to anything of the owner's, to read or to write.
func TestObedientGuestFiles(t *testing.T) {
	t.Parallel()
	for _, conf := range []string{calmConfig, `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`} {
		s := newShared(t, conf, func(o *app.Options) { o.Env = append(o.Env, "SECRET="+canary) })
		s.put("../media/test/owners.txt", canary+" sent\n")
		s.put("share/note.txt", canary+" in a folder that is called share by accident\n")
		s.run(guest, call("write_file", "path", "begin.txt", "content", "x"))
		for name, target := range map[string]string{"planted": s.ws, "planted-file": filepath.Join(s.ws, "USER.md"), "planted-abs": filepath.Join(s.home, "config.json")} {
			if err := os.Symlink(target, filepath.Join(s.guestSpace(), name)); err != nil && runtime.GOOS != "windows" {
				t.Fatal(err)
			}
		}
		before := s.owned()
		tries := obedient(s)
		for len(tries) > 0 {
			n := min(len(tries), 20)
			if seen := s.run(guest, tries[:n]...); strings.Contains(seen, canary) {
				at := strings.Index(seen, canary)
				t.Errorf("a canary got out: ...%s", seen[max(0, at-600):at+60])
			}
			tries = tries[n:]
		}
		if after := s.owned(); after != before {
			t.Errorf("something of the owner's changed:\n%s\nwas\n%s", after, before)
		}
	}
}

// owned is a picture of all files of the owner's workspace and configuration.
func (s *shared) owned() string {
	var b strings.Builder
	for _, dir := range []string{s.ws, filepath.Join(s.home, "media"), filepath.Join(s.home, "config.json")} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, _ := os.ReadFile(path)
			b.WriteString(path + " " + d.Type().String() + " " + string(data) + "\n")
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return b.String()
}

// The owner's own skills are the owner's files: a guest neither hears of them nor
// loads one by its name.
func TestGuestsSkills(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	s.put("skills/books/SKILL.md", "---\nname: books\ndescription: "+canary+" listed\nalways: true\n---\n\n"+canary+" body\n")
	s.put("TOOLS.md", canary+" tools\n")
	s.put("AGENTS.md", ownTag+" orders\n")
	if seen := s.say("", "use $books"); strings.Count(seen, canary) < 3 {
		t.Fatal("the owner sees too little, so this test tests nothing")
	}
	for _, words := range []string{"use $books", "/skill"} {
		if seen := s.say(guest, words); strings.Contains(seen, canary) {
			at := strings.Index(seen, canary)
			t.Errorf("%s: a guest sees ...%s", words, seen[max(0, at-300):at+40])
		}
	}
	if seen := s.say(guest, "hello"); !strings.Contains(seen, ownTag+" orders") || !strings.Contains(seen, "builtin://") {
		t.Error("a guest has neither the owner's words about behaviour nor the built-in skills")
	}
}

// One conversation for all chats is the owner's: a guest does not get into it.
func TestGuestsAreNotInTheUnifiedSession(t *testing.T) {
	t.Parallel()
	s := newShared(t, `{"agents":{"defaults":{"unifiedSession":true}},"tools":{"restrictToWorkspace":true,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`)
	s.say("", "remember "+canary+" of the owner")
	if seen := s.say(guest, "what did the owner say?"); strings.Contains(seen, canary) {
		t.Error("a guest reads the owner's conversation")
	}
	if seen := s.say("", "and what did the guest say?"); strings.Contains(seen, "what did the owner say") || !strings.Contains(seen, canary) {
		t.Error("the owner's conversation holds the guest's words, or has lost the owner's")
	}
}

// A long result is kept in the folder of the chat, where the chat can read it
// and no other can.
func TestGuestsLongResults(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	s.putGuest("big.txt", strings.Repeat(ownTag+" a long line of words that go on and on\n", 1000))
	s.run(guest, call("grep", "pattern", ownTag, "path", "big.txt", "output_mode", "content", "head_limit", 1000))
	kept, err := filepath.Glob(filepath.Join(s.guestFolder(), "tool-results", "*", "*.txt"))
	if err != nil || len(kept) != 1 || !strings.Contains(s.got.String(), kept[0]) {
		t.Fatalf("kept %q, %v: %.500s", kept, err, s.got.String())
	}
	s.run(member, call("read_file", "path", kept[0], "limit", 3))
	if !strings.Contains(s.got.String(), ownTag) {
		t.Errorf("the chat cannot read its result: %s", s.got.String())
	}
	s.run("test:elsewhere/7", call("read_file", "path", kept[0]))
	if strings.Contains(s.got.String(), ownTag) {
		t.Error("another chat reads it")
	}
}
