package llmtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

func user(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }

func assistant(s string, ids ...string) llm.Message {
	m := llm.Message{Role: llm.Assistant, Content: llm.Text(s)}
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: id, Name: "f", Arguments: "{}"})
	}
	return m
}

func result(id string) llm.Message {
	return llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "f", Content: llm.Text("ok")}
}

func TestCheckLegal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		msgs []llm.Message
		want string // "" = legal
	}{
		{"hello", []llm.Message{user("a")}, ""},
		{"tool loop", []llm.Message{user("a"), assistant("", "1", "2"), result("2"), result("1"), assistant("", "1"), result("1")}, ""},
		{"none", nil, "no messages"},
		{"starts with assistant", []llm.Message{assistant("a"), user("b")}, "starts with the assistant"},
		{"starts with result", []llm.Message{result("1"), user("b")}, "not called"},
		{"ends with assistant", []llm.Message{user("a"), assistant("b")}, "last message"},
		{"user twice", []llm.Message{user("a"), user("b")}, "twice in a row"},
		{"assistant twice", []llm.Message{user("a"), assistant("a"), assistant("b"), user("c")}, "twice in a row"},
		{"open call", []llm.Message{user("a"), assistant("", "1", "2"), result("1"), user("b")}, `call "2" has no result`},
		{"open call at the end", []llm.Message{user("a"), assistant("", "1", "2"), result("1")}, `call "2" has no result`},
		{"second result", []llm.Message{user("a"), assistant("", "1"), result("1"), result("1")}, "second result"},
		{"late result", []llm.Message{user("a"), assistant("", "1"), result("1"), user("b"), result("1")}, "not called just before"},
		{"equal ids", []llm.Message{user("a"), assistant("", "1", "1"), result("1")}, "two calls"},
		{"system inside", []llm.Message{{Role: llm.System, Content: llm.Text("s")}, user("a")}, "does not belong"},
		{"blank user", []llm.Message{user(" ")}, "empty content"},
		{"blank assistant", []llm.Message{user("a"), assistant(""), user("b")}, "neither text nor calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := llmtest.CheckLegal(llm.Request{Messages: c.msgs})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckLegal = %v, want %q", err, c.want)
			}
		})
	}
}

func TestScriptAnswersInOrder(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t,
		llmtest.Call("read", map[string]int{"n": 1}).Call("list", `{}`).Saying("looking"),
		llmtest.Think("hm", "äöü and more"),
		llmtest.Fail(&llm.Error{Kind: llm.Overloaded}),
		llmtest.Func(func(r llm.Request) llmtest.Step { return llmtest.Length(r.System) }),
	)
	req := llm.Request{System: "sys", Messages: []llm.Message{user("hi")}}

	got, err := llm.Collect(t.Context(), m, req)
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.ToolCall{{ID: "call_1", Name: "read", Arguments: `{"n":1}`}, {ID: "call_2", Name: "list", Arguments: `{}`}}
	if d := cmp.Diff(want, got.Message.ToolCalls); d != "" || got.Finish != llm.FinishToolCalls || got.Message.Content.Text != "looking" {
		t.Errorf("first answer %+v, calls differ: %s", got, d)
	}

	var text, thought string
	for ev, err := range m.Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind {
		case llm.TextDelta:
			text += ev.Text
		case llm.ReasoningDelta:
			thought += ev.Text
		}
	}
	if text != "äöü and more" || thought != "hm" {
		t.Errorf("deltas %q, %q", text, thought)
	}
	if _, err := llm.Collect(t.Context(), m, req); llm.AsError(err).Kind != llm.Overloaded {
		t.Errorf("error = %v, want overloaded", err)
	}
	if got, _ := llm.Collect(t.Context(), m, req); got.Finish != llm.FinishLength || got.Message.Content.Text != "sys" {
		t.Errorf("computed answer %+v", got)
	}
	if n := len(m.Requests()); n != 4 || m.Left() != 0 {
		t.Errorf("recorded %d requests, %d steps left", n, m.Left())
	}
}

func TestScriptBlockHonoursContext(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Block(make(chan struct{})))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := llm.Collect(ctx, m, llm.Request{Messages: []llm.Message{user("a")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want canceled", err)
	}
}
