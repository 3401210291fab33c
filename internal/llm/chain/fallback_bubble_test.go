package chain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
)

// verdicts is the decision table by example: the error of a link, and whether
// another link is asked. Property tests draw from it.
func verdicts() []struct {
	name string
	err  *llm.Error
	next bool
} {
	no, yes := false, true
	return []struct {
		name string
		err  *llm.Error
		next bool
	}{
		{"77 quota", &llm.Error{Kind: llm.Billing, Status: 429, Code: "insufficient_quota"}, true},
		{"402 that must not be retried", &llm.Error{Kind: llm.Billing, Status: 402, ShouldRetry: &no}, true},
		{"401", &llm.Error{Kind: llm.Auth, Status: 401}, true},
		{"400 with an invalid key", &llm.Error{Kind: llm.Auth, Status: 400, Code: "invalid_api_key"}, true},
		{"403", &llm.Error{Kind: llm.Permission, Status: 403}, true},
		{"filter with 500", &llm.Error{Kind: llm.ContentFilter, Status: 500}, false},
		{"filter that may be retried", &llm.Error{Kind: llm.ContentFilter, ShouldRetry: &yes}, false},
		{"refusal", &llm.Error{Kind: llm.Refused}, false},
		{"83 overflow", &llm.Error{Kind: llm.ContextLength, Status: 400}, false},
		{"invalid request", &llm.Error{Kind: llm.InvalidRequest, Status: 400}, false},
		{"invalid request, 403", &llm.Error{Kind: llm.UnsupportedParam, Status: 403}, true},
		{"78 500, server says no", &llm.Error{Kind: llm.ServerError, Status: 500, ShouldRetry: &no}, false},
		{"429, server says no", &llm.Error{Kind: llm.RateLimited, Status: 429, ShouldRetry: &no}, false},
		{"model not found", &llm.Error{Kind: llm.NotFound, Status: 404, Code: "model_not_found"}, true},
		{"404 about an image", &llm.Error{Kind: llm.UnsupportedImage, Status: 404}, false},
		{"422", &llm.Error{Kind: llm.UnsupportedParam, Status: 422}, false},
		{"400, server says yes", &llm.Error{Kind: llm.UnsupportedParam, Status: 400, ShouldRetry: &yes}, false},
		{"server says yes", &llm.Error{Kind: llm.UnsupportedParam, ShouldRetry: &yes}, true},
		{"408", &llm.Error{Kind: llm.Timeout, Status: 408}, true},
		{"409", &llm.Error{Kind: llm.ServerError, Status: 409}, true},
		{"429", &llm.Error{Kind: llm.RateLimited, Status: 429}, true},
		{"503", &llm.Error{Kind: llm.Overloaded, Status: 503}, true},
		{"timeout", &llm.Error{Kind: llm.Timeout}, true},
		{"connection", &llm.Error{Kind: llm.Connection}, true},
		{"unknown host", &llm.Error{Kind: llm.Connection, ShouldRetry: &no}, true},
		{"86 rate limit without status", &llm.Error{Kind: llm.RateLimited}, true},
		{"overloaded in the stream", &llm.Error{Kind: llm.Overloaded}, true},
		{"server error in the stream", &llm.Error{Kind: llm.ServerError}, true},
		{"cut stream", &llm.Error{Kind: llm.StreamTruncated}, true},
		{"empty answer", &llm.Error{Kind: llm.Empty}, true},
		{"configuration", &llm.Error{Kind: llm.Configuration}, false},
		{"parameter in the stream", &llm.Error{Kind: llm.UnsupportedParam}, false},
		{"image in the stream", &llm.Error{Kind: llm.UnsupportedImage}, false},
		{"a kind of a later day", &llm.Error{Kind: "budget_exceeded"}, false},
	}
}

func TestFallsBack(t *testing.T) {
	t.Parallel()
	seen := map[llm.Kind]bool{}
	for _, c := range verdicts() {
		seen[c.err.Kind] = true
		if got := chain.FallsBack(c.err); got != c.next {
			t.Errorf("%s: FallsBack = %v, want %v", c.name, got, c.next)
		}
	}
	for _, k := range llm.Kinds() {
		if !seen[k] && chain.FallsBack(&llm.Error{Kind: k}) {
			t.Errorf("kind %s falls back and is not in the table", k)
		}
	}
}

