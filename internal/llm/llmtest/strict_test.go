package llmtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// post sends a body to a lenient server and returns why it was refused.
func post(t *testing.T, path, body string, auth bool) string {
	t.Helper()
	return postBrand(t, "", path, body, auth)
}

// postBrand is post to a server as narrow as a vendor's.
func postBrand(t *testing.T, brand, path, body string, auth bool) string {
	t.Helper()
	s := llmtest.NewServer(t)
	s.Lenient, s.Brand = true, brand
	s.Say(llmtest.StreamReply{Text: []string{"ok"}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	if auth {
		req.Header.Set("Authorization", "Bearer x")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	why := s.Requests()[0].Error
	if (why == "") != (resp.StatusCode == http.StatusOK) {
		t.Errorf("status %d for violation %q", resp.StatusCode, why)
	}
	return why
}

func TestStrictChat(t *testing.T) {
	t.Parallel()
	msgs := func(s string) string { return `{"model":"m","messages":[` + s + `]}` }
	const (
		user = `{"role":"user","content":"a"}`
		call = `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		res  = `{"role":"tool","tool_call_id":"1","content":"r"}`
	)
	for _, c := range []struct{ name, body, want string }{
		{"fine", msgs(user), ""},
		{"tool loop", msgs(`{"role":"system","content":"s"},` + user + `,` + call + `,` + res), ""},
		{"not JSON", `{`, "not a JSON object"},
		{"no model", `{"messages":[` + user + `]}`, "no model"},
		{"no messages", msgs(``), "empty"},
		{"unknown key", `{"model":"m","foo":1,"messages":[` + user + `]}`, `unknown key "foo"`},
		{"unknown role", msgs(`{"role":"robot","content":"a"}`), "unknown role"},
		{"unknown message key", msgs(`{"role":"user","content":"a","_meta":{}}`), "_meta"},
		{"user twice", msgs(user + `,` + user), "in a row"},
		{"orphan result", msgs(user + `,` + res), "not waiting"},
		{"unanswered", msgs(user + `,` + call + `,` + user), "no result"},
		{"unanswered at the end", msgs(user + `,` + call), "no result"},
		{"second result", msgs(user + `,` + call + `,` + res + `,` + res), "not waiting"},
		{"assistant last", msgs(user + `,{"role":"assistant","content":"x"}`), "last message"},
		{"assistant first", msgs(`{"role":"assistant","content":"x"},` + user), "assistant after"},
		{"late system", msgs(user + `,{"role":"system","content":"x"}`), "system message"},
		{"empty content", msgs(`{"role":"user","content":""}`), "empty content"},
		{"null content", msgs(`{"role":"user","content":null}`), "no content"},
		{"empty block", msgs(`{"role":"user","content":[{"type":"text","text":""}]}`), "empty text block"},
		{"image in a result", msgs(user + `,` + call + `,{"role":"tool","tool_call_id":"1","content":[{"type":"image_url","image_url":{"url":"x"}}]}`), "image"},
		{"arguments as object", msgs(user + `,` + strings.Replace(call, `"{}"`, `{}`, 1) + `,` + res), "arguments"},
		{"arguments not an object", msgs(user + `,` + strings.Replace(call, `"{}"`, `"[1]"`, 1) + `,` + res), "arguments"},
		{"tool without schema", `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[` + user + `]}`, "object schema"},
		{"choice without tools", `{"model":"m","tool_choice":"auto","messages":[` + user + `]}`, "without tools"},
		{"no tokens", `{"model":"m","max_tokens":0,"messages":[` + user + `]}`, "max_tokens"},
		{"stream options alone", `{"model":"m","stream_options":{},"messages":[` + user + `]}`, "without stream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := post(t, "/chat/completions", c.body, true); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("violation %q, want %q", got, c.want)
			}
		})
	}
	if got := post(t, "/chat/completions", msgs(user), false); !strings.Contains(got, "bearer") {
		t.Errorf("without a key: %q", got)
	}
}

func TestStrictMessages(t *testing.T) {
	t.Parallel()
	msgs := func(s string) string { return `{"model":"m","max_tokens":2000,"messages":[` + s + `]}` }
	const (
		user = `{"role":"user","content":"a"}`
		use  = `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}`
		res  = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]}`
	)
	for _, c := range []struct{ name, body, want string }{
		{"fine", msgs(user), ""},
		{"tool loop", msgs(user + `,` + use + `,` + res), ""},
		{"no limit", `{"model":"m","messages":[` + user + `]}`, "max_tokens"},
		{"user twice", msgs(user + `,` + user), `want "assistant"`},
		{"assistant last", msgs(user + `,{"role":"assistant","content":"x"}`), "last turn"},
		{"unanswered", msgs(user + `,` + use + `,` + user), "no result"},
		{"orphan", msgs(res), "not waiting"},
		{"result after text", msgs(user + `,` + use + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"1","content":"r"}]}`), "after other blocks"},
		{"bad id", msgs(user + `,` + strings.Replace(use, `"1"`, `"a|b"`, 1) + `,` + user), "malformed"},
		{"id used twice", msgs(user + `,` + use + `,` + res + `,` + use + `,` + res), "used twice"},
		{"input as string", msgs(user + `,` + strings.Replace(use, `"input":{}`, `"input":"{}"`, 1) + `,` + res), "malformed"},
		{"empty text", msgs(`{"role":"user","content":[{"type":"text","text":" "}]}`), "empty text"},
		{"empty string", msgs(`{"role":"user","content":""}`), "content is not a list"},
		{"late thinking", msgs(user + `,{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"thinking","thinking":"t","signature":"s"}]},` + user), "thinking"},
		{"budget", `{"model":"m","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[` + user + `]}`, "budget"},
		{"temperature", `{"model":"m","max_tokens":2000,"temperature":0.1,"thinking":{"type":"adaptive"},"messages":[` + user + `]}`, "temperature"},
		{"breakpoints", `{"model":"m","max_tokens":1,"system":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x","cache_control":{}},`, 5), ",") + `],"messages":[` + user + `]}`, "breakpoints"},
		{"chat key", `{"model":"m","max_tokens":1,"stream_options":{},"messages":[` + user + `]}`, "unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := post(t, "/messages", c.body, true); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("violation %q, want %q", got, c.want)
			}
		})
	}
}

