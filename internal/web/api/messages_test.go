package api_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// TestMessages: the whole form of an answer of /v1/messages.
func TestMessages(t *testing.T) {
	t.Parallel()
	h := open(t, says(
		bus.Outbound{Kind: bus.Message, Text: "On it.", Media: []bus.Media{{Path: "/ws/a.png"}}},
		bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{Name: "read_file", Phase: "start"}},
		final("Done.", bus.Turn{Usage: bus.Usage{Prompt: 10, Completion: 5, Cached: 4, CostUSD: 0.5}}),
	))
	status, head, body := h.post(t, "/v1/messages", `{
		"model":"nanobot","max_tokens":3,"temperature":0.3,"stop_sequences":["x"],"metadata":{"user_id":"u"},"thinking":{"type":"enabled","budget_tokens":1024},
		"some_day":true,"session_id":"s","nanobot":{"events":true},"messages":[{"role":"user","content":"hi"}]}`, "Anthropic-Version", "2023-06-01")
	got := parse(t, body)
	id, _ := got["id"].(string)
	delete(got, "id")
	want := map[string]any{
		"type": "message", "role": "assistant", "model": "nanobot",
		"content":     []any{map[string]any{"type": "text", "text": "On it.\n[file: a.png at /ws/a.png]\n\nDone."}},
		"stop_reason": "end_turn", "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 6.0, "cache_creation_input_tokens": 0.0, "cache_read_input_tokens": 4.0, "output_tokens": 5.0},
		"nanobot": map[string]any{
			"events":  []any{map[string]any{"type": "tool", "tool": map[string]any{"call_id": "", "name": "read_file", "phase": "start"}}},
			"session": "s", "cost_usd": 0.5,
		},
	}
	if d := cmp.Diff(want, got); d != "" || status != 200 || !strings.HasPrefix(id, "msg_") {
		t.Errorf("status %d, id %q (-want +got)\n%s", status, id, d)
	}
	if id := head.Get("Request-Id"); !strings.HasPrefix(id, "req_") || id != head.Get("X-Request-Id") {
		t.Errorf("headers %v", head)
	}
	in := h.last(t)
	if in.Stateless || !in.OwnTurn || in.WantsStream || in.Text != "hi" || in.SessionKey != "api:s" {
		t.Errorf("inbound %+v", in)
	}
}