// scripted is a model whose n-th call does what the n-th step says; it answers
// when the steps are used up.
type scripted struct {
	steps []step
	calls []llm.Request
}

type step struct {
	thought, text string
	wait          time.Duration // before the end, cut short by ctx
	err           error         // nil: an answer
}

func (s *scripted) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		var st step
		if n := len(s.calls); n < len(s.steps) {
			st = s.steps[n]
		}
		s.calls = append(s.calls, req)
		if st.thought != "" && !yield(llm.Event{Kind: llm.ReasoningDelta, Text: st.thought}, nil) {
			return
		}
		if st.text != "" && !yield(llm.Event{Kind: llm.TextDelta, Text: st.text}, nil) {
			return
		}
		if st.wait > 0 {
			select {
			case <-time.After(st.wait):
			case <-ctx.Done():
			}
		}
		if err := ctx.Err(); err != nil {
			yield(llm.Event{}, err)
			return
		}
		if st.err != nil {
			yield(llm.Event{}, st.err)
			return
		}
		yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("ok")}}}, nil)
	}
}

func overloaded() *llm.Error { return &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "busy"} }

func fails(errs ...error) *scripted {
	s := &scripted{}
	for _, e := range errs {
		s.steps = append(s.steps, step{err: e})
	}
	return s
}

// links makes links A, B, C of models.
func links(models ...*scripted) []chain.Link {
	var out []chain.Link
	for i, m := range models {
		out = append(out, chain.Link{Model: m, Name: string(rune('A' + i))})
	}
	return out
}

func TestFallback(t *testing.T) {
	t.Parallel()
	timeout := &llm.Error{Kind: llm.Timeout, Message: "stalled"}
	for _, c := range []struct {
		name   string
		a, b   *scripted
		events string
		calls  [2]int
		notice string
		err    string
	}{
		{"the first answers", fails(), fails(), "D", [2]int{1, 0}, "", ""},
		{"the second answers", fails(overloaded()), fails(), "WD", [2]int{1, 1}, "Answered by B, because A is overloaded.", ""},
		{"a bad request is nobody else's", fails(&llm.Error{Kind: llm.InvalidRequest, Status: 400, Message: "bad"}), fails(), "", [2]int{1, 0}, "", "HTTP 400: bad"},
		{"all fail", fails(overloaded()), fails(&llm.Error{Kind: llm.Auth, Provider: "b", Status: 401, Message: "who?"}), "", [2]int{1, 1}, "", "b: HTTP 401: who? (tried A: overloaded, B: auth)"},
		{"the second will not", fails(overloaded()), fails(&llm.Error{Kind: llm.Refused, Message: "never"}), "", [2]int{1, 1}, "", "never (tried A: overloaded, B: refusal)"},
		{"error after text", &scripted{steps: []step{{text: "x", err: overloaded()}}}, fails(), "T", [2]int{1, 0}, "", "HTTP 503: busy"},
		{"timeout after text", &scripted{steps: []step{{text: "x", err: timeout}}}, fails(), "TRWD", [2]int{1, 1}, "Answered by B, because A did not answer in time.", ""},
		{"cut after text", &scripted{steps: []step{{text: "x", err: &llm.Error{Kind: llm.StreamTruncated}}}}, fails(), "TRWD", [2]int{1, 1}, "Answered by B, because A broke off its answer.", ""},
		{"error after thinking", &scripted{steps: []step{{thought: "x", err: overloaded()}}}, fails(), "tRWD", [2]int{1, 1}, "Answered by B, because A is overloaded.", ""},
		{"not an error of ours", fails(errors.New("odd")), fails(), "", [2]int{1, 0}, "", "odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			events, notices, err := play(t.Context(), chain.Fallback(links(c.a, c.b), chain.FallbackOptions{}), llm.Request{})
			if got := [2]int{len(c.a.calls), len(c.b.calls)}; events != c.events || got != c.calls {
				t.Errorf("events %q, calls %v, want %q, %v", events, got, c.events, c.calls)
			}
			if got := strings.Join(notices, "|"); got != c.notice {
				t.Errorf("notices %q, want %q", got, c.notice)
			}
			if text := fmt.Sprint(err); (err == nil) != (c.err == "") || err != nil && text != c.err {
				t.Errorf("error = %q, want %q", text, c.err)
			}
		})
	}
}

