package bedrock_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// caught is a model whose requests are seen and answered without a network.
func caught(tb testing.TB, answer []byte, see func(*http.Request, []byte)) llm.Model {
	tb.Helper()
	m, err := bedrock.New(bedrock.Options{Getenv: environment, Client: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		see(r, body)
		return &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(answer)), Request: r}, nil
	})}})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Whatever the server sends, the stream ends once and its deltas add up.
func FuzzStream(f *testing.F) {
	full := slices.Concat(event(begin), event(piece(0, "x")), event(endTurn), event(counts))
	f.Add(full, true)
	f.Add(full[:len(full)-9], true)
	f.Add([]byte(`{"output":{"message":{"content":[{"text":"x"},{"toolUse":{"name":"f","input":{}}},{"reasoningContent":{"redactedContent":"AAAA"}}]}}}`), true)
	f.Add([]byte("<html>"), true)
	f.Add([]byte(begin+"\n"+piece(0, "a")+"\n"+`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"b"}}}`+"\n"+endTurn), false)
	f.Add([]byte(`contentBlockStart {"start":{"toolUse":{"name":"f"}}}`+"\n"+`contentBlockDelta {"delta":{"toolUse":{"input":"{"}}}`+"\n"+endTools), false)
	f.Fuzz(func(t *testing.T, data []byte, raw bool) {
		if !raw {
			var frames []byte
			for line := range strings.SplitSeq(string(data), "\n") {
				frames = append(frames, event(line)...)
			}
			data = frames
		}
		w := llmtest.Watch(t.Context(), t, caught(t, data, func(*http.Request, []byte) {}), ask())
		if w.Err != nil {
			if _, ok := w.Err.(*llm.Error); !ok { //nolint:errorlint // the error itself must be one, not something it wraps
				t.Errorf("error is a %T: %v", w.Err, w.Err)
			}
			return
		}
		m := w.Response.Message
		if m.Reasoning != w.Reasoning {
			t.Errorf("deltas say %q, the message %q", w.Reasoning, m.Reasoning)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Name == "" {
				t.Errorf("call %+v without id or name", c)
			}
		}
		for _, raw := range m.Thinking {
			if !json.Valid(raw) {
				t.Errorf("stored block is not JSON: %s", raw)
			}
		}
	})
}

func BenchmarkStream(b *testing.B) {
	frames := slices.Concat(event(begin), bytes.Repeat(event(piece(0, "word ")), 100_000), event(endTurn), event(counts))
	b.SetBytes(int64(len(frames)))
	b.ReportAllocs()
	m := caught(b, frames, func(*http.Request, []byte) {})
	for b.Loop() {
		if _, err := llm.Collect(b.Context(), m, ask()); err != nil {
			b.Fatal(err)
		}
	}
}
