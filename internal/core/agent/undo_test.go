package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// undoLog is a guard that writes down what it is asked about changes.
type undoLog struct {
	turn.Guard
	asked []string
}

func (u *undoLog) Undo(_ context.Context, _ bus.Inbound, session, turn string, force bool) (string, []string, error) {
	u.asked = append(u.asked, fmt.Sprintf("undo %s %q %v", session, turn, force))
	switch turn {
	case "broken":
		return "", nil, errors.New("disk on fire")
	case "none":
		return "nothing there", nil, nil
	}
	return "**took back**", []string{"a.txt", "b.txt"}, nil
}

func (u *undoLog) Diff(_ context.Context, _ bus.Inbound, session, turn string) (string, error) {
	u.asked = append(u.asked, fmt.Sprintf("diff %s %q", session, turn))
	return "```diff\n-a\n```", nil
}

func (u *undoLog) Turns(_ context.Context, _ bus.Inbound, session string) (string, error) {
	u.asked = append(u.asked, "list "+session)
	return "3f2a  1 path changed", nil
}

func TestUndoCommands(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello"), llmtest.Reply("I see")))
	u := &undoLog{Guard: openGuard(t, h.ws)}
	h.opts.Guard = u
	h.start()
	h.ask(in("1", "hi"))
	for _, c := range []struct{ cmd, want, asked string }{
		{"/diff", "```diff", `diff test:1 ""`},
		{"/diff 3f2a", "```diff", `diff test:1 "3f2a"`},
		{"/undo none", "nothing there", `undo test:1 "none" false`},
		{"/undo force", "took back", `undo test:1 "" true`},
		{"/undo 3f2a Force", "took back", `undo test:1 "3f2a" true`},
		{"/undo a b", "Usage: /undo [turn] [force] | --list", ""},
		{"/undo --list", "3f2a  1 path", "list test:1"},
		{"/undo --list force", "Usage", ""},
		{"/diff --list", "Usage", ""},
		{"/undo --force", "Usage", ""},
		{"/diff a force", "Usage: /diff [turn]", ""},
		{"/undo broken", "disk on fire", `undo test:1 "broken" false`},
	} {
		u.asked = nil
		outs, err := h.collect(in("1", c.cmd))
		if err != nil || len(outs) != 1 || !strings.Contains(outs[0].Text, c.want) {
			t.Fatalf("%s: %+v, %v; want %q", c.cmd, outs, err, c.want)
		}
		if got := strings.Join(u.asked, ";"); got != c.asked {
			t.Errorf("%s asked %q, want %q", c.cmd, got, c.asked)
		}
		if markdown := strings.ContainsAny(outs[0].Text, "`*"); markdown && outs[0].Plain {
			t.Errorf("%s: Plain = %v for %q", c.cmd, outs[0].Plain, outs[0].Text)
		}
	}
	// The model learns that its changes are gone, and nothing else of it.
	h.ask(in("1", "what now?"))
	var all strings.Builder
	for _, m := range h.model.Last().Messages {
		fmt.Fprintln(&all, m.Content.String())
	}
	seen := all.String()
	if strings.Count(seen, "took back file changes you made") != 2 || !strings.Contains(seen, "a.txt, b.txt") || strings.Contains(seen, "/undo") {
		t.Errorf("the model saw:\n%s", seen)
	}
	if err := session.CheckLegal(h.log("test:1")); err != nil {
		t.Error(err)
	}
	for line := range strings.SplitSeq(h.ask(in("1", "/history 20")), "\n") {
		if strings.Contains(line, "took back") {
			t.Errorf("/history shows %q", line)
		}
	}
}

// A note about an undo leaves the call of a killed turn with a result.
func TestUndoneAfterKill(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("I see")))
	h.past(false, []session.Record{said(llm.User, "a", "hi"), said(llm.Assistant, "", "", llm.ToolCall{ID: "c", Name: "say", Arguments: "{}"})})
	h.start()
	if err := h.agent.Undone(t.Context(), "test:1", []string{"a.txt"}); err != nil {
		t.Fatal(err)
	}
	if err := session.CheckLegal(h.log("test:1")); err != nil {
		t.Error(err)
	}
	h.ask(in("1", "what now?"))
	var all strings.Builder
	for _, m := range h.model.Last().Messages {
		fmt.Fprintln(&all, m.ToolCallID, m.Content.String())
	}
	if seen := all.String(); !strings.Contains(seen, "\nc ") || !strings.Contains(seen, "a.txt") {
		t.Errorf("the model saw:\n%s", seen)
	}
}

func TestUndoWithoutRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t)).start()
	if got := h.ask(in("1", "/undo")); !strings.Contains(got, "not kept here") {
		t.Errorf("/undo = %q", got)
	}
}

// Receipts and the session log say what ran. What the reply says about it is the
// model's business.
func TestReceiptsTravel(t *testing.T) {
	t.Parallel()
	fail := textTool("write_it", tool.Tool{Sink: tool.SinkWrite}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) {
		if s == "bad" {
			return tool.Fail(tool.DeniedPolicy, "no"), nil
		}
		return tool.Text("written"), nil
	})
	h := newHouse(t, llmtest.NewScript(t,
		llmtest.Reply("I've created the file a.txt."),
		llmtest.Call("write_it", `{"text":"bad"}`), llmtest.Reply("Done!"),
		llmtest.Call("write_it", `{"text":"good"}`), llmtest.Reply("I've created the file a.txt."),
		llmtest.Reply("Paris."),
	), fail).start()
	for _, c := range []struct {
		msg    string
		status []string
	}{
		{"write", nil},
		{"write again", []string{"denied"}},
		{"and again", []string{"ok"}},
		{"capital of France?", nil},
	} {
		outs, err := h.collect(in("1", c.msg))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outs {
			if o.Kind == bus.Notice {
				t.Errorf("%s: notice %q", c.msg, o.Text)
			}
		}
		final := outs[len(outs)-1]
		if final.Kind != bus.Final {
			t.Fatalf("%s: the last event is %+v", c.msg, final)
		}
		var status []string
		for _, r := range final.Turn.Receipts {
			status = append(status, r.Status)
			if len(r.ArgsSHA256) != 64 || r.Name != "write_it" || r.CallID == "" || r.Bytes == 0 {
				t.Errorf("%s: receipt %+v", c.msg, r)
			}
		}
		if fmt.Sprint(status) != fmt.Sprint(c.status) {
			t.Errorf("%s: receipts %v, want %v", c.msg, status, c.status)
		}
	}
	var denied []bool
	for _, r := range h.log("test:1") {
		if r.Role == llm.ToolRole {
			denied = append(denied, r.Denied)
		}
	}
	if !slices.Equal(denied, []bool{true, false}) {
		t.Errorf("results marked as denied: %v", denied)
	}
}
