package subject_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

type replayStep struct {
	At    string
	MS    int64 `json:"duration_ms"`
	Model *struct {
		Model string
		First int64   `json:"first_token_ms"`
		USD   float64 `json:"cost_usd"`
	}
	Tool *struct {
		Name, Arguments string
		IsError         bool `json:"is_error"`
		Bytes           int
		Edits           []struct{ Path, Diff string }
	}
	Wait *struct{ Question, Answer string }
	Said *struct {
		Index      int
		Role, Text string
	}
}

func (s replayStep) kind() string {
	switch {
	case s.Model != nil:
		return "model"
	case s.Tool != nil:
		return "tool"
	case s.Wait != nil:
		return "wait"
	case s.Said != nil:
		return "said " + s.Said.Role
	}
	return "nothing"
}

// A turn is told step by step, in order of time, with what each step took.
func TestReplay(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	at := func(ms int) time.Time { return noon().Add(time.Duration(ms) * time.Millisecond) }
	timed := func(r session.Record, ms int, took int64) session.Record {
		r.Time, r.LatencyMS = at(ms), took
		return r
	}
	s, err := h.Sessions.Acquire(t.Context(), "websocket:a")
	must(t, err)
	turn := func(log, client string, n session.TurnNote, more ...session.Record) {
		first := timed(user("Do it with sk-hush-0123456789"), 0, 0)
		first.InboundID = "websocket:a/" + client
		must(t, s.BeginTurn(log, first))
		must(t, s.Append(more...))
		n.ID = log
		must(t, s.Note(n))
		must(t, s.EndTurn(timed(answer("Done."), 9000, 9000)))
	}
	question, reply := timed(answer("May I?"), 5000, 0), timed(user("yes"), 5000, 3000)
	question.Event, question.Command, reply.Event, reply.Command = "question", true, "answer", true
	reply.InboundID = "websocket:a/reply"
	note := session.TurnNote{Turn: bus.Turn{Model: "m", DurationMS: 9000}, Started: at(0), Edits: []bus.Edit{{CallID: "c1", Path: "a.md", What: "created", Lines: true, Added: 3, Diff: "+x"}}}
	turn("t0", "other", session.TurnNote{})
	turn("t1", "mine", note, timed(calls("c1", "lost"), 1500, 0), question, reply, timed(result("c1", "four"), 6000, 800))
	turn("t2", "later", session.TurnNote{})
	must(t, s.Release())

	// An answer does not rename the turn that asked.
	page := read[struct {
		Messages []struct {
			Content string
			TurnID  string `json:"turn_id"`
		}
	}](t, h, "sessions/websocket:a/webui-thread")
	if m := page.Messages[len(page.Messages)-3]; m.Content != "Done." || m.TurnID != "mine" {
		t.Errorf("the end of the turn is %+v", m)
	}

	dir := t.TempDir()
	var lines strings.Builder
	for _, e := range []ledger.Entry{
		{Time: at(-2000), Turn: "t1", Model: "before the turn"},
		{Time: at(1400), Turn: "t1", Model: "wire", DurationMS: 1300, TTFTMS: 400, USD: 0.02, Billing: ledger.Priced, Outcome: "ok"},
		{Time: at(1500), Turn: "t0", Model: "of another turn"},
		{Time: at(10000), Turn: "t1", Source: "subagent", Model: "wire", DurationMS: 500},
	} {
		lines.Write(append(js(t, e), '\n'))
	}
	must(t, os.WriteFile(filepath.Join(dir, "2026-05.jsonl"), []byte(lines.String()), 0o600))
	record := ledger.New(ledger.Options{Store: disk.Open(dir, nil), Location: time.UTC, Now: noon})
	t.Cleanup(func() { must(t, record.Close()) })
	h.Ledger = record
	type replay struct {
		Began string `json:"began_at"`
		MS    int64  `json:"duration_ms"`
		Model string
		Steps []replayStep
	}
	got := read[replay](t, h, "sessions/websocket:a/turns/mine")
	kinds := []string{}
	for _, s := range got.Steps {
		kinds = append(kinds, s.kind())
	}
	if want := "said user, model, tool, wait, tool, said assistant, model"; strings.Join(kinds, ", ") != want {
		t.Fatalf("steps = %s, want %s", strings.Join(kinds, ", "), want)
	}
	if got.Began != "2026-05-04T12:00:00.000Z" || got.MS != 9000 || got.Model != "m" {
		t.Errorf("the turn = %+v", got)
	}
	if last := got.Steps[6]; last.At != "2026-05-04T12:00:09.500Z" { // a subagent may end after its turn
		t.Errorf("the call of the subagent = %+v", last)
	}
	said, model, lost, wait, tool := got.Steps[0], got.Steps[1], got.Steps[2], got.Steps[3], got.Steps[4]
	if said.Said.Text != "Do it with [redacted:key]" || said.Said.Index != 2 {
		t.Errorf("the message = %+v", *said.Said)
	}
	if model.At != "2026-05-04T12:00:00.100Z" || model.MS != 1300 || model.Model.First != 400 || model.Model.USD != 0.02 {
		t.Errorf("the call of the model = %+v %+v", model, *model.Model)
	}
	if lost.Tool.Arguments != `{"command":"lost"}` || !lost.Tool.IsError {
		t.Errorf("the call without a result = %+v", *lost.Tool)
	}
	if wait.At != "2026-05-04T12:00:02.000Z" || wait.MS != 3000 || wait.Wait.Question != "May I?" || wait.Wait.Answer != "yes" {
		t.Errorf("the wait = %+v %+v", wait, *wait.Wait)
	}
	if tool.At != "2026-05-04T12:00:05.200Z" || tool.MS != 800 || tool.Tool.Name != "exec" || tool.Tool.Bytes != 4 || len(tool.Tool.Edits) != 1 || tool.Tool.Edits[0].Path != "a.md" || tool.Tool.Edits[0].Diff != "" {
		t.Errorf("the tool = %+v %+v", tool, *tool.Tool)
	}

	// The name of the log is as good as that of the client; costs may be missing.
	h.Ledger = nil
	if got := read[replay](t, h, "sessions/websocket:a/turns/t2"); len(got.Steps) != 2 {
		t.Errorf("the last turn = %+v", got)
	}
	h.refused(t, "sessions/websocket:a/turns/none", 404, "turn_missing")
	h.refused(t, "sessions/websocket:none/turns/mine", 404, "session_missing")
}
