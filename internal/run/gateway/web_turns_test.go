package gateway_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/web"
)

// turnPage is what a page of a conversation says about turns.
type turnPage struct {
	Messages []struct {
		Role, Content string
		TurnID        string `json:"turn_id"`
		ToolCalls     []struct {
			CallID     string `json:"call_id"`
			StartedAt  string `json:"started_at"`
			DurationMS int64  `json:"duration_ms"`
		} `json:"tool_calls"`
	}
	Turns []struct {
		TurnID     string `json:"turn_id"`
		UndoID     string `json:"undo_id"`
		UndoneBy   string `json:"undone_by"`
		StopReason string `json:"stop_reason"`
		Model      string
		Error      string
		Usage      struct {
			Prompt int `json:"prompt_tokens"`
		}
		Files []struct{ Path, What string }
		Edits []struct {
			CallID    string `json:"call_id"`
			Path      string
			Operation string
			Added     int
			Diff      string
		}
		Receipts []bus.Receipt
	}
}

// After a reload a page knows about a turn what it knew while it ran: the model,
// what it used, the changed files; and it can take them back, and that back.
func TestWebTurns(t *testing.T) {
	t.Parallel()
	edit := llmtest.Call("write_file", map[string]any{"path": "a.txt", "content": "one\nsk-of-openai-0123456789\n"})
	var told []string
	model := llmtest.NewScript(t, edit, llmtest.Reply("done"))
	model.Otherwise = func(r llm.Request) llmtest.Step {
		for _, m := range r.Messages {
			told = append(told, m.Content.String())
		}
		return llmtest.Reply("I see")
	}
	o := newOffice(t, model)
	ask := func(text string) {
		for _, err := range o.g.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "cli", ChatID: "x"}, Text: text}) {
			o.must(err)
		}
	}
	ask("write it")

	var p turnPage
	o.look("sessions/cli:x/webui-thread", &p)
	if len(p.Messages) != 3 || len(p.Turns) != 1 {
		t.Fatalf("page = %+v", p)
	}
	turn := p.Turns[0]
	switch {
	case turn.TurnID == "" || turn.TurnID != p.Messages[0].TurnID || turn.UndoID == "":
		t.Errorf("ids: %+v", turn)
	case turn.StopReason != "completed" || turn.Model == "" || turn.Usage.Prompt == 0 || turn.Error != "":
		t.Errorf("outcome: %+v", turn)
	case len(turn.Files) != 1 || turn.Files[0].Path != "a.txt" || turn.Files[0].What != "created":
		t.Errorf("files: %+v", turn.Files)
	case len(turn.Edits) != 1 || turn.Edits[0].Added != 2 || !strings.Contains(turn.Edits[0].Diff, "+one\n") || strings.Contains(turn.Edits[0].Diff, "sk-of"):
		t.Errorf("edits: %+v", turn.Edits)
	case turn.Edits[0].CallID != p.Messages[1].ToolCalls[0].CallID || len(turn.Receipts) != 1 || turn.Receipts[0].Status != "ok":
		t.Errorf("calls: %+v", turn)
	}

	var one struct {
		Diff    string
		Preview struct{ Deleted []string }
	}
	o.look("undo/"+turn.UndoID, &one)
	if !strings.Contains(one.Diff, "+one") || strings.Contains(one.Diff, "sk-of") || len(one.Preview.Deleted) != 1 {
		t.Errorf("undo = %+v", one)
	}
	type undone struct {
		Undo              string
		Deleted, Restored []string
	}
	undo := func(id string) (report undone, err error) {
		for {
			out, _, err := gateway.WebAPI(o.g).Do(t.Context(), "undo.apply", json.RawMessage(`{"id":"`+id+`"}`))
			if e, ok := errors.AsType[*web.Error](err); ok && e.Code == "session_running" { // the answer may be out before its turn is over
				continue
			}
			if err != nil {
				return report, err
			}
			return report, json.Unmarshal(out, &report)
		}
	}
	report, err := undo(turn.UndoID)
	if _, gone := os.Stat(filepath.Join(o.g.Workspace(), "a.txt")); err != nil || len(report.Deleted) != 1 || !errors.Is(gone, os.ErrNotExist) {
		t.Fatalf("undo = %+v, %v; the file: %v", report, err, gone)
	}
	if _, err := undo(turn.UndoID); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second undo: %v", err)
	}
	ask("what now?")
	if !strings.Contains(strings.Join(told, "\n"), "took back file changes") {
		t.Errorf("the model was told %q", told)
	}
	again, err := undo(report.Undo)
	if data, rerr := os.ReadFile(filepath.Join(o.g.Workspace(), "a.txt")); err != nil || rerr != nil || len(again.Restored) != 1 || !strings.HasPrefix(string(data), "one\n") {
		t.Errorf("undo of the undo = %+v, %v, %v", again, err, rerr)
	}
	var list struct {
		Turns []struct{ ID, Undoes string }
		Total int
	}
	o.look("undo?session=cli:x", &list)
	if list.Total != 3 || list.Turns[0].Undoes != report.Undo {
		t.Errorf("list = %+v", list)
	}
}