func TestFallbackWithoutLinks(t *testing.T) {
	t.Parallel()
	_, _, err := play(t.Context(), chain.Fallback(nil, chain.FallbackOptions{}), llm.Request{})
	if err == nil || llm.AsError(err).Kind != llm.Configuration {
		t.Errorf("error = %v, want a configuration error", err)
	}
}

func TestFallbackAdjustsOnlyItsOwnLink(t *testing.T) {
	t.Parallel()
	a, b := fails(overloaded()), fails()
	links := links(a, b)
	warm := 0.7
	links[1].Adjust = func(r llm.Request) llm.Request {
		r.Model, r.MaxTokens, r.Temperature, r.Effort = "b-1", 100, &warm, ""
		return r
	}
	req := llm.Request{Model: "a-1", MaxTokens: 9, Effort: "high"}
	if _, _, err := play(t.Context(), chain.Fallback(links, chain.FallbackOptions{}), req); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(req, a.calls[0]); d != "" {
		t.Errorf("the first link got another request: %s", d)
	}
	if d := cmp.Diff(llm.Request{Model: "b-1", MaxTokens: 100, Temperature: &warm}, b.calls[0]); d != "" {
		t.Errorf("the second link got another request: %s", d)
	}
}

func TestFallbackOverflow(t *testing.T) {
	t.Parallel()
	over := func(limit int) error { return &llm.Error{Kind: llm.ContextLength, Status: 400, ContextLimit: limit} }
	for _, c := range []struct {
		name    string
		windows []int
		models  []*scripted
		asked   string
		kind    llm.Kind
		limit   int
	}{
		{"a larger window", []int{8000, 4000, 32000}, []*scripted{fails(over(0)), fails(), fails()}, "AC", "", 0},
		{"no larger window", []int{8000, 8000, 4000}, []*scripted{fails(over(8000)), fails(), fails()}, "A", llm.ContextLength, 8000},
		{"windows unknown", []int{0, 0, 0}, []*scripted{fails(over(0)), fails(), fails()}, "A", llm.ContextLength, 0},
		{"only the real limit is known", []int{0, 16000, 0}, []*scripted{fails(over(8000)), fails(), fails()}, "AB", "", 0},
		{"the real limit is smaller than configured", []int{99000, 16000, 0}, []*scripted{fails(over(8000)), fails(), fails()}, "AB", "", 0},
		{"the larger one fails too", []int{8000, 16000, 32000}, []*scripted{fails(over(8000)), fails(over(16000)), fails(over(32000))}, "ABC", llm.ContextLength, 32000},
		{"the larger one is down: shorten after all", []int{8000, 16000, 0}, []*scripted{fails(over(8000)), fails(overloaded()), fails()}, "AB", llm.ContextLength, 8000},
		{"a window that proved small", []int{3000, 4000, 2000}, []*scripted{fails(over(0)), fails(over(1000)), fails()}, "AB", llm.ContextLength, 1000},
		{"down first, then too long", []int{8000, 4000, 2000}, []*scripted{fails(overloaded()), fails(over(4000)), fails()}, "AB", llm.ContextLength, 4000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			links := links(c.models...)
			for i := range links {
				links[i].Window = c.windows[i]
			}
			_, _, err := play(t.Context(), chain.Fallback(links, chain.FallbackOptions{}), llm.Request{})
			var asked strings.Builder
			for i, m := range c.models {
				asked.WriteString(strings.Repeat(links[i].Name, len(m.calls)))
			}
			if asked.String() != c.asked {
				t.Errorf("asked %s, want %s", asked.String(), c.asked)
			}
			switch e, ok := errors.AsType[*llm.Error](err); {
			case (err == nil) != (c.kind == ""):
				t.Errorf("error = %v, want kind %q", err, c.kind)
			case ok && (e.Kind != c.kind || e.ContextLimit != c.limit):
				t.Errorf("error %s with limit %d, want %s with %d", e.Kind, e.ContextLimit, c.kind, c.limit)
			}
		})
	}
}