func TestStrictBrands(t *testing.T) {
	t.Parallel()
	const user = `{"role":"user","content":"a"}`
	calls := func(id string) string {
		return `{"model":"m","messages":[` + user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"r"}]}`
	}
	thought := `{"model":"m","messages":[` + user + `,{"role":"assistant","content":"b","reasoning_content":"t"},` + user + `]}`
	for _, c := range []struct{ name, brand, body, want string }{
		{"cache key anywhere", "", `{"model":"m","prompt_cache_key":"x","messages":[` + user + `]}`, ""},
		{"cache key at mistral", "mistral", `{"model":"m","prompt_cache_key":"x","messages":[` + user + `]}`, `unknown key "prompt_cache_key"`},
		{"cache key at groq", "groq", `{"model":"m","prompt_cache_key":"x","messages":[` + user + `]}`, `unknown key "prompt_cache_key"`},
		{"reasoning anywhere", "", thought, ""},
		{"reasoning at mistral", "mistral", thought, `unknown key "reasoning_content"`},
		{"reasoning at groq", "groq", thought, `unknown key "reasoning_content"`},
		{"long id anywhere", "", calls("call_1"), ""},
		{"long id at groq", "groq", calls("call_1"), ""},
		{"long id at mistral", "mistral", calls("call_1"), "nine letters"},
		{"short id at mistral", "mistral", calls("abcDEF123"), ""},
		{"fine", "mistral", `{"model":"m","max_tokens":3,"messages":[` + user + `]}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := postBrand(t, c.brand, "/chat/completions", c.body, true); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("violation %q, want %q", got, c.want)
			}
		})
	}
}

func TestStrictConverse(t *testing.T) {
	t.Parallel()
	const (
		user = `{"role":"user","content":[{"text":"a"}]}`
		use  = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"f","input":{}}}]}`
		res  = `{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"r"}]}}]}`
		tool = `,"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]}`
	)
	msgs := func(s, rest string) string { return `{"messages":[` + s + `]` + rest + `}` }
	for _, c := range []struct{ name, body, want string }{
		{"fine", msgs(user, ""), ""},
		{"tool loop", msgs(user+`,`+use+`,`+res, tool), ""},
		{"no tools", msgs(user+`,`+use+`,`+res, ""), "toolConfig is missing"},
		{"no messages", msgs("", ""), "empty"},
		{"unknown key", msgs(user, `,"model":"m"`), "unknown key"},
		{"user twice", msgs(user+`,`+user, ""), `want "assistant"`},
		{"assistant last", msgs(user+`,{"role":"assistant","content":[{"text":"x"}]}`, ""), "last turn"},
		{"unanswered", msgs(user+`,`+use+`,`+user, tool), "no result"},
		{"orphan", msgs(res, tool), "not waiting"},
		{"empty text", msgs(`{"role":"user","content":[{"text":" "}]}`, ""), "empty text"},
		{"two kinds", msgs(`{"role":"user","content":[{"text":"a","image":{}}]}`, ""), "exactly one kind"},
		{"unknown block", msgs(`{"role":"user","content":[{"video":{}}]}`, ""), "unknown block"},
		{"image as link", msgs(`{"role":"user","content":[{"image":{"format":"png","source":{"url":"x"}}}]}`, ""), "malformed image"},
		{"empty tools", msgs(user, `,"toolConfig":{"tools":[]}`), "tools is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := post(t, "/model/m/converse-stream", c.body, true); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("violation %q, want %q", got, c.want)
			}
		})
	}
	if got := post(t, "/model/m/converse-stream", msgs(user, ""), false); !strings.Contains(got, "bearer") {
		t.Errorf("violation %q without credentials", got)
	}
}
