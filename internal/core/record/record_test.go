package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/core/record"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func block(at string) string {
	return "\n\n[Runtime Context — metadata only, not instructions]\nCurrent Time: " + at + "\nChannel: cli\nChat ID: direct\n[/Runtime Context]"
}

func user(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }

// first is the request that begins the recorded turn.
func first() llm.Request {
	temperature := 0.5
	return llm.Request{
		Model: "m", System: "You work in /home/ann/ws.", SessionKey: "cli:direct", TurnID: "t1", MaxTokens: 100, Temperature: &temperature,
		Tools:    []llm.ToolDef{{Name: "read_file", Description: "Reads.", Schema: []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
		Messages: []llm.Message{user("earlier"), {Role: llm.Assistant, Content: llm.Text("yes")}, user("read a.txt" + block("2026-01-02 10:00"))},
	}
}

// second follows when the tool has run.
func second(result string) llm.Request {
	r := first()
	r.Messages = append(r.Messages,
		llm.Message{Role: llm.Assistant, Content: llm.Text(""), ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "read_file", Arguments: `{"path":"a.txt"}`}}},
		llm.Message{Role: llm.ToolRole, ToolCallID: "call_1", Name: "read_file", Content: llm.Text(result)})
	return r
}

func ask(t *testing.T, m llm.Model, req llm.Request) ([]llm.Event, error) {
	t.Helper()
	var events []llm.Event
	for ev, err := range m.Stream(t.Context(), req) {
		if err != nil {
			return events, err
		}
		events = append(events, ev)
	}
	return events, nil
}

// recorded makes a recording of a turn with a tool, and says what was streamed.
func recorded(t *testing.T, o record.Options, result string) (path string, streamed [][]llm.Event) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "turn.jsonl")
	w, err := record.Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	script := llmtest.NewScript(t, llmtest.Call("read_file", `{"path":"a.txt"}`).Saying("Let me see."), llmtest.Think("hm, well", "It says "+result))
	m := record.Record(script, w)
	call := tool.Call{ID: "call_1", Name: "read_file", Input: []byte(`{"path":"a.txt"}`), TurnID: "t1"}
	for i, req := range []llm.Request{first(), second(result)} {
		if i == 1 {
			w.Tool(t.Context(), call, tool.Text(result), time.Second)
		}
		events, err := ask(t, m, req)
		if err != nil {
			t.Fatal(err)
		}
		streamed = append(streamed, events)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path, streamed
}

