package guard_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A program that nothing confines can give a protected file a second name in the
// workspace. File tools do not read it there, and what they write is another file.
func TestHardLinksToOurData(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not tell how many names a file has")
	}
	s := newShared(t, `{"providers":{"custom":{"apiKey":"CANARY-key-of-the-file"}},"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`)
	for _, name := range []string{"config.json", "secrets/typed-1", "auth/codex.json", "usage/totals.json", "sessions/x/y.jsonl", "origin/r.jsonl", "pairing.json"} {
		path := filepath.Join(s.home, filepath.FromSlash(name))
		if name != "config.json" {
			s.put("../"+name, "CANARY-state of "+name)
		}
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		to := "linked-" + strings.ReplaceAll(name, "/", "-")
		if err := os.Link(path, filepath.Join(s.ws, to)); err != nil {
			t.Skip("no hard links here: ", err)
		}
		for _, try := range []map[string]any{
			call("read_file", "path", to), call("grep", "pattern", "CANARY", "path", to, "output_mode", "content"),
			call("grep", "pattern", "CANARY", "glob", "linked-*", "output_mode", "content"), call("edit_file", "path", to, "old_text", "CANARY", "new_text", "x"),
			call("write_file", "path", to, "content", "{}"),
		} {
			s.run("", try)
			if got := s.got.String(); strings.Contains(got, "CANARY-state") || strings.Contains(got, "CANARY-key") {
				t.Errorf("%s: %v showed it: %.300s", name, try, got)
			}
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(was) {
			t.Errorf("%s was changed: %q, %v", name, now, err)
		}
	}
}
