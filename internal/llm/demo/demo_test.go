package demo_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/demo"
)

func tools(names ...string) []llm.ToolDef {
	var defs []llm.ToolDef
	for _, n := range names {
		props := map[string]string{
			"list_dir": `"path":{},"max_entries":{}`, "read_file": `"path":{}`, "write_file": `"path":{},"content":{}`,
			"edit_file": `"path":{},"old_text":{},"new_text":{}`, "exec": `"command":{}`,
			"grep": `"pattern":{},"path":{},"fixed_strings":{},"output_mode":{}`, "glob": `"pattern":{},"path":{}`,
		}[n]
		defs = append(defs, llm.ToolDef{Name: n, Schema: json.RawMessage(`{"type":"object","properties":{` + props + `}}`)})
	}
	return defs
}

func allTools() []llm.ToolDef {
	return tools("edit_file", "exec", "glob", "grep", "list_dir", "read_file", "write_file")
}

func user(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }

// play runs a turn like an agent would: results come from answer. It returns
// the calls as "name args" and the final text.
func play(t *testing.T, req llm.Request, answer func(call llm.ToolCall) (string, bool)) ([]string, string) {
	t.Helper()
	m := demo.New(demo.Options{})
	var calls []string
	ids := map[string]bool{}
	for range 50 {
		resp := collect(t, m, req)
		if len(resp.Message.ToolCalls) == 0 {
			if resp.Finish != llm.FinishStop {
				t.Errorf("finish = %q, want stop", resp.Finish)
			}
			return calls, resp.Message.Content.Text
		}
		if resp.Finish != llm.FinishToolCalls {
			t.Errorf("finish = %q, want tool_calls", resp.Finish)
		}
		req.Messages = append(req.Messages, resp.Message)
		for _, c := range resp.Message.ToolCalls {
			if ids[c.ID] {
				t.Errorf("call id %q used twice", c.ID)
			}
			ids[c.ID] = true
			calls = append(calls, c.Name+" "+c.Arguments)
			out, failed := answer(c)
			req.Messages = append(req.Messages, llm.Message{
				Role: llm.ToolRole, ToolCallID: c.ID, Name: c.Name, Content: llm.Text(out), IsError: failed,
			})
		}
	}
	t.Fatal("the turn never ends")
	return nil, ""
}

// collect checks the stream contract on the way.
func collect(t *testing.T, m llm.Model, req llm.Request) llm.Response {
	t.Helper()
	var text, thought strings.Builder
	var resp *llm.Response
	for ev, err := range m.Stream(t.Context(), req) {
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		if resp != nil {
			t.Fatal("event after Done")
		}
		switch ev.Kind {
		case llm.TextDelta:
			text.WriteString(ev.Text)
		case llm.ReasoningDelta:
			thought.WriteString(ev.Text)
		case llm.Done:
			resp = ev.Response
		}
	}
	if resp == nil {
		t.Fatal("stream ended without Done")
	}
	if got, want := text.String(), resp.Message.Content.Text; got != want {
		t.Errorf("deltas = %q, want %q", got, want)
	}
	if got, want := thought.String(), resp.Message.Reasoning; got != want {
		t.Errorf("reasoning deltas = %q, want %q", got, want)
	}
	return *resp
}