func load(t *testing.T, path string) *record.Recording {
	t.Helper()
	r, err := record.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func call(t *testing.T, p *record.Player, name, input string) tool.Result {
	t.Helper()
	for _, tl := range p.Tools(nil) {
		if tl.Name == name {
			r, err := tl.Run(t.Context(), tool.Call{Name: name, Input: []byte(input)})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatalf("no tool %s", name)
	return tool.Result{}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	path, streamed := recorded(t, record.Options{Header: record.Header{Version: "v1"}}, "hello <&> \x01 ü")
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v; want 0600", info.Mode(), err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || strings.Count(string(raw), "read a.txt") != 1 || strings.Count(string(raw), "You work in") != 1 {
		t.Errorf("what two requests share is not written once: %s, %v", raw, err)
	}
	r := load(t, path)
	if r.Header.Version != "v1" || r.Torn || len(r.Exchanges) != 2 || len(r.Tools) != 1 {
		t.Fatalf("recording = %+v", r)
	}
	want := []llm.Request{first(), second("hello <&> \x01 ü")}
	for i, x := range r.Exchanges {
		if d := cmp.Diff(want[i], x.Request, cmp.Transformer("schema", func(d llm.ToolDef) string { return d.Name + d.Description }), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("request %d: %s", i+1, d)
		}
	}
	p := record.NewPlayer(r, record.PlayerOptions{})
	for i, req := range want {
		if i == 1 {
			if got := call(t, p, "read_file", `{ "path": "a.txt" }`); got.Content.Text != "hello <&> \x01 ü" {
				t.Errorf("tool result = %q", got.Content.Text)
			}
		}
		events, err := ask(t, p, req)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(streamed[i], events, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("events of request %d: %s", i+1, d)
		}
	}
	if d := p.Differences(); len(d) > 0 {
		t.Errorf("differences = %v, want none", d)
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	t.Parallel()
	path, _ := recorded(t, record.Options{}, "hello")
	for _, tt := range []struct {
		name   string
		change func(r *llm.Request)
		input  string
		want   []string // in this order, part of what is told
	}{
		{name: "the time", change: func(r *llm.Request) { r.Messages[2] = user("read a.txt" + block("2027-07-07 07:07")) }},
		{name: "the workspace", change: func(r *llm.Request) { r.System = "You work in /tmp/x." }},
		{name: "turn and model", change: func(r *llm.Request) { r.TurnID, r.Model = "other", "other" }},
		{name: "system prompt", change: func(r *llm.Request) { r.System = "You play in /tmp/x." }, want: []string{"request 1: system prompt, line 1"}},
		{name: "a tool's text", change: func(r *llm.Request) {
			r.Tools = []llm.ToolDef{{Name: "read_file", Description: "Writes.", Schema: r.Tools[0].Schema}}
		}, want: []string{"tool read_file, description\n    recorded: Reads.\n    now:      Writes."}},
		{name: "a tool's schema", change: func(r *llm.Request) {
			r.Tools = []llm.ToolDef{{Name: "read_file", Description: "Reads.", Schema: []byte(`{"type":"object","properties":{"file":{"type":"string"}}}`)}}
		}, want: []string{"schema, properties, file", "schema, properties, path"}},
		{name: "another tool", change: func(r *llm.Request) { r.Tools = append(r.Tools[:1:1], llm.ToolDef{Name: "exec"}) }, want: []string{"tool exec\n    recorded: not offered"}},
		{name: "no tools", change: func(r *llm.Request) { r.Tools = nil }, want: []string{"tool read_file\n    recorded: offered"}},
		{name: "a message", change: func(r *llm.Request) { r.Messages[1] = llm.Message{Role: llm.Assistant, Content: llm.Text("no")} }, want: []string{"message 2 (assistant), content\n    recorded: yes\n    now:      no"}},
		{name: "history", change: func(r *llm.Request) { r.Messages = r.Messages[2:] }, want: []string{"message 1 (user), content", "number of messages\n    recorded: 3\n    now:      1", "message 2", "message 2", "message", "message"}},
		{name: "arguments", input: `{"path":"b.txt"}`, want: []string{"request 1: call of read_file\n    recorded: {\"path\":\"a.txt\"}\n    now:      {\"path\":\"b.txt\"}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := record.NewPlayer(load(t, path), record.PlayerOptions{Recorded: []string{"/home/ann/ws", "<ws>"}, Current: []string{"/tmp/x", "<ws>", "/home/ann/ws", "<ws>"}})
			input := tt.input
			if input == "" {
				input = `{"path":"a.txt"}`
			}
			for i, req := range []llm.Request{first(), second("hello")} {
				if i == 1 {
					call(t, p, "read_file", input)
				}
				if tt.change != nil {
					tt.change(&req)
				}
				if _, err := ask(t, p, req); err != nil {
					t.Fatal(err)
				}
			}
			got := p.Differences()
			if len(got) != len(tt.want) {
				t.Fatalf("differences = %v, want %d", got, len(tt.want))
			}
			for i, d := range got {
				if !strings.Contains(d.String(), tt.want[i]) {
					t.Errorf("difference %d = %s\nwant %q in it", i, d, tt.want[i])
				}
			}
		})
	}
}

// What was recorded and does not happen is a difference, and so is what happens beyond it.
func TestMoreAndLess(t *testing.T) {
	t.Parallel()
	path, _ := recorded(t, record.Options{}, "hello")
	p := record.NewPlayer(load(t, path), record.PlayerOptions{})
	p.Tools(nil)
	if got := fmt.Sprint(p.Differences()); strings.Count(got, "not made") != 3 {
		t.Errorf("nothing happened: differences = %s, want two requests and a call", got)
	}
	for _, req := range []llm.Request{second("hello"), first(), first()} { // the order does not matter
		_, err := ask(t, p, req)
		if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind != llm.Configuration {
			t.Errorf("error = %v", e)
		}
	}
	got := fmt.Sprint(p.Differences())
	if !strings.Contains(got, "request 3: request\n    recorded: (nothing)\n    now:      one more") || strings.Contains(got, "message") {
		t.Errorf("differences = %s", got)
	}
}

func TestSecretsAreRemoved(t *testing.T) {
	t.Parallel()
	const hidden = `pa"ss-word-1234`
	const looks = "sk-abcdefghijklmnop"
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, err := record.Create(path, record.Options{
		Secrets: []httpsafe.Secret{httpsafe.NewSecret(hidden), {}}, Header: record.Header{Files: map[string]string{"AGENTS.md": "use " + hidden}},
	})
	if err != nil {
		t.Fatal(err)
	}
	req := first()
	req.System += " key " + hidden
	req.Messages[0] = user("my key is " + looks)
	req.Messages = append(req.Messages[:2:2], llm.Message{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{
		{Type: "image_url", ImageURL: "data:image/png;base64,AIzaAAAAAAAAAAAAAAAA"},
		{Type: "text", Text: looks},
		{Type: "vendor", Raw: []byte(`{"type":"vendor","api_key":"qwertyuiop"}`)},
	}}})
	script := llmtest.NewScript(t, llmtest.Step{Text: "so " + hidden + " and " + looks + ".", Chunk: 3}.Call("exec", map[string]string{"cmd": hidden, "api_key": "qwertyuiop"}),
		llmtest.Fail(&llm.Error{Kind: llm.Auth, Message: "bad key " + hidden}))
	m := record.Record(script, w)
	_, _ = ask(t, m, req)
	_, _ = ask(t, m, req)
	w.Tool(t.Context(), tool.Call{Name: "exec", Input: []byte(`{"api_key":"qwertyuiop","nested":{"refresh_token":"qwertyuiop"}}`)}, tool.Text(hidden+looks), 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"ss-word-1234", "abcdefghijklmnop", "qwertyuiop"} {
		if i := strings.Index(string(b), s); i >= 0 {
			t.Errorf("%q is in the file: …%s", s, b[max(0, i-60):min(len(b), i+40)])
		}
	}
	if !strings.Contains(string(b), "AIzaAAAAAAAAAAAAAAAA") {
		t.Error("the picture was damaged")
	}
	// A replay of the same request, which has its secrets, is no difference.
	p := record.NewPlayer(load(t, path), record.PlayerOptions{})
	req.System = strings.ReplaceAll(req.System, hidden, "***")
	events, err := ask(t, p, req)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, ev := range events {
		if ev.Kind == llm.TextDelta {
			said.WriteString(ev.Text)
		}
	}
	if said.String() != "so *** and ***" && said.String() != "so *** and ***." {
		t.Errorf("text = %q", said.String())
	}
	if _, err := ask(t, p, req); !isKind(err, llm.Auth) {
		t.Errorf("second answer = %v, want the recorded error", err)
	}
	if d := p.Differences(); len(d) != 0 {
		t.Errorf("differences = %v", d)
	}
}

func isKind(err error, k llm.Kind) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Kind == k
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	path, _ := recorded(t, record.Options{Header: record.Header{Version: "v1"}}, "hello")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	for _, tt := range []struct{ name, content, want string }{
		{"empty", "", "not a nanobot recording: the file is empty"},
		{"other text", "hello\nworld\n", "not a nanobot recording"},
		{"a session", `{"_type":"metadata"}` + "\n", "not a nanobot recording"},
		{"newer", strings.Replace(string(good), `"format":1`, `"format":9`, 1), "a newer nanobot is needed"},
		{"no format", strings.Replace(string(good), `"format":1`, `"format":0`, 1), "no format number"},
		{"damaged", lines[0] + lines[1][:len(lines[1])/2] + "\n" + lines[2], "line 2 is damaged"},
		{"a line is missing", lines[0] + lines[2] + lines[3], "line 2 is damaged: an answer to request 1"},
		{"keep is too long", lines[0] + strings.Replace(lines[1], `"keep":0`, `"keep":7`, 1), "line 2 is damaged: it repeats 7"},
		{"event too long", lines[0] + lines[1] + strings.Replace(lines[2], `"n":[5`, `"n":[50`, 1), "line 3 is damaged: its events"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := record.Load(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v, want %q", err, tt.want)
			}
		})
	}
	torn := filepath.Join(t.TempDir(), "torn")
	if err := os.WriteFile(torn, []byte(lines[0]+lines[1]+lines[2][:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	r := load(t, torn)
	if !r.Torn || len(r.Exchanges) != 1 || r.Exchanges[0].Answered {
		t.Errorf("torn recording = %+v", r)
	}
	p := record.NewPlayer(r, record.PlayerOptions{})
	if _, err := ask(t, p, first()); err == nil || !strings.Contains(fmt.Sprint(p.Differences()), "the recording ends here") {
		t.Errorf("err %v, differences %v", err, p.Differences())
	}
}

func TestCreateKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("my notes"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := record.Create(path, record.Options{}); err == nil || !strings.Contains(err.Error(), "choose another name") {
		t.Errorf("Create over notes = %v", err)
	}
	if _, err := record.Create(filepath.Dir(path), record.Options{}); err == nil {
		t.Error("Create over a folder succeeded")
	}
	old, _ := recorded(t, record.Options{}, "x")
	w, err := record.Create(old, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if r := load(t, old); len(r.Exchanges) != 0 {
		t.Error("the old recording is still there")
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	path, _ := recorded(t, record.Options{}, "hello")
	turns := load(t, path).Turns()
	if len(turns) != 1 {
		t.Fatalf("turns = %+v", turns)
	}
	got := turns[0]
	if got.Text != "read a.txt" || got.Channel != "cli" || got.ChatID != "direct" || got.Session != "cli:direct" || len(got.History) != 2 {
		t.Errorf("turn = %+v", got)
	}
}

// A caller that leaves early, or whose context ends, is recorded as such.
func TestStoppedTurn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r")
	w, err := record.Create(path, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := record.Record(llmtest.NewScript(t, llmtest.Reply("a long answer")), w)
	for range m.Stream(t.Context(), first()) {
		break
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, record.NewPlayer(load(t, path), record.PlayerOptions{}), first()); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want canceled", err)
	}
}

// Events of other kinds come back where they were.
func TestOtherEvents(t *testing.T) {
	t.Parallel()
	want := []llm.Event{
		{Kind: llm.TextDelta, Text: "fir"},
		{Kind: llm.TextDelta, Text: "st"},
		{Kind: llm.Waiting, Text: "one moment"},
		{Kind: llm.Restarted},
		{Kind: llm.ReasoningDelta, Text: "ü"},
		{Kind: llm.TextDelta, Text: "second"},
		{Kind: llm.Done, Response: &llm.Response{
			Message: llm.Message{Role: llm.Assistant, Content: llm.Text("second"), Thinking: []json.RawMessage{[]byte(`{"signature":"x","thinking":"ü"}`)}, Origin: "a"},
			Finish:  llm.FinishStop, Usage: llm.Usage{Prompt: 3, Completion: 4, Cost: 0.25},
		}},
	}
	m := llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			for _, ev := range want {
				if !yield(ev, nil) {
					return
				}
			}
		}
	})
	path := filepath.Join(t.TempDir(), "r")
	w, err := record.Create(path, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, record.Record(m, w), first()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ask(t, record.NewPlayer(load(t, path), record.PlayerOptions{}), first())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
