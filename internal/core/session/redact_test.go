package session_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// A known secret is not kept, whichever way a record takes and wherever in it the secret
// is: not in the log on disk, and not in the messages that the next prompt is made of.
func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	const key = `hush"hush/0123456789`
	escaped := strings.Trim(string(got(json.Marshal(key))), `"`)
	secrets := &httpsafe.Registry{}
	if skipped := secrets.Add("key", httpsafe.NewSecret(key)); skipped != "" {
		t.Fatal(skipped)
	}
	dir := t.TempDir()
	st := got(session.Open(session.Options{DataDir: dir, Store: disk.Open(dir, nil), Workspace: t.TempDir(), Secrets: secrets}))
	s := got(st.Acquire(t.Context(), "cli:a"))

	user := session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text("mine is " + key)}}
	user.Runtime = &session.RuntimeContext{Version: 1, Suffix: " is " + key}
	calls := []llm.ToolCall{{ID: "c", Name: "exec", Arguments: `{"command":"echo ` + escaped + `"}`}}
	blocks := []llm.Block{{Type: "text", Text: "it says " + key}}
	ok(t, s.BeginTurn("t1", user))
	ok(t, s.Append(
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("I use " + key), ToolCalls: calls}},
		session.Record{Message: llm.Message{Role: llm.ToolRole, ToolCallID: "c", Content: llm.Content{Blocks: blocks}}},
	))
	note := session.TurnNote{Edits: []bus.Edit{{Path: "/w/" + key, Diff: "+" + key}}, Notices: []session.Notice{{Text: "refused " + key}}}
	note.Error = "failed with " + key
	ok(t, s.Note(note))
	ok(t, s.EndTurn(session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("done")}, Failure: "no " + key}))

	kept := s.Messages()
	shown := string(got(json.Marshal(kept)))
	if strings.Contains(shown, "hush") || strings.Count(shown, "[redacted:key]") != 6 {
		t.Errorf("in memory: %s", shown)
	}
	if first := kept[0]; !strings.HasSuffix(first.Content.Text, first.Runtime.Suffix) {
		t.Errorf("%q does not end with %q any more", first.Content.Text, first.Runtime.Suffix)
	}
	if calls[0].Arguments != `{"command":"echo `+escaped+`"}` || !strings.Contains(blocks[0].Text, key) {
		t.Error("the message of the caller was changed")
	}
	ok(t, s.Release())
	ok(t, st.Close())

	found := 0
	ok(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := string(got(os.ReadFile(path)))
		found += strings.Count(text, "[redacted:key]")
		if strings.Contains(text, "hush") {
			t.Errorf("%s has the secret: %s", filepath.Base(path), text)
		}
		return nil
	}))
	if found != 10 {
		t.Errorf("%d places on disk, want 6 of the records and 4 of the note", found)
	}
}

func got[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