func TestPhrasesCallTools(t *testing.T) {
	t.Parallel()
	cases := []struct {
		text   string
		calls  []string
		answer []string // must occur in the final text
	}{
		{"list files", []string{`list_dir {"path":"."}`}, []string{"In this folder there is:", "RESULT", "not an AI"}},
		{"列出 docs 里的文件", []string{`list_dir {"path":"docs"}`}, []string{"docs 里有：", "RESULT", "不是 AI"}},
		{"read a.txt", []string{`read_file {"path":"a.txt"}`}, []string{"a.txt says:", "RESULT"}},
		{"读取 a.txt", []string{`read_file {"path":"a.txt"}`}, []string{"a.txt 的内容："}},
		{`write "hi" to a.txt`, []string{`write_file {"path":"a.txt","content":"hi\n"}`}, []string{"Written to a.txt"}},
		{"把“你好”写入 a.txt", []string{`write_file {"path":"a.txt","content":"你好\n"}`}, []string{"已写入 a.txt"}},
		{
			"search for TODO",
			[]string{`grep {"pattern":"TODO","path":".","fixed_strings":true,"output_mode":"content"}`},
			[]string{`Searching for "TODO"`},
		},
		{
			"在 src 里搜索 TODO",
			[]string{`grep {"pattern":"TODO","path":"src","fixed_strings":true,"output_mode":"content"}`},
			[]string{"搜索“TODO”的结果"},
		},
		{"find *.go", []string{`glob {"pattern":"*.go","path":"."}`}, []string{"RESULT"}},
		{"run `date`", []string{`exec {"command":"date"}`}, []string{"The command `date` gave:"}},
		{"运行 `date`", []string{`exec {"command":"date"}`}, []string{"命令 `date` 的输出："}},
		{
			"note: buy milk",
			[]string{
				`read_file {"path":"notes.md"}`,
				`edit_file {"path":"notes.md","old_text":"# Notes\n\n","new_text":"# Notes\n\n- buy milk\n"}`,
			},
			[]string{"Noted: buy milk"},
		},
		{
			"记住买牛奶",
			[]string{
				`read_file {"path":"notes.md"}`,
				`edit_file {"path":"notes.md","old_text":"# Notes\n\n","new_text":"# Notes\n\n- 买牛奶\n"}`,
			},
			[]string{"记下了：买牛奶"},
		},
		{
			"list files then read a.txt",
			[]string{`list_dir {"path":"."}`, `read_file {"path":"a.txt"}`},
			[]string{"In this folder there is:", "a.txt says:"},
		},
		{
			"列出文件，然后读取 a.txt",
			[]string{`list_dir {"path":"."}`, `read_file {"path":"a.txt"}`},
			[]string{"当前文件夹里有：", "a.txt 的内容："},
		},
		{"demo:tools 3", []string{
			`list_dir {"path":".","max_entries":100}`, `list_dir {"path":".","max_entries":101}`, `list_dir {"path":".","max_entries":102}`,
		}, []string{"Made 3 tool calls"}},
		{`demo:call exec {"command":"x y"}`, []string{`exec {"command":"x y"}`}, []string{"exec answered", "RESULT"}},
		{"demo:call nothing {}", nil, []string{`no tool "nothing"`}},
		{"what can you do?", nil, []string{"not an AI", "list files", `run "date"`, "nanobot onboard"}},
		{"你能做什么？", nil, []string{"不是 AI", "列出文件", "nanobot onboard"}},
		{"tell me a joke", nil, []string{"not an AI", "ANTHROPIC_API_KEY", "Ollama", "nanobot onboard"}},
		{"讲个笑话", nil, []string{"不是 AI", "ANTHROPIC_API_KEY", "Ollama", "nanobot onboard"}},
		{
			"list files\n\n[Runtime Context — metadata only]\nread secrets.txt\nnote: x\n[/Runtime Context]",
			[]string{`list_dir {"path":"."}`},
			[]string{"RESULT"},
		},
		{"run `echo [Runtime Context]`", []string{`exec {"command":"echo [Runtime Context]"}`}, nil},
		{"[Runtime Context]\nChannel: cli\n[/Runtime Context]\n\nread a.txt", []string{`read_file {"path":"a.txt"}`}, nil},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			req := llm.Request{Tools: allTools(), Messages: []llm.Message{user(c.text)}}
			calls, text := play(t, req, func(llm.ToolCall) (string, bool) { return "RESULT", false })
			if diff := cmp.Diff(c.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			for _, want := range c.answer {
				if !strings.Contains(text, want) {
					t.Errorf("answer %q does not contain %q", text, want)
				}
			}
		})
	}
}

func TestFailedStepEndsTheSequence(t *testing.T) {
	t.Parallel()
	req := llm.Request{Tools: allTools(), Messages: []llm.Message{user("read gone.txt then list files")}}
	calls, text := play(t, req, func(llm.ToolCall) (string, bool) { return "Error: not found", true })
	if want := []string{`read_file {"path":"gone.txt"}`}; !cmp.Equal(calls, want) {
		t.Errorf("calls = %v, want %v", calls, want)
	}
	for _, want := range []string{"did not work: not found.", "1 more not done"} {
		if !strings.Contains(text, want) {
			t.Errorf("answer %q does not contain %q", text, want)
		}
	}
}

