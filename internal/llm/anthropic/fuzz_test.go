package anthropic_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
)

// history makes a conversation out of bytes, most of them illegal.
func history(data []byte) []llm.Message {
	var msgs []llm.Message
	ids := []string{"a", "b", "", "x|y", "a__dedupe_1"}
	texts := []string{"", " ", "hello", "世界", "\xff"}
	thinking := []json.RawMessage{
		json.RawMessage(`{"type":"thinking","thinking":"t","signature":"s"}`), json.RawMessage(`{"type":"thinking","signature":"s","thinking":"t"}`),
		json.RawMessage(`{"type":"thinking","signature":"","thinking":"t"}`), json.RawMessage(`{"type":"redacted_thinking","data":"d"}`),
		json.RawMessage(`{"type":"text","text":"inner"}`), json.RawMessage(`{"type":"text","text":" "}`),
		json.RawMessage(`{"type":"tool_use","id":"a"}`), json.RawMessage(`{"type":"tool_use","id":"b"}`),
	}
	for len(data) >= 2 {
		kind, v := data[0], int(data[1])
		data = data[2:]
		text := llm.Text(texts[v%len(texts)])
		switch kind % 6 {
		case 0:
			msgs = append(msgs, llm.Message{Role: llm.User, Content: text})
		case 1:
			msgs = append(msgs, llm.Message{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{
				{Type: "image_url", ImageURL: "data:image/png;base64,AA=="}, {Type: "text", Text: text.Text},
			}}})
		case 2, 3:
			if kind%12 == 2 {
				text = llm.Content{Blocks: []llm.Block{{Type: "image_url", ImageURL: "https://x/y.png"}, {Type: "text", Text: text.Text}}}
			}
			m := llm.Message{Role: llm.Assistant, Content: text, Origin: []string{"anthropic", "other"}[v/2%2]}
			for i := range v % 4 {
				m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: ids[(v+i*v/16)%len(ids)], Name: "f", Arguments: []string{"{}", "", "[", `{"a":1}`}[(v+i)%4]})
				m.Thinking = append(m.Thinking, thinking[(v/4+3*i)%len(thinking)])
			}
			msgs = append(msgs, m)
		case 4:
			msgs = append(msgs, llm.Message{Role: llm.ToolRole, ToolCallID: ids[v%len(ids)], Content: text, IsError: v > 99})
		default:
			msgs = append(msgs, llm.Message{Role: llm.System, Content: text})
		}
	}
	return msgs
}

// wireOf catches what is sent for a request and checks it.
func wireOf(t *testing.T, req llm.Request) string {
	t.Helper()
	var sent string
	m, err := anthropic.New(anthropic.Options{
		Key: httpsafe.NewSecret("sk-test-key"),
		Client: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			if err := checkWire(r, body); err != nil {
				t.Errorf("illegal request: %v\n%s", err, body)
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("data: " + stopText + "\n\n")), Request: r}, nil
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Collect(t.Context(), m, req); err != nil {
		t.Fatal(err)
	}
	return sent
}

func checkHistory(t *testing.T, data []byte) {
	t.Helper()
	req := llm.Request{Model: "claude-sonnet-4-6", Messages: history(data), Tools: []llm.ToolDef{{Name: "f"}}, Effort: []string{"", "low"}[len(data)/2%2]}
	if a, b := wireOf(t, req), wireOf(t, req); a != b {
		t.Errorf("two encodings differ:\n%s\n%s", a, b)
	}
}

// Whatever the history, the request is legal and always the same.
func TestAnyHistoryIsLegal(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		data := make([]byte, 2*r.IntN(20))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		checkHistory(t, data)
		if t.Failed() {
			t.Fatalf("history: %x", data)
		}
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{0, 2, 2, 7, 4, 0, 4, 1, 2, 2, 0, 2})
	f.Fuzz(func(t *testing.T, data []byte) { checkHistory(t, data[:min(len(data), 200)]) })
}

// Whatever the server sends, the stream ends once and its deltas add up.
func FuzzStream(f *testing.F) {
	f.Add("data: " + start + "\n\ndata: " + stopText + "\n\n")
	f.Add("data: " + strings.Join(slices.Concat(thinkBlock(0, "s", "a"), textBlock(1, "b"), toolBlock(2, "i", "n", "{"), []string{stopTool, end}), "\n\ndata: ") + "\n\n")
	f.Add(`{"type":"message","content":[{"type":"text","text":"x"},{"type":"tool_use","name":"f","input":{"a":1}}]}`)
	f.Add(`{"type":"error","error":null}`)
	f.Add("<html>")
	f.Add("data: " + strings.Join([]string{ // one index for two kinds of block
		`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}`,
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}`, stopText,
	}, "\n\ndata: ") + "\n\n")
	f.Fuzz(func(t *testing.T, page string) {
		m, err := anthropic.New(anthropic.Options{Client: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(page)), Request: r}, nil
		})}})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := collect(t, m, ask())
		if err != nil {
			if _, ok := err.(*llm.Error); !ok { //nolint:errorlint // the error itself must be one, not something it wraps
				t.Errorf("error is a %T: %v", err, err)
			}
			return
		}
		for _, c := range resp.Message.ToolCalls {
			if c.ID == "" || c.Name == "" {
				t.Errorf("call %+v without id or name", c)
			}
		}
		for _, raw := range resp.Message.Thinking {
			if !json.Valid(raw) {
				t.Errorf("stored block is not JSON: %s", raw)
			}
		}
	})
}