// TestMessagesRequest: what the agent gets of what a client sends.
func TestMessagesRequest(t *testing.T) {
	t.Parallel()
	const picture = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + dot + `"}}`
	user := func(content string) string { return `{"role":"user","content":` + content + `}` }
	for name, c := range map[string]struct {
		system   string
		messages string
		text     string
		history  []bus.Said
		files    string // names and contents
	}{
		"a text is what is said":                      {messages: user(`"hi"`), text: "hi"},
		"blocks of text are lines":                    {messages: user(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`), text: "a\nb"},
		"a system text is an instruction":             {system: `"be brief"`, messages: user(`"hi"`), text: "hi", history: []bus.Said{{Role: "system", Text: "be brief", Clean: true}}},
		"system blocks are one instruction":           {system: `[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]`, messages: user(`"hi"`), text: "hi", history: []bus.Said{{Role: "system", Text: "a\nb", Clean: true}}},
		"an empty system is nothing":                  {system: `[]`, messages: user(`"hi"`), text: "hi"},
		"a system message is an instruction":          {messages: user(`"hi"`) + `,{"role":"system","content":"in German"}`, text: "hi", history: []bus.Said{{Role: "system", Text: "in German", Clean: true}}},
		"earlier messages are the history":            {messages: user(`"a"`) + `,{"role":"assistant","content":"b"},` + user(`"c"`), text: "c", history: []bus.Said{{Role: "user", Text: "a", Clean: true}, {Role: "assistant", Text: "b"}}},
		"several messages of the user are one":        {messages: user(`"a"`) + `,` + user(`"b"`), text: "a\n\nb"},
		"thoughts of an earlier answer are left":      {messages: user(`"a"`) + `,{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"b"}]},` + user(`"c"`), text: "c", history: []bus.Said{{Role: "user", Text: "a", Clean: true}, {Role: "assistant", Text: "b"}}},
		"calls and results of a client are data":      {messages: user(`"a"`) + `,{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"tool_use","id":"1","name":"f","input":{"x":1}}]},` + user(`[{"type":"tool_result","tool_use_id":"1","content":"sunny"},{"type":"text","text":"c"}]`), text: "c", history: []bus.Said{{Role: "user", Text: "a", Clean: true}, {Role: "assistant", Text: "b\n[called f with {\"x\":1}]"}, {Role: "tool", Text: "sunny"}}},
		"results come before words, as blocks do":     {messages: user(`[{"type":"text","text":"c"},{"type":"tool_result","content":[{"type":"text","text":"sunny"},{"type":"text","text":"warm"}]}]`), text: "c", history: []bus.Said{{Role: "tool", Text: "sunny\nwarm"}}},
		"a failed result says so":                     {messages: user(`[{"type":"tool_result","is_error":true,"content":"no net"},{"type":"text","text":"c"}]`), text: "c", history: []bus.Said{{Role: "tool", Text: "[the tool failed]\nno net"}}},
		"a result may be empty":                       {messages: user(`[{"type":"tool_result"},{"type":"text","text":"c"}]`), text: "c", history: []bus.Said{{Role: "tool"}}},
		"a picture is a file":                         {messages: user(`[{"type":"text","text":"see"},` + picture + `]`), text: "see", files: "image.png \x89PNG\r"},
		"pictures alone are looked at":                {messages: user(`[` + picture + `]`), text: "Look at the attached files.", files: "image.png \x89PNG\r"},
		"a picture may be a data address":             {messages: user(`[{"type":"image","source":{"type":"url","url":"data:image/png;base64,` + dot + `"}},{"type":"text","text":"see"}]`), text: "see", files: "image.png \x89PNG\r"},
		"a document is a file with its title":         {messages: user(`[{"type":"document","title":"../Q3 report","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},{"type":"text","text":"read"}]`), text: "read", files: "Q3_report.pdf %PDF-"},
		"a document without a title has a name":       {messages: user(`[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hallo"}},{"type":"text","text":"read"}]`), text: "read", files: "document.txt hallo"},
		"the context of a document is said":           {messages: user(`[{"type":"document","title":"a.TXT","context":"a letter","source":{"type":"text","media_type":"text/plain","data":"hallo"}}]`), text: "a letter", files: "a.TXT hallo"},
		"a document of blocks is read as blocks":      {messages: user(`[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"one"},` + picture + `]}},{"type":"text","text":"two"}]`), text: "one\ntwo", files: "image.png \x89PNG\r"},
		"a document of text is read as text":          {messages: user(`[{"type":"document","source":{"type":"content","content":"one"}},{"type":"text","text":"two"}]`), text: "one\ntwo"},
		"null is nothing, as elsewhere":               {system: `null`, messages: `{"role":"user","content":null},` + user(`"hi"`), text: "hi"},
		"tools that are not to be called are ignored": {messages: user(`"hi"`) + `],"tools":[{"name":"f"}],"mcp_servers":[{}],"tool_choice":{"type":"none"},"x":[`, text: "hi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files []string
			h := open(t, says(final("ok", bus.Turn{})), func(o *api.Options) {
				ask := o.Ask
				o.Ask = func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
					for _, m := range in.Media {
						b, err := os.ReadFile(m.Path)
						if err != nil {
							t.Error(err)
						}
						files = append(files, m.Name+" "+string(b[:min(5, len(b))]))
					}
					return ask(ctx, in)
				}
			})
			body := `{"messages":[` + c.messages + `]`
			if c.system != "" {
				body += `,"system":` + c.system
			}
			if status, _, got := h.post(t, "/v1/messages", body+"}"); status != 200 {
				t.Fatalf("status %d: %s", status, got)
			}
			in := h.last(t)
			if d := cmp.Diff(c.history, in.History); d != "" || in.Text != c.text || !in.Stateless {
				t.Errorf("text %q, stateless %v, history (-want +got)\n%s", in.Text, in.Stateless, d)
			}
			if got := strings.Join(files, ", "); got != c.files {
				t.Errorf("files %q, want %q", got, c.files)
			}
		})
	}
}