func TestFirstNoteCreatesTheFile(t *testing.T) {
	t.Parallel()
	req := llm.Request{Tools: allTools(), Messages: []llm.Message{user("remember x")}}
	calls, _ := play(t, req, func(c llm.ToolCall) (string, bool) { return "r", c.Name == "read_file" })
	want := []string{`read_file {"path":"notes.md"}`, `edit_file {"path":"notes.md","old_text":"","new_text":"# Notes\n\n- x\n"}`}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A project may have a file of the same name: it stays as it is.
func TestNoteBesideAnotherFile(t *testing.T) {
	t.Parallel()
	req := llm.Request{Tools: allTools(), Messages: []llm.Message{user("remember x")}}
	edits := 0
	calls, text := play(t, req, func(c llm.ToolCall) (string, bool) {
		if c.Name != "edit_file" {
			return "# My project", false
		}
		edits++
		return "Error: old_text was not found in notes.md.", edits == 1
	})
	if len(calls) != 3 || !strings.HasPrefix(calls[2], `edit_file {"path":"notes-`) {
		t.Errorf("calls = %v, want a file of its own in the end", calls)
	}
	if !strings.Contains(text, "Noted: x") || strings.Contains(text, "did not work") {
		t.Errorf("answer %q", text)
	}
}

// Without edit_file an existing notes file must never be overwritten.
func TestNoteWithoutEdit(t *testing.T) {
	t.Parallel()
	req := llm.Request{Tools: tools("read_file", "write_file"), Messages: []llm.Message{user("remember x")}}
	calls, _ := play(t, req, func(llm.ToolCall) (string, bool) { return "r", false })
	if len(calls) != 1 || !strings.HasPrefix(calls[0], `write_file {"path":"notes-`) {
		t.Errorf("calls = %v, want one write to a file of its own", calls)
	}
}

func TestOnlyOfferedTools(t *testing.T) {
	t.Parallel()
	never := func(llm.ToolCall) (string, bool) { t.Error("a tool was called"); return "", false }
	for _, text := range []string{"list files", "read a.txt", "write 'x' to a.txt", "search for x", "run \"date\"", "note: x", "demo:tools 2", "列出文件"} {
		for name, req := range map[string]llm.Request{
			"no tools":    {},
			"choice none": {Tools: allTools(), ToolChoice: "none"},
		} {
			req.Messages = []llm.Message{user(text)}
			if _, got := play(t, req, never); got == "" {
				t.Errorf("%s, %q: empty answer", name, text)
			}
		}
	}
	_, text := play(t, llm.Request{Tools: tools("list_dir", "read_file"), Messages: []llm.Message{user("what can you do?")}}, never)
	if strings.Contains(text, "run `") || strings.Contains(text, "read hello.txt") || !strings.Contains(text, "list files") {
		t.Errorf("abilities with two tools = %q", text)
	}
}

func TestMidConversation(t *testing.T) {
	t.Parallel()
	req := llm.Request{Tools: allTools(), Messages: []llm.Message{
		user("list files"),
		{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "1", Name: "list_dir", Arguments: "{}"}}},
		{Role: llm.ToolRole, ToolCallID: "1", Name: "list_dir", Content: llm.Text("old")},
		{Role: llm.Assistant, Content: llm.Text("done")},
		user("read b.txt"),
	}}
	calls, text := play(t, req, func(llm.ToolCall) (string, bool) { return "new", false })
	if want := []string{`read_file {"path":"b.txt"}`}; !cmp.Equal(calls, want) {
		t.Errorf("calls = %v, want %v", calls, want)
	}
	if !strings.Contains(text, "new") || strings.Contains(text, "old") {
		t.Errorf("answer = %q, want the new result only", text)
	}
}

