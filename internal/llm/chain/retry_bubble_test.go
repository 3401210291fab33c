package chain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// attempts is a model that fails with the given errors in turn and then
// answers; the last error repeats if forever is set.
type attempts struct {
	text    string // shown before each error
	thought string
	errs    []error
	forever bool
	calls   []llm.Request
	at      []time.Duration // of each call, since the first
	begin   time.Time
}

func (a *attempts) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if len(a.calls) == 0 {
			a.begin = time.Now()
		}
		n := len(a.calls)
		a.calls = append(a.calls, req)
		a.at = append(a.at, time.Since(a.begin))
		if n >= len(a.errs) && a.forever {
			n = len(a.errs) - 1
		}
		if n < len(a.errs) {
			if a.thought != "" && !yield(llm.Event{Kind: llm.ReasoningDelta, Text: a.thought}, nil) {
				return
			}
			if a.text != "" && !yield(llm.Event{Kind: llm.TextDelta, Text: a.text}, nil) {
				return
			}
			yield(llm.Event{}, a.errs[n])
			return
		}
		yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("ok")}}}, nil)
	}
}

func noJitter() float64 { return 0.5 }

// play runs a request and writes down its events, e.g. "T W R D".
func play(ctx context.Context, m llm.Model, req llm.Request) (events string, waits []string, err error) {
	for ev, e := range m.Stream(ctx, req) {
		if e != nil {
			return events, waits, e
		}
		events += map[llm.EventKind]string{llm.TextDelta: "T", llm.ReasoningDelta: "t", llm.Waiting: "W", llm.Restarted: "R", llm.Done: "D"}[ev.Kind]
		if ev.Kind == llm.Waiting {
			waits = append(waits, ev.Text)
		}
	}
	return events, waits, nil
}

func seconds(n ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range n {
		out = append(out, time.Duration(s*float64(time.Second)))
	}
	return out
}

func TestRetry(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	overloaded := &llm.Error{Kind: llm.Overloaded, Status: 503}
	after := func(d time.Duration) error { return &llm.Error{Kind: llm.RateLimited, Status: 429, RetryAfter: d} }
	ten := make([]float64, 10)
	for i := range ten {
		if i > 0 {
			ten[i] = ten[i-1] + []float64{1, 2, 4, 4, 4, 4, 4, 4, 4}[i-1]
		}
	}
	for _, c := range []struct {
		name   string
		model  attempts
		o      chain.RetryOptions
		events string
		at     []time.Duration
		kind   llm.Kind // "" = success
	}{
		{"76a Retry-After 2", attempts{errs: []error{after(2 * time.Second)}}, chain.RetryOptions{}, "WD", seconds(0, 3), ""},
		{"76b retry-after-ms 250", attempts{errs: []error{after(250 * time.Millisecond)}}, chain.RetryOptions{}, "WD", seconds(0, 1.25), ""},
		{"77 quota", attempts{errs: []error{&llm.Error{Kind: llm.Billing, Status: 429}}}, chain.RetryOptions{}, "", seconds(0), llm.Billing},
		{"78 server says no", attempts{errs: []error{&llm.Error{Kind: llm.ServerError, Status: 500, ShouldRetry: &no}}}, chain.RetryOptions{}, "", seconds(0), llm.ServerError},
		{"server says yes", attempts{errs: []error{&llm.Error{Kind: llm.InvalidRequest, ShouldRetry: &yes}}}, chain.RetryOptions{}, "WD", seconds(0, 1), ""},
		{"79 forever, standard", attempts{errs: []error{overloaded}, forever: true}, chain.RetryOptions{}, "WWW", seconds(0, 1, 3, 7), llm.Overloaded},
		{"80 same error, persistent", attempts{errs: []error{overloaded}, forever: true}, chain.RetryOptions{Persistent: true}, "WWWWWWWWW", seconds(ten...), llm.Overloaded},
		{"long Retry-After, standard", attempts{errs: []error{after(121 * time.Second)}}, chain.RetryOptions{}, "", seconds(0), llm.RateLimited},
		{"long Retry-After, persistent", attempts{errs: []error{after(time.Hour)}}, chain.RetryOptions{Persistent: true}, "WWD", seconds(0, 60), ""},
		{"heartbeat", attempts{errs: []error{after(100 * time.Second)}}, chain.RetryOptions{}, "WWWWD", seconds(0, 101), ""},
		{"jitter low", attempts{errs: []error{overloaded}}, chain.RetryOptions{Rand: func() float64 { return 0 }}, "WD", seconds(0, 0.8), ""},
		{"86 rate limit without status", attempts{errs: []error{wire.Classifier{}.Response(0, nil, []byte(`{"error":{"code":"1302","message":"您当前使用该API的并发数过高"}}`))}}, chain.RetryOptions{}, "WD", seconds(0, 1), ""},
		{"auth", attempts{errs: []error{&llm.Error{Kind: llm.Auth, Status: 401}}}, chain.RetryOptions{Persistent: true}, "", seconds(0), llm.Auth},
		{"47 timeout after text", attempts{text: "x", errs: []error{&llm.Error{Kind: llm.Timeout}}}, chain.RetryOptions{}, "TWRD", seconds(0, 1), ""},
		{"truncated after text", attempts{text: "x", errs: []error{&llm.Error{Kind: llm.StreamTruncated}}}, chain.RetryOptions{}, "TWRD", seconds(0, 1), ""},
		{"42 other error after text", attempts{text: "x", errs: []error{overloaded}}, chain.RetryOptions{}, "T", seconds(0), llm.Overloaded},
		{"error after thinking", attempts{thought: "x", errs: []error{overloaded}}, chain.RetryOptions{}, "tWRD", seconds(0, 1), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if c.o.Rand == nil {
					c.o.Rand = noJitter
				}
				m := c.model
				events, _, err := play(t.Context(), chain.Retry(&m, c.o), llm.Request{})
				if events != c.events {
					t.Errorf("events %q, want %q", events, c.events)
				}
				if d := cmp.Diff(c.at, m.at); d != "" {
					t.Errorf("calls at other times: %s", d)
				}
				if (err == nil) != (c.kind == "") || err != nil && llm.AsError(err).Kind != c.kind {
					t.Errorf("error = %v, want %s", err, c.kind)
				}
			})
		})
	}
}