// TestMessagesStream: the order of events, for a turn with two steps.
func TestMessagesStream(t *testing.T) {
	t.Parallel()
	steps := func(end bus.Outbound) script {
		end.Streamed = true
		return says(
			bus.Outbound{Kind: bus.Reasoning, Text: "h"}, bus.Outbound{Kind: bus.Reasoning, Text: "m"},
			bus.Outbound{Kind: bus.Delta, Text: "Let me "}, bus.Outbound{Kind: bus.Delta, Text: "look."},
			bus.Outbound{Kind: bus.DeltaEnd, Resuming: true},
			bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{CallID: "1", Name: "grep", Phase: "start", Arguments: "{}"}},
			bus.Outbound{Kind: bus.Reasoning, Text: "aha"},
			bus.Outbound{Kind: bus.Delta, Text: "Found."}, bus.Outbound{Kind: bus.DeltaEnd},
			end,
		)
	}
	usage := bus.Turn{Usage: bus.Usage{Prompt: 7, Completion: 2, Cached: 3}}
	plain := steps(final("Found.", usage))
	for name, c := range map[string]struct {
		agent  script
		fields string
		want   string // events in short
	}{
		"text is one block": {
			plain, ``,
			`start +0text "Let me " "look." "\n\nFound." -0 delta:end_turn stop`,
		},
		"thoughts are blocks if asked for": {
			plain, `"thinking":{"type":"adaptive"},`,
			`start +0thinking "h" "m" -0 +1text "Let me " "look." -1 +2thinking "aha" -2 +3text "\n\nFound." -3 delta:end_turn stop`,
		},
		"thoughts may be omitted": {
			plain, `"thinking":{"type":"adaptive","display":"omitted"},`,
			`start +0text "Let me " "look." "\n\nFound." -0 delta:end_turn stop`,
		},
		"disabled thinking is not shown": {
			plain, `"thinking":{"type":"disabled"},`,
			`start +0text "Let me " "look." "\n\nFound." -0 delta:end_turn stop`,
		},
		"the work is shown if asked for": {
			plain, `"nanobot":{"events":true},`,
			`start nanobot:reasoning nanobot:reasoning +0text "Let me " "look." nanobot:tool nanobot:reasoning "\n\nFound." -0 delta:end_turn stop`,
		},
		"what was not streamed comes in one piece": {
			says(final("All at once.", usage)), ``,
			`start +0text "All at once." -0 delta:end_turn stop`,
		},
		"an answer without words has an empty block": {
			says(final("", bus.Turn{StopReason: "refused", Usage: usage.Usage})), ``,
			`start +0text -0 delta:refusal stop`,
		},
		"a cut answer says so": {
			says(final("x", bus.Turn{Truncated: true, Usage: usage.Usage})), ``,
			`start +0text "x" -0 delta:max_tokens stop`,
		},
		"an error is the last event": {
			says(
				bus.Outbound{Kind: bus.Delta, Text: "so far"},
				final("", bus.Turn{StopReason: "error", Error: "the model is away", ErrorKind: "overloaded"}),
			), ``,
			`start +0text "so far" error:overloaded_error`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, c.agent)
			_, head, body := h.post(t, "/v1/messages", `{"stream":true,`+c.fields+`"messages":[{"role":"user","content":"hi"}]}`)
			if got := head.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
				t.Errorf("content type %q", got)
			}
			if got := shortEvents(t, body, head.Get("Request-Id")); got != c.want {
				t.Errorf("events\n%s\nwant\n%s", got, c.want)
			}
			if !h.last(t).WantsStream {
				t.Error("the agent was not asked to stream")
			}
		})
	}
}

