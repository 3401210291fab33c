package openai

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// A request encoded on top of the last one must equal one encoded from nothing.
func TestDraftEqualsFreshEncoding(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 9))
	for round := range 200 {
		cached, fresh := newDriver(t), newDriver(t)
		var msgs []llm.Message
		for turn := range 12 {
			msgs = grow(r, msgs)
			if r.IntN(6) == 0 && len(msgs) > 4 { // the window moved
				msgs = slices.Clone(msgs[len(msgs)/2:])
			}
			if r.IntN(4) == 0 {
				msgs = slices.Clone(msgs) // same messages, another array
			}
			req := llm.Request{Model: "m", System: "sys", SessionKey: "s", Messages: msgs, MaxTokens: 10}
			if r.IntN(8) == 0 {
				req.System = fmt.Sprint("changed ", turn)
			}
			got, d := cached.encode(t.Context(), req)
			if !json.Valid(got) {
				t.Fatalf("round %d: not JSON: %s", round, got)
			}
			got = slices.Clone(got)
			if r.IntN(5) > 0 { // sometimes the request failed and the draft is lost
				cached.drafts.release(d)
			}
			req.SessionKey = ""
			want, _ := fresh.encode(t.Context(), req)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Fatalf("round %d turn %d (-fresh +draft):\n%s", round, turn, diff)
			}
		}
	}
}

func newDriver(t *testing.T) *driver {
	t.Helper()
	m, err := New(Options{Name: "x", BaseURL: "http://127.0.0.1:1/v1"})
	if err != nil {
		t.Fatal(err)
	}
	d, ok := m.(*driver)
	if !ok {
		t.Fatalf("%T", m)
	}
	return d
}

// grow adds a turn, sometimes with tools, sometimes one that needs repair.
func grow(r *rand.Rand, msgs []llm.Message) []llm.Message {
	if n := len(msgs); n > 0 {
		msgs = append(msgs, llm.Message{Role: llm.Assistant, Content: llm.Text("answer")})
	}
	msgs = append(msgs, llm.Message{Role: llm.User, Content: llm.Text(fmt.Sprint("question ", r.IntN(1000), " \"quoted\""))})
	if r.IntN(2) == 0 {
		a, b := fmt.Sprint("a", len(msgs)), fmt.Sprint("b", len(msgs))
		msgs = append(msgs, llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: a, Name: "t", Arguments: `{"x":1}`}, {ID: b, Name: "t", Arguments: "{}"}}},
			llm.Message{Role: llm.ToolRole, ToolCallID: a, Name: "t", Content: llm.Text("1")})
		if r.IntN(6) > 0 {
			msgs = append(msgs, llm.Message{Role: llm.ToolRole, ToolCallID: b, Name: "t", Content: llm.Text("2")})
		}
	}
	return msgs
}

func TestDraftsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	hold := func(i int, text string) {
		req := llm.Request{SessionKey: fmt.Sprint(i), Messages: []llm.Message{{Role: llm.User, Content: llm.Text(text)}}}
		_, dr := d.encode(t.Context(), req)
		d.drafts.release(dr)
		bytes := 0
		for _, dr := range d.drafts.list {
			bytes += cap(dr.buf)
		}
		if n := len(d.drafts.list); n > maxDrafts || bytes > maxDraftBytes || bytes != d.drafts.size {
			t.Fatalf("%d drafts of %d bytes kept, %d counted", n, bytes, d.drafts.size)
		}
	}
	for i := range 100 {
		hold(i, "x")
	}
	if n := len(d.drafts.list); n != maxDrafts {
		t.Errorf("%d small drafts kept, want %d", n, maxDrafts)
	}
	for i := range 20 {
		hold(i, strings.Repeat("x", maxDraftBytes/10))
	}
	if n := len(d.drafts.list); n < 5 || n > 10 {
		t.Errorf("%d large drafts kept", n)
	}
	hold(0, strings.Repeat("x", maxDraftBytes+1))
}