func TestRetryPersistentGoesOnWhileErrorsChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := attempts{}
		for i := range 25 {
			m.errs = append(m.errs, &llm.Error{Kind: llm.Overloaded, Message: fmt.Sprint("busy ", i)})
		}
		if events, _, err := play(t.Context(), chain.Retry(&m, chain.RetryOptions{Persistent: true}), llm.Request{}); err != nil || events[len(events)-1] != 'D' {
			t.Errorf("events %q, error %v", events, err)
		}
	})
}

func TestRetryTexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := attempts{errs: []error{&llm.Error{Kind: llm.RateLimited, RetryAfter: 44 * time.Second}}}
		_, waits, err := play(t.Context(), chain.Retry(&m, chain.RetryOptions{}), llm.Request{})
		want := []string{
			"The model server limits the rate; trying again in 45 s (attempt 2 of 4).",
			"The model server limits the rate; trying again in 15 s (attempt 2 of 4).",
		}
		if d := cmp.Diff(want, waits); d != "" || err != nil {
			t.Errorf("error %v, notices differ: %s", err, d)
		}
		m = attempts{errs: []error{&llm.Error{Kind: llm.RateLimited, Message: "slow", RetryAfter: time.Hour}}}
		if _, _, err = play(t.Context(), chain.Retry(&m, chain.RetryOptions{}), llm.Request{}); err == nil || err.Error() != "slow (the server asks to wait 1h0m0s)" {
			t.Errorf("error = %v, want one with the time", err)
		}
	})
}

func TestRetryCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		m := attempts{errs: []error{&llm.Error{Kind: llm.Overloaded}}, forever: true}
		start := time.Now()
		_, _, err := play(ctx, chain.Retry(&m, chain.RetryOptions{Persistent: true}), llm.Request{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 500*time.Millisecond || len(m.calls) != 1 {
			t.Errorf("error %v after %s and %d calls", err, time.Since(start), len(m.calls))
		}
		m = attempts{errs: []error{context.Canceled}}
		if _, _, err := play(t.Context(), chain.Retry(&m, chain.RetryOptions{}), llm.Request{}); !errors.Is(err, context.Canceled) || len(m.calls) != 1 {
			t.Errorf("a cancelled call was tried %d times: %v", len(m.calls), err)
		}
	})
}

func TestRetryStopsWhenNobodyListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := attempts{errs: []error{&llm.Error{Kind: llm.Overloaded}}, forever: true}
		for range chain.Retry(&m, chain.RetryOptions{}).Stream(t.Context(), llm.Request{}) {
			break
		}
		if len(m.calls) != 1 {
			t.Errorf("%d calls after the listener left, want 1", len(m.calls))
		}
	})
}

func imageRequest() llm.Request {
	return llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{
		{Type: "text", Text: "what is this?"}, {Type: "image_url", ImageURL: "data:image/png;base64,AA", Path: "/a.png"},
	}}}}}
}

func hasImage(req llm.Request) bool {
	for _, b := range req.Messages[0].Content.Blocks {
		if b.Type == "image_url" {
			return true
		}
	}
	return false
}

func TestRetryWithoutImages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		err    *llm.Error
		images []bool // of each call of two requests
	}{
		{"81 no vision", &llm.Error{Kind: llm.UnsupportedImage, Status: 400, Message: "model does not support image input"}, []bool{true, false, false}},
		{"one bad image", &llm.Error{Kind: llm.UnsupportedImage, Status: 400, Code: "invalid_image_format", Message: "unsupported image"}, []bool{true, false, true}},
		{"some 400", &llm.Error{Kind: llm.InvalidRequest, Status: 400, Message: "bad"}, []bool{true, false, true}},
		{"413", &llm.Error{Kind: llm.ContextLength, Status: 413}, []bool{true, false, true}},
		{"82 auth", &llm.Error{Kind: llm.Auth, Status: 401}, []bool{true, true}},
		{"83 context length", &llm.Error{Kind: llm.ContextLength, Status: 400}, []bool{true, true}},
		{"billing", &llm.Error{Kind: llm.Billing, Status: 402}, []bool{true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := attempts{errs: []error{c.err}}
			r := chain.Retry(&m, chain.RetryOptions{})
			req := imageRequest()
			for range 2 {
				_, _, _ = play(t.Context(), r, req)
			}
			var got []bool
			for _, call := range m.calls {
				got = append(got, hasImage(call))
			}
			if d := cmp.Diff(c.images, got); d != "" {
				t.Errorf("calls with images differ: %s", d)
			}
			if !hasImage(req) {
				t.Error("the caller's request lost its image")
			}
		})
	}
}