func TestFallbackStaysForTheTurn(t *testing.T) {
	t.Parallel()
	a := fails(overloaded())
	b := fails(nil, nil, nil, overloaded())
	m := chain.Fallback(links(a, b), chain.FallbackOptions{})
	var log []string
	for _, turn := range []string{"1", "1", "1", "2", "1"} {
		before := [2]int{len(a.calls), len(b.calls)}
		events, _, err := play(t.Context(), m, llm.Request{TurnID: turn, SessionKey: "s"})
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, fmt.Sprintf("%s: %s A%d B%d", turn, events, len(a.calls)-before[0], len(b.calls)-before[1]))
	}
	want := []string{
		"1: WD A1 B1", // the switch is announced once
		"1: D A0 B1",  // the turn stays
		"1: D A0 B1",
		"2: D A1 B0", // a new turn returns
		"1: D A1 B1", // the link of the turn fails: rather the first one than none
	}
	if d := cmp.Diff(want, log); d != "" {
		t.Errorf("links asked differ: %s", d)
	}
}

func TestFallbackTellsOncePerSession(t *testing.T) {
	t.Parallel()
	a := fails(overloaded(), overloaded(), nil, overloaded(), overloaded())
	m := chain.Fallback(links(a, fails()), chain.FallbackOptions{})
	var got []string
	for i, session := range []string{"s", "s", "s", "s", "other"} {
		events, _, err := play(t.Context(), m, llm.Request{TurnID: fmt.Sprint(i), SessionKey: session})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, events)
	}
	if d := cmp.Diff([]string{"WD", "D", "D", "WD", "WD"}, got); d != "" {
		t.Errorf("notices differ: %s", d)
	}
}

func TestFallbackAttemptTime(t *testing.T) {
	t.Parallel()
	const s = time.Second
	rate := &llm.Error{Kind: llm.RateLimited, RetryAfter: 100 * s}
	for _, c := range []struct {
		name   string
		a      llm.Model
		events string
		after  time.Duration
	}{
		{"in time", &scripted{steps: []step{{wait: 9 * s}}}, "D", 9 * s},
		{"silent", &scripted{steps: []step{{wait: time.Hour}}}, "WD", 10 * s},
		{"a stream has twice the time", &scripted{steps: []step{{text: "x", wait: 19 * s}}}, "TD", 19 * s},
		{"but not more", &scripted{steps: []step{{text: "x", wait: time.Hour}}}, "TRWD", 20 * s},
		{"retries stop with the time", chain.Retry(&scripted{steps: []step{{wait: 9 * s, err: overloaded()}, {wait: time.Hour}}}, chain.RetryOptions{Rand: noJitter}), "WWD", 49 * s},
		{"each attempt has its own time", chain.Retry(&scripted{steps: []step{{text: "x", wait: 5 * s, err: &llm.Error{Kind: llm.Timeout}}, {wait: time.Hour}}}, chain.RetryOptions{Rand: noJitter}), "TWRWD", 16 * s},
		{"text that was taken back", chain.Retry(&scripted{steps: []step{{text: "x", err: &llm.Error{Kind: llm.Timeout}}, {err: &llm.Error{Kind: llm.Billing}}}}, chain.RetryOptions{Rand: noJitter}), "TWRWD", s},
		{"waiting does not count", chain.Retry(fails(rate), chain.RetryOptions{}), "WWWWD", 101 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				links := []chain.Link{{Model: c.a, Name: "A", Attempt: 10 * s}, {Model: fails(), Name: "B"}}
				events, notices, err := play(t.Context(), chain.Fallback(links, chain.FallbackOptions{}), llm.Request{})
				if took := time.Since(begin); err != nil || events != c.events || took != c.after {
					t.Errorf("events %q after %s, error %v, want %q after %s; notices %q", events, took, err, c.events, c.after, notices)
				}
			})
		})
	}
}

func TestFallbackTimeoutIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		links := []chain.Link{{Model: &scripted{steps: []step{{wait: time.Hour}}}, Name: "A", Attempt: time.Minute}}
		_, _, err := play(t.Context(), chain.Fallback(links, chain.FallbackOptions{}), llm.Request{})
		if e := llm.AsError(err); e.Kind != llm.Timeout || err.Error() != "A: no complete answer within 1m0s" {
			t.Errorf("error = %v of kind %s", err, e.Kind)
		}
	})
}