// TestMessagesRefused: every mistake gets an answer in the form of the protocol
// that says what it is.
func TestMessagesRefused(t *testing.T) {
	t.Parallel()
	msg := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	with := func(field string) string { return `{` + field + `,"messages":[{"role":"user","content":"x"}]}` }
	const invalid = "invalid_request_error"
	for name, c := range map[string]struct {
		path, body string // the path after /v1/messages
		status     int
		kind, want string
	}{
		"broken JSON":                       {"", `{"messages":`, 400, invalid, "not valid JSON"},
		"no object":                         {"", `[1]`, 400, invalid, "JSON object"},
		"wrong type":                        {"", `{"messages":"hi"}`, 400, invalid, "messages must not be"},
		"no messages":                       {"", `{"messages":[]}`, 400, invalid, "no messages"},
		"unknown role":                      {"", `{"messages":[{"role":"tool","content":"x"}]}`, 400, invalid, "tool"},
		"an answer cannot be begun":         {"", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"{"}]}`, 400, invalid, "must be the user's"},
		"only results":                      {"", msg(`[{"type":"tool_result","content":"x"}]`), 400, invalid, "must be the user's"},
		"blank":                             {"", msg(`"  "`), 400, invalid, "must say something"},
		"number content":                    {"", msg(`7`), 400, invalid, "a text or a list"},
		"number in a result":                {"", msg(`[{"type":"tool_result","content":7}]`), 400, invalid, "a text or a list"},
		"number as a text of a result":      {"", msg(`[{"type":"tool_result","content":[{"type":"text","text":7}]}]`), 400, invalid, "must not be"},
		"unknown block":                     {"", msg(`[{"type":"search_result"}]`), 400, invalid, "search_result"},
		"results in results":                {"", msg(`[{"type":"tool_result","content":[{"type":"tool_result"}]}]`), 400, invalid, "tool_result"},
		"documents in documents":            {"", msg(`[{"type":"document","source":{"type":"content","content":[{"type":"document"}]}}]`), 400, invalid, "cannot contain documents"},
		"unknown model":                     {"", with(`"model":"claude-9"`), 404, "not_found_error", "claude-9"},
		"tools of the client":               {"", with(`"tools":[{"name":"f"}]`), 400, invalid, "its own tools"},
		"servers of the client":             {"", with(`"mcp_servers":[{"url":"https://example.com"}]`), 400, invalid, "its own MCP servers"},
		"JSON answers":                      {"", with(`"output_config":{"format":{"type":"json_schema"}}`), 400, invalid, "Answers are text"},
		"JSON answers, as in earlier times": {"", with(`"output_format":{"type":"json_schema"}`), 400, invalid, "Answers are text"},
		"bad session":                       {"", with(`"session_id":"a\u0000b"`), 400, invalid, "session"},
		"picture of a file address":         {"", msg(`[{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}]`), 400, invalid, "data: or http"},
		"remote picture":                    {"", msg(`[{"type":"image","source":{"type":"url","url":"http://127.0.0.1/x.png"}}]`), 400, invalid, "not fetched here"},
		"picture by id":                     {"", msg(`[{"type":"image","source":{"type":"file","file_id":"x"}}]`), 400, invalid, "Send pictures as base64"},
		"no picture":                        {"", msg(`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGFsbG8="}}]`), 400, invalid, "not a PNG"},
		"bad base64":                        {"", msg(`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"???"}}]`), 400, invalid, "base64"},
		"document by address":               {"", msg(`[{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}]`), 400, invalid, "Send documents as base64"},
		"document by id":                    {"", msg(`[{"type":"document","source":{"type":"file","file_id":"x"}}]`), 400, invalid, "Send documents as base64"},
		"too large":                         {"", msg(`"` + strings.Repeat("x", 1<<16) + `"`), 413, "request_too_large", "at most"},
		"file too large":                    {"", msg(`[{"type":"document","source":{"type":"text","data":"` + strings.Repeat("AAAA", 2000) + `"}}]`), 413, "request_too_large", "A file may"},
		"tokens are not counted":            {"/count_tokens", with(`"model":"nanobot"`), 404, "not_found_error", "cannot be counted"},
		"no batches":                        {"/batches", `{}`, 404, "not_found_error", "POST /v1/messages/batches"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, says(final("x", bus.Turn{})), func(o *api.Options) { o.MaxBody, o.Media.MaxFile = 1<<16, 4000 })
			status, head, body := h.post(t, "/v1/messages"+c.path, c.body)
			if status != c.status || head.Get("X-Should-Retry") != "false" {
				t.Errorf("status %d, retry %q; want %d", status, head.Get("X-Should-Retry"), c.status)
			}
			if message := messagesFault(t, body, c.kind, head); !strings.Contains(message, c.want) {
				t.Errorf("message %q, want %q", message, c.want)
			}
			if len(h.got) > 0 {
				t.Error("it reached the agent")
			}
		})
	}
}

