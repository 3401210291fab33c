package subject_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// What a turn changed is listed and shown without credentials, and undone once, while
// nothing runs; the model is told.
func TestChanges(t *testing.T) {
	t.Parallel()
	ws, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Restrict: true})
	must(t, err)
	t.Cleanup(func() { must(t, jail.Close()) })
	kept, err := change.Open(change.Options{Dir: t.TempDir(), Jail: jail})
	must(t, err)
	t.Cleanup(func() { must(t, kept.Close()) })

	var told []string
	busy := map[string]bool{"cli:x": true}
	program := &subject.Program{Agent: worker{busy: busy, undone: &told}, Secrets: newSecrets(t)}
	h := newSubject(t, subject.Changes{
		Now: func(context.Context) (*subject.Program, error) { return program, nil },
		Log: slog.New(slog.DiscardHandler),
	})
	h.refused(t, "undo", 501, "undo_missing")
	program.Changes = kept

	path := filepath.Join(ws, "a.txt")
	must(t, os.WriteFile(path, []byte("old\n"), 0o600))
	write := tool.Tool{Name: "write", Sink: tool.SinkWrite, Paths: func(json.RawMessage) []string { return []string{path} }}
	call := tool.Call{ID: "c1", TurnID: "t1", SessionKey: "cli:x"}
	must(t, kept.Before(t.Context(), write, call))
	must(t, os.WriteFile(path, []byte("new sk-hush-0123456789\n"), 0o600))
	_, err = kept.After(t.Context(), call)
	must(t, err)

	type list struct {
		Turns []undo.Turn
		Total int
	}
	if got := read[list](t, h, "undo?session=cli:x"); got.Total != 1 || len(got.Turns) != 1 || got.Turns[0].ID != "t1" {
		t.Fatalf("turns = %+v", got)
	}
	if got := read[list](t, h, "undo?session=cli:y"); got.Total != 0 || got.Turns == nil {
		t.Errorf("turns of another conversation = %+v", got)
	}
	one := read[struct {
		Diff    string
		Preview undo.Report
	}](t, h, "undo/t1")
	if !strings.Contains(one.Diff, "-old\n+new [redacted:key]") || !slices.Equal(one.Preview.Restored, []string{"a.txt"}) {
		t.Errorf("the turn = %+v", one)
	}
	h.refused(t, "undo/none", 404, "undo_turn_missing")

	h.refuses(t, "undo.apply", `{}`, 400, "id is missing")
	h.refuses(t, "undo.apply", `{"id":"t1","turn":1}`, 400, "unknown field")
	h.refuses(t, "undo.apply", `{"id":"none"}`, 404, "no such turn")
	h.refuses(t, "undo.apply", `{"id":"t1"}`, 409, "still running")
	busy["cli:x"] = false
	if report := acts[undo.Report](t, h, "undo.apply", `{"id":"t1"}`); !slices.Equal(report.Restored, []string{"a.txt"}) {
		t.Errorf("report = %+v", report)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "old\n" {
		t.Errorf("after the undo the file holds %q, %v", data, err)
	}
	if !slices.Equal(told, []string{"cli:x a.txt"}) {
		t.Errorf("the model was told %q", told)
	}
	h.refuses(t, "undo.apply", `{"id":"t1"}`, 409, "already")
}