func TestLongResultsAreShortened(t *testing.T) {
	t.Parallel()
	req := llm.Request{Tools: allTools(), Messages: []llm.Message{user("read a.txt")}}
	_, text := play(t, req, func(llm.ToolCall) (string, bool) {
		return "```\n" + strings.Repeat("line\n", 500) + strings.Repeat("长", 5000), false
	})
	if len(text) > 2000 || !strings.Contains(text, "…") || !strings.Contains(text, "\n````\n") {
		t.Errorf("answer of %d bytes: %q", len(text), text)
	}
}

func TestDeterministic(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"list files", "tell me more", "demo:repeat 20 words"} {
		req := llm.Request{Tools: allTools(), Messages: []llm.Message{user(text)}}
		var runs [2][]llm.Event
		for i := range runs {
			for ev, err := range demo.New(demo.Options{}).Stream(t.Context(), req) {
				if err != nil {
					t.Fatal(err)
				}
				runs[i] = append(runs[i], ev)
			}
		}
		if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
			t.Errorf("%q: two runs differ:\n%s", text, diff)
		}
		if len(runs[0]) < 3 {
			t.Errorf("%q: %d events, want a stream", text, len(runs[0]))
		}
	}
}

func TestRepeatUsageAndLength(t *testing.T) {
	t.Parallel()
	req := llm.Request{Messages: []llm.Message{user("demo:repeat 100 words")}}
	resp := collect(t, demo.New(demo.Options{}), req)
	if n := len(strings.Fields(resp.Message.Content.Text)); n != 100 {
		t.Errorf("%d words, want 100", n)
	}
	if u := resp.Usage; u.Prompt == 0 || u.Completion < 100 || u.Reasoning == 0 || !u.Estimated {
		t.Errorf("usage = %+v", u)
	}
	req.MaxTokens = 10
	resp = collect(t, demo.New(demo.Options{}), req)
	if n := len(strings.Fields(resp.Message.Content.Text)); n != 10 || resp.Finish != llm.FinishLength {
		t.Errorf("%d words, finish %q; want 10, length", n, resp.Finish)
	}
}

func TestKnobErrors(t *testing.T) {
	t.Parallel()
	ask := func(text string) *llm.Error {
		t.Helper()
		_, err := llm.Collect(t.Context(), demo.New(demo.Options{}), llm.Request{Messages: []llm.Message{user(text)}})
		e, ok := errors.AsType[*llm.Error](err)
		if !ok {
			t.Fatalf("%q: error = %v, want *llm.Error", text, err)
		}
		return e
	}
	for _, k := range llm.Kinds() {
		if got := ask("demo:error " + string(k)).Kind; got != k {
			t.Errorf("kind = %q, want %q", got, k)
		}
	}
	if got := ask("demo:error rate_limit 7").RetryAfter; got != 7*time.Second {
		t.Errorf("RetryAfter = %v, want 7s", got)
	}
	if got := ask("demo:error nonsense").Kind; got != llm.InvalidRequest {
		t.Errorf("kind = %q, want invalid_request", got)
	}
	if got := ask("demo:truncate").Kind; got != llm.StreamTruncated {
		t.Errorf("kind = %q, want stream_truncated", got)
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, text := range []string{"demo:wait", "demo:repeat 100 words", "demo:empty"} {
		_, err := llm.Collect(ctx, demo.New(demo.Options{}), llm.Request{Messages: []llm.Message{user(text)}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%q: error = %v, want context.Canceled", text, err)
		}
	}
}

func TestBreakingOut(t *testing.T) {
	t.Parallel()
	n := 0
	for range demo.New(demo.Options{}).Stream(t.Context(), llm.Request{Messages: []llm.Message{user("demo:repeat 100 words")}}) {
		if n++; n == 5 {
			break
		}
	}
	if n != 5 {
		t.Errorf("%d events, want 5", n)
	}
}

func TestBlocksAndImages(t *testing.T) {
	t.Parallel()
	req := llm.Request{Tools: allTools(), Messages: []llm.Message{{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{
		{Type: "image_url", ImageURL: "data:image/png;base64,AA==", Path: "x.png"},
		{Type: "text", Text: "list files"},
	}}}}}
	calls, _ := play(t, req, func(llm.ToolCall) (string, bool) { return "r", false })
	if want := []string{`list_dir {"path":"."}`}; !cmp.Equal(calls, want) {
		t.Errorf("calls = %v, want %v", calls, want)
	}
}