// TestMessagesErrors: what goes wrong with a turn or before it has the type that
// the protocol has for its status.
func TestMessagesErrors(t *testing.T) {
	t.Parallel()
	failed := func(kind string) script {
		return says(final("", bus.Turn{StopReason: "error", Error: "told", ErrorKind: kind}))
	}
	for name, c := range map[string]struct {
		agent   script
		headers []string
		status  int
		kind    string
		retry   string
	}{
		"no key":               {nil, []string{"X-Api-Key", ""}, 401, "authentication_error", "false"},
		"wrong key":            {nil, []string{"X-Api-Key", "wrong"}, 401, "authentication_error", "false"},
		"foreign page":         {nil, []string{"Origin", "https://evil.example"}, 403, "permission_error", "false"},
		"not JSON":             {nil, []string{"Content-Type", "text/plain"}, 415, "invalid_request_error", "false"},
		"rate limit":           {failed("rate_limit"), nil, 429, "rate_limit_error", "true"},
		"overload":             {failed("overloaded"), nil, 503, "overloaded_error", "true"},
		"slow model":           {failed("timeout"), nil, 504, "timeout_error", "false"},
		"no credit":            {failed("billing"), nil, 402, "billing_error", "false"},
		"spending limit":       {failed("budget_exceeded"), nil, 402, "billing_error", "false"},
		"too long":             {failed("context_length"), nil, 400, "invalid_request_error", "false"},
		"key of the provider":  {failed("auth"), nil, 502, "api_error", "false"},
		"the turn was stopped": {says(), nil, 409, "conflict_error", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, c.agent, func(o *api.Options) {
				o.Token = httpsafe.NewSecret(token)
				o.Fault = func(error) (int, string) { return http.StatusConflict, "told" }
			})
			headers := append([]string{"X-Api-Key", token}, c.headers...)
			status, head, body := h.post(t, "/v1/messages", `{"messages":[{"role":"user","content":"x"}]}`, headers...)
			if status != c.status || head.Get("X-Should-Retry") != c.retry {
				t.Errorf("status %d, retry %q; want %d, %s", status, head.Get("X-Should-Retry"), c.status, c.retry)
			}
			if message := messagesFault(t, body, c.kind, head); c.agent != nil && message != "told" {
				t.Errorf("message %q", message)
			}
		})
	}
}

