package responses_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
)

// protocol is a model that counts its calls and fails on demand.
type protocol struct {
	mu    sync.Mutex
	calls int
	fail  error
	gate  chan struct{}
	last  llm.Request
}

func (p *protocol) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		p.mu.Lock()
		p.calls++
		p.last = req
		fail, gate := p.fail, p.gate
		p.mu.Unlock()
		if gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
				yield(llm.Event{}, ctx.Err())
				return
			}
		}
		if fail != nil {
			yield(llm.Event{}, fail)
			return
		}
		yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Finish: llm.FinishStop}}, nil)
	}
}

func (p *protocol) set(fail error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

func (p *protocol) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func unknown() error {
	return &llm.Error{Kind: llm.NotFound, Status: 404, Message: "The Responses API is not supported here"}
}

// 74: three failures open the circuit for 300 s, then one request probes.
func Test74Circuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resp, chat := &protocol{fail: unknown()}, &protocol{}
		m := responses.WithChat(resp, chat, responses.ChatOptions{})
		call := func(model string) {
			t.Helper()
			if _, err := llm.Collect(t.Context(), m, llm.Request{Model: model, Effort: "high"}); err != nil {
				t.Errorf("call: %v", err)
			}
		}
		want := func(what string, r, c int) {
			t.Helper()
			if resp.count() != r || chat.count() != c {
				t.Errorf("%s: %d responses and %d chat calls, want %d and %d", what, resp.count(), chat.count(), r, c)
			}
		}
		for range 3 {
			call("a")
		}
		want("three failures", 3, 3)
		call("a")
		want("open", 3, 4)
		call("b")
		want("another model", 4, 5)
		time.Sleep(299 * time.Second)
		call("a")
		want("still open", 4, 6)
		time.Sleep(2 * time.Second)
		call("a")
		call("a")
		want("one probe failed", 5, 8)
		time.Sleep(301 * time.Second)
		resp.set(nil)
		call("a")
		call("a")
		want("the probe worked", 7, 8)
		resp.set(unknown())
		call("a")
		call("a")
		want("counted anew", 9, 10)
	})
}

func TestOnlyOneProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resp, chat := &protocol{fail: unknown()}, &protocol{}
		m := responses.WithChat(resp, chat, responses.ChatOptions{})
		for range 3 {
			_, _ = llm.Collect(t.Context(), m, llm.Request{Model: "a"})
		}
		time.Sleep(301 * time.Second)
		resp.mu.Lock()
		resp.gate = make(chan struct{})
		resp.mu.Unlock()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = llm.Collect(ctx, m, llm.Request{Model: "a"}) })
		synctest.Wait()
		for range 4 {
			_, _ = llm.Collect(t.Context(), m, llm.Request{Model: "a"})
		}
		if resp.count() != 4 || chat.count() != 7 {
			t.Errorf("%d responses and %d chat calls during the probe, want 4 and 7", resp.count(), chat.count())
		}
		stop() // a cancelled probe proves nothing: the next request tries
		wg.Wait()
		close(resp.gate)
		_, _ = llm.Collect(t.Context(), m, llm.Request{Model: "a"})
		if resp.count() != 5 {
			t.Errorf("%d responses calls after a cancelled probe, want 5", resp.count())
		}
	})
}

func TestWhatGoesToChat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		chat bool
	}{
		{"404 responses", unknown(), true},
		{"400 unsupported", &llm.Error{Kind: llm.UnsupportedParam, Status: 400, Message: "Unknown parameter: 'store'"}, true},
		{"422 instructions", &llm.Error{Kind: llm.InvalidRequest, Status: 422, Message: "Instructions: extra field"}, true},
		{"404 model", &llm.Error{Kind: llm.NotFound, Status: 404, Message: "model gpt-9 does not exist"}, false},
		{"429", &llm.Error{Kind: llm.RateLimited, Status: 429, Message: "responses not supported"}, false},
		{"500", &llm.Error{Kind: llm.ServerError, Status: 500, Message: "responses not supported"}, false},
		{"401", &llm.Error{Kind: llm.Auth, Status: 401, Message: "not supported"}, false},
		{"image", &llm.Error{Kind: llm.UnsupportedImage, Status: 400, Message: "images are not supported"}, false},
		{"length", &llm.Error{Kind: llm.ContextLength, Status: 400, Message: "the instructions are too long"}, false},
		{"cancelled", context.Canceled, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			resp, chat := &protocol{fail: c.err}, &protocol{}
			_, err := llm.Collect(t.Context(), responses.WithChat(resp, chat, responses.ChatOptions{}), llm.Request{Model: "a"})
			switch {
			case c.chat && (err != nil || chat.count() != 1):
				t.Errorf("error %v, %d chat calls", err, chat.count())
			case !c.chat && (!errors.Is(err, c.err) || chat.count() != 0):
				t.Errorf("error %v, %d chat calls, want %v and none", err, chat.count(), c.err)
			}
		})
	}
}

// Chat servers take ids of forty characters at most.
func TestIDsForChat(t *testing.T) {
	t.Parallel()
	resp, chat := &protocol{fail: unknown()}, &protocol{}
	req := llm.Request{Model: "a", Messages: []llm.Message{
		{Role: llm.User, Content: llm.Text("q")},
		{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "call_1|fc_2", Name: "f"}, {ID: "x", Name: "f"}}},
		{Role: llm.ToolRole, ToolCallID: "call_1|fc_2"},
		{Role: llm.ToolRole, ToolCallID: "x"},
	}}
	if _, err := llm.Collect(t.Context(), responses.WithChat(resp, chat, responses.ChatOptions{}), req); err != nil {
		t.Fatal(err)
	}
	want := []llm.Message{
		{Role: llm.User, Content: llm.Text("q")},
		{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "f"}, {ID: "x", Name: "f"}}},
		{Role: llm.ToolRole, ToolCallID: "call_1"},
		{Role: llm.ToolRole, ToolCallID: "x"},
	}
	if d := cmp.Diff(want, chat.last.Messages); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
	if req.Messages[1].ToolCalls[0].ID != "call_1|fc_2" || req.Messages[2].ToolCallID != "call_1|fc_2" {
		t.Error("the request was modified")
	}
}
