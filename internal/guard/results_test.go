package guard_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// longTool returns more than fits into a prompt; word is in the part that does not.
func longTool(word string) tool.Tool {
	return tool.Tool{
		Name: "long", Description: "long", ReadOnly: true,
		Run: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Text(strings.Repeat("filler ", 30000) + "\n" + word + "\n"), nil
		},
	}
}

// keptFiles are the long results that lie in the data folder.
func (s *shared) keptFiles(session string) []string {
	s.t.Helper()
	var found []string
	for _, pattern := range []string{"tool-results/*", "guests/*/tool-results"} {
		more, err := filepath.Glob(filepath.Join(s.home, filepath.FromSlash(pattern), text.SafeName(session), "*"))
		if err != nil {
			s.t.Fatal(err)
		}
		found = append(found, more...)
	}
	return found
}

// A long result lies in the data folder. The conversation it belongs to reads it
// and nobody changes it; what it says is content from outside.
func TestLongResults(t *testing.T) {
	t.Parallel()
	const word = "needle-in-the-result"
	for name, conf := range map[string]string{"restricted": calmConfig, "open": `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShared(t, conf, func(o *app.Options) { o.Tools = []tool.Tool{longTool(word)} })
			if got := s.try(call("long")); !strings.Contains(got, "[tool output persisted]") || strings.Contains(got, word) {
				t.Fatalf("the result was not kept: %.300s", got)
			}
			kept := s.keptFiles("test:owner")
			if len(kept) != 1 {
				t.Fatalf("kept: %v", kept)
			}
			if entries, _ := os.ReadDir(filepath.Join(s.ws, ".nanobot", "tool-results", text.SafeName("test:owner"))); len(entries) > 0 {
				t.Errorf("it lies in the workspace, too: %v", entries)
			}
			for _, c := range []map[string]any{
				call("grep", "pattern", "needle", "path", kept[0], "output_mode", "content"),
				call("grep", "pattern", "needle", "path", filepath.Dir(kept[0]), "output_mode", "content"),
				call("read_file", "path", kept[0], "offset", 2),
			} {
				if got := s.try(c); !strings.Contains(got, word) {
					t.Errorf("%v does not find it: %.300s", c, got)
				}
				if got := s.try(c); !strings.Contains(got, "untrusted") {
					t.Errorf("%v: what a tool returned counts as the owner's: %.300s", c, got)
				}
			}
			before, err := os.ReadFile(kept[0])
			if err != nil {
				t.Fatal(err)
			}
			s.try(call("write_file", "path", kept[0], "content", "changed"),
				call("edit_file", "path", kept[0], "old_text", word, "new_text", "changed"),
				call("write_file", "path", filepath.Join(filepath.Dir(kept[0]), "more.txt"), "content", "changed"))
			if after, err := os.ReadFile(kept[0]); err != nil || string(after) != string(before) || len(s.keptFiles("test:owner")) != 1 {
				t.Errorf("a kept result was changed: %v %v", err, s.keptFiles("test:owner"))
			}
		})
	}
}

// Guests, and conversations that are kept inside a folder, read the results of
// their own conversation and no others.
func TestLongResultsOfOthers(t *testing.T) {
	t.Parallel()
	const mine = ownTag + "-long"
	words := canary + "-long"
	s := newShared(t, calmConfig, func(o *app.Options) {
		o.Tools = []tool.Tool{longTool(words), func() tool.Tool { l := longTool(mine); l.Name = "mine"; return l }()}
	})
	s.project()
	s.run("", call("long"))    // the owner's
	s.run(guest, call("mine")) // the group's
	owners, groups := s.keptFiles("test:owner"), s.keptFiles(group)
	if len(owners) != 1 || len(groups) != 1 {
		t.Fatalf("kept: %v %v", owners, groups)
	}
	root := filepath.Dir(filepath.Dir(owners[0]))
	tries := []map[string]any{
		call("read_file", "path", owners[0], "offset", 2), call("grep", "pattern", token, "path", owners[0], "output_mode", "content"),
		call("grep", "pattern", token, "path", root, "output_mode", "content"), call("grep", "pattern", token, "path", filepath.Dir(owners[0]), "output_mode", "content"),
		call("list_dir", "path", root, "recursive", true), call("glob", "pattern", "**/*", "path", root),
		call("message", "content", "look", "media", []string{owners[0]}),
	}
	for _, c := range tries {
		s.run(guest, c)
		s.mu.Lock()
		got := s.got.String() + s.sent.String()
		s.mu.Unlock()
		if strings.Contains(got, canary) || c["path"] == root && strings.Contains(got, filepath.Base(filepath.Dir(owners[0]))) {
			t.Errorf("a guest sees a result of the owner with %v: %.300s", c, got)
		}
	}
	s.run(guest, call("read_file", "path", groups[0], "offset", 2))
	s.mu.Lock()
	got := s.got.String()
	s.mu.Unlock()
	if !strings.Contains(got, mine) {
		t.Errorf("a guest does not see their own: %.300s", got)
	}

	s.settle(guard.AccessRestricted)
	if got := s.try(call("read_file", "path", owners[0], "offset", 2)); !strings.Contains(got, words) {
		t.Errorf("a conversation in a folder does not see its own: %.300s", got)
	}
	for _, c := range []map[string]any{
		call("read_file", "path", groups[0], "offset", 2), call("grep", "pattern", "own-words", "path", filepath.Dir(groups[0]), "output_mode", "content"),
	} {
		if got := s.try(c); strings.Contains(got, mine) {
			t.Errorf("a conversation in a folder sees those of others with %v: %.300s", c, got)
		}
	}
}