func TestFallbackCancel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		a    llm.Model
	}{
		{"while a link hangs", &scripted{steps: []step{{wait: time.Hour}}}},
		{"while a link waits to retry", chain.Retry(&attempts{errs: []error{overloaded()}, forever: true}, chain.RetryOptions{Persistent: true})},
		{"while waiting for a slot", func() llm.Model {
			l := chain.NewLimiter(chain.Rate{Requests: 1, InFlight: 0})
			m := chain.Throttle(fails(nil, nil), l)
			return llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
				_, _ = llm.Collect(ctx, m, req)
				return m.Stream(ctx, req)
			})
		}()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
				defer cancel()
				b := fails()
				set := chain.NewBreakers(chain.BreakersOptions{})
				links := []chain.Link{{Model: c.a, Name: "A", Attempt: time.Hour, Breaker: set.At("a")}, {Model: b, Name: "B"}}
				begin := time.Now()
				_, _, err := play(ctx, chain.Fallback(links, chain.FallbackOptions{}), llm.Request{})
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 700*time.Millisecond || len(b.calls) != 0 {
					t.Errorf("error %v after %s, %d calls of the next link", err, time.Since(begin), len(b.calls))
				}
			})
		})
	}
}

func TestFallbackStopsWhenNobodyListens(t *testing.T) {
	t.Parallel()
	for leave := range 4 { // after text, Restarted, notice, Done
		a, b := &scripted{steps: []step{{text: "x", err: &llm.Error{Kind: llm.Timeout}}}}, fails()
		n := 0
		for range chain.Fallback(links(a, b), chain.FallbackOptions{}).Stream(t.Context(), llm.Request{}) {
			if n++; n > leave {
				break
			}
		}
		if want := []int{0, 0, 1, 1}[leave]; len(b.calls) != want {
			t.Errorf("left after %d events: %d calls of the next link, want %d", leave+1, len(b.calls), want)
		}
	}
}

// The whole tower: every single attempt passes the meter, and a quota error is
// not retried but answered by the next key and then by the next link.
func TestDecoratorOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log []string
		meter := func(name string, m llm.Model) llm.Model {
			return llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
				log = append(log, fmt.Sprintf("%s at %s", name, time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))))
				return m.Stream(ctx, req)
			})
		}
		key := func(name string, m llm.Model) chain.Keyed {
			return chain.Keyed{Name: name, Make: func() (llm.Model, error) {
				return chain.Throttle(meter(name, m), chain.NewLimiter(chain.Rate{Requests: 0, InFlight: 1})), nil
			}}
		}
		a := chain.Rotate([]chain.Keyed{
			key("a1", fails(&llm.Error{Kind: llm.Billing, Status: 429})),
			key("a2", &attempts{errs: []error{overloaded()}, forever: true}),
		}, chain.RotateOptions{})
		set := chain.NewBreakers(chain.BreakersOptions{})
		m := chain.Fallback([]chain.Link{
			{Name: "A", Model: chain.Retry(a, chain.RetryOptions{Rand: noJitter}), Breaker: set.At("a")},
			{Name: "B", Model: chain.Retry(meter("b", fails()), chain.RetryOptions{}), Breaker: set.At("b")},
		}, chain.FallbackOptions{})
		events, _, err := play(t.Context(), m, llm.Request{})
		want := []string{"a1 at 0s", "a2 at 0s", "a2 at 1s", "a2 at 3s", "a2 at 7s", "b at 7s"}
		if d := cmp.Diff(want, log); d != "" || err != nil || events != "WWWWD" {
			t.Errorf("events %q, error %v, attempts differ: %s", events, err, d)
		}
	})
}

// Persistent mode is Retry around the chain: it repeats the whole of it and
// stops at the tenth identical error.
func TestPersistentFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := &attempts{errs: []error{overloaded()}, forever: true}, &attempts{errs: []error{overloaded()}, forever: true}
		set := chain.NewBreakers(chain.BreakersOptions{})
		m := chain.Retry(chain.Fallback([]chain.Link{
			{Name: "A", Model: a, Breaker: set.At("a")}, {Name: "B", Model: b, Breaker: set.At("b")},
		}, chain.FallbackOptions{}), chain.RetryOptions{Persistent: true, Rand: noJitter})
		_, _, err := play(t.Context(), m, llm.Request{})
		if err == nil || len(a.calls) != 10 || len(b.calls) != 10 {
			t.Errorf("%d and %d calls, error %v; want an end after ten rounds", len(a.calls), len(b.calls), err)
		}
	})
}