// TestMessagesVersion: the header of the protocol selects its form also where the
// path does not tell.
func TestMessagesVersion(t *testing.T) {
	t.Parallel()
	h := open(t, says(), func(o *api.Options) {
		o.DeleteSession = func(context.Context, string) (bool, error) { return false, errors.New("no") }
	})
	version := []string{"Anthropic-Version", "2023-06-01"}
	_, _, body := h.send(t, http.MethodGet, "/v1/models", "", version...)
	want := `{"data":[` +
		`{"type":"model","id":"nanobot","display_name":"nanobot","created_at":"1970-01-01T00:00:00Z"},` +
		`{"type":"model","id":"org/fast","display_name":"org/fast","created_at":"1970-01-01T00:00:00Z"}],` +
		`"has_more":false,"first_id":"nanobot","last_id":"org/fast"}` + "\n"
	if body != want {
		t.Errorf("models %s", body)
	}
	if _, _, body := h.send(t, http.MethodGet, "/v1/models/org%2Ffast", "", version...); parse(t, body)["display_name"] != "org/fast" {
		t.Errorf("model %s", body)
	}
	for name, c := range map[string]struct {
		method, path string
		kind         string
	}{
		"unknown model": {http.MethodGet, "/v1/models/none", "not_found_error"},
		"unknown path":  {http.MethodGet, "/v1/files", "not_found_error"},
		"failure":       {http.MethodDelete, "/v1/sessions/x", "api_error"},
	} {
		_, head, body := h.send(t, c.method, c.path, "", version...)
		if message := messagesFault(t, body, c.kind, head); message == "" {
			t.Errorf("%s: %s", name, body)
		}
	}
	none := open(t, says(), func(o *api.Options) { o.Models = func() []api.Model { return nil } })
	if _, _, body := none.send(t, http.MethodGet, "/v1/models", "", version...); body != `{"data":[],"has_more":false,"first_id":null,"last_id":null}`+"\n" {
		t.Errorf("no models: %s", body)
	}
}

// messagesFault checks the form of an error and returns its message.
func messagesFault(t *testing.T, body, kind string, head http.Header) string {
	t.Helper()
	got := parse(t, body)
	inner, _ := got["error"].(map[string]any)
	message, _ := inner["message"].(string)
	want := map[string]any{
		"type":       "error",
		"error":      map[string]any{"type": kind, "message": message},
		"request_id": head.Get("Request-Id"),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("error (-want +got)\n%s", d)
	}
	return message
}

// shortEvents reads a stream and shows each event as a word.
func shortEvents(t *testing.T, body, request string) string {
	t.Helper()
	var out []string
	for frame := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		name, data, _ := strings.Cut(frame, "\ndata: ")
		e := parse(t, data)
		kind, _ := e["type"].(string)
		if name != "event: "+kind {
			t.Errorf("event %q in frame %q", kind, name)
		}
		out = append(out, shortEvent(t, kind, e, request))
	}
	return strings.Join(out, " ")
}

func shortEvent(t *testing.T, kind string, e map[string]any, request string) string {
	t.Helper()
	inner := func(name string) map[string]any { m, _ := e[name].(map[string]any); return m }
	switch kind {
	case "message_start":
		m := inner("message")
		if m["stop_reason"] != nil || m["role"] != "assistant" || len(m["content"].([]any)) > 0 {
			t.Errorf("begins with %v", m)
		}
		return "start"
	case "content_block_start":
		block := inner("content_block")
		if block["type"] == "text" && block["text"] != "" || block["type"] == "thinking" && (block["thinking"] != "" || block["signature"] != "") {
			t.Errorf("a block begins with %v", block)
		}
		return fmt.Sprintf("+%v%v", e["index"], block["type"])
	case "content_block_delta":
		d := inner("delta")
		return fmt.Sprintf("%q", d[strings.TrimSuffix(d["type"].(string), "_delta")])
	case "content_block_stop":
		return fmt.Sprintf("-%v", e["index"])
	case "message_delta":
		want := map[string]any{"input_tokens": 4.0, "cache_creation_input_tokens": 0.0, "cache_read_input_tokens": 3.0, "output_tokens": 2.0}
		if d := cmp.Diff(want, inner("usage")); d != "" {
			t.Errorf("usage (-want +got)\n%s", d)
		}
		return fmt.Sprintf("delta:%v", inner("delta")["stop_reason"])
	case "message_stop":
		return "stop"
	case "error":
		if e["request_id"] != request {
			t.Errorf("error %v of request %q", e, request)
		}
		return fmt.Sprintf("error:%v", inner("error")["type"])
	case "nanobot_event":
		return fmt.Sprintf("nanobot:%v", inner("event")["type"])
	}
	return kind
}
