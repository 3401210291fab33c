package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// clock is a clock that tests set.
type clock struct{ at atomic.Pointer[time.Time] }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.set(at)
	return c
}

func (c *clock) set(at time.Time)        { c.at.Store(&at) }
func (c *clock) add(d time.Duration)     { c.set(c.now().Add(d)) }
func (c *clock) now() time.Time          { return *c.at.Load() }
func noon() time.Time                    { return time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC) }
func user(text string) []llm.Message     { return []llm.Message{{Role: llm.User, Content: llm.Text(text)}} }
func usage(prompt, answer int) llm.Usage { return llm.Usage{Prompt: prompt, Completion: answer} }

// answering is a model that answers everything with one usage.
func answering(u llm.Usage) llm.Model {
	return llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			if yield(llm.Event{Kind: llm.TextDelta, Text: "fine"}, nil) {
				yield(done(u), nil)
			}
		}
	})
}

func done(u llm.Usage) llm.Event {
	return llm.Event{Kind: llm.Done, Response: &llm.Response{
		Message: llm.Message{Role: llm.Assistant, Content: llm.Text("fine")}, Finish: llm.FinishStop, Usage: u,
	}}
}

// prices has one model, "m", at $1 and $10 per million tokens.
func prices(tb testing.TB) *ledger.Prices {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "prices.json")
	if err := os.WriteFile(file, []byte(`[{"model":"m","in":1,"out":10,"cacheRead":0.1}]`), 0o600); err != nil {
		tb.Fatal(err)
	}
	return ledger.NewPrices(file, nil)
}

// shop is a ledger with what a test needs around it.
type shop struct {
	t      testing.TB
	dir    string
	at     storetest.Open
	clock  *clock
	prices *ledger.Prices
	*ledger.Ledger
}

func newShop(tb testing.TB, open storetest.Open, lim ledger.Limits) *shop {
	tb.Helper()
	s := &shop{t: tb, dir: filepath.Join(tb.TempDir(), "usage"), at: open, clock: newClock(noon()), prices: prices(tb)}
	s.Ledger = s.open(lim)
	return s
}

func (s *shop) open(lim ledger.Limits) *ledger.Ledger {
	return ledger.New(ledger.Options{Store: s.store(), Limits: lim, Location: time.UTC, Now: s.clock.now})
}

// store is the folder as another process opens it.
func (s *shop) store() store.Store { return s.at(s.t, s.dir) }

// file is what a log or a document holds.
func (s *shop) file(name string) []byte {
	s.t.Helper()
	data, v, err := s.store().Doc(s.t.Context(), name)
	if err != nil || v == store.Missing {
		s.t.Fatalf("%s: version %q, %v", name, v, err)
	}
	return data
}

// put replaces a log or a document, as another program does.
func (s *shop) put(name string, data []byte) {
	s.t.Helper()
	if _, err := s.store().Put(s.t.Context(), name, data, store.Any, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) meter(m llm.Model) llm.Model {
	return ledger.Meter(m, ledger.MeterOptions{Ledger: s.Ledger, Prices: s.prices, Provider: "p"})
}

// log is the log of November.
func (s *shop) log() []ledger.Entry {
	s.t.Helper()
	var out []ledger.Entry
	for line := range strings.Lines(string(s.file("2026-11.jsonl"))) {
		var e ledger.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, e)
	}
	return out
}

func (s *shop) today() ledger.Spent {
	today, _ := s.Spent()
	return today
}

// run makes a call and returns the notices and the error.
func run(ctx context.Context, m llm.Model, req llm.Request) (notices []string, err error) {
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			return notices, err
		}
		if ev.Kind == llm.Waiting {
			notices = append(notices, ev.Text)
		}
	}
	return notices, nil
}

func budgetError(t *testing.T, err error, parts ...string) {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.BudgetExceeded {
		t.Fatalf("error = %v, want a budget error", err)
	}
	if e.Retryable() {
		t.Error("a budget error is retried")
	}
	for _, p := range parts {
		if !strings.Contains(e.Message, p) {
			t.Errorf("message %q does not say %q", e.Message, p)
		}
	}
}

func TestEntry(t *testing.T) { storetest.Each(t, testEntry) }

func testEntry(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{})
	req := llm.Request{Model: "m", Messages: user("hi"), SessionKey: "cli:x", Source: "cron", TurnID: "t1"}
	m := s.meter(llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			s.clock.add(2 * time.Second)
			if !yield(llm.Event{Kind: llm.TextDelta, Text: "fine"}, nil) {
				return
			}
			s.clock.add(time.Second)
			yield(done(llm.Usage{Prompt: 1000, Completion: 100, Cached: 500, CacheWrite: 10, Reasoning: 7}), nil)
		}
	}))
	if _, err := run(t.Context(), m, req); err != nil {
		t.Fatal(err)
	}
	want := []ledger.Entry{{
		Time: noon().Add(3 * time.Second), Turn: "t1", Session: "cli:x", Source: "cron", Provider: "p", Model: "m",
		Prompt: 1000, Completion: 100, Cached: 500, CacheWrite: 10, Reasoning: 7,
		Billing: ledger.Priced, Cost: 0.00155, Currency: "USD", USD: 0.00155, DurationMS: 3000, TTFTMS: 2000, Outcome: "ok",
	}}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
	if diff := cmp.Diff(want, s.log(), near); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if usd, billing := s.TurnCost("t1"); usd != 0.00155 || billing != ledger.Priced {
		t.Errorf("TurnCost = %v, %v, want 0.00155, priced", usd, billing)
	}
}

func TestBilling(t *testing.T) { storetest.Each(t, testBilling) }

func testBilling(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		model   string
		billing ledger.Billing
		usage   llm.Usage
		want    ledger.Billing
		usd     float64
		tokens  int64 // counted by limits
		unknown int64
	}{
		{"priced", "m", "", usage(1000, 10), ledger.Priced, 0.0011, 1010, 0},
		{"the vendor knows better", "m", "", llm.Usage{Prompt: 1000, Completion: 10, Cost: 0.5}, ledger.Reported, 0.5, 1010, 0},
		{"the vendor knows what we do not", "x", "", llm.Usage{Prompt: 1000, Completion: 10, Cost: 0.5}, ledger.Reported, 0.5, 1010, 0},
		{"nobody knows", "x", "", usage(1000, 10), ledger.Unknown, 0, 1010, 1010},
		{"on this machine", "m", ledger.Free, usage(1000, 10), ledger.Free, 0, 0, 0},
		{"flat fee", "m", ledger.Subscription, usage(1000, 10), ledger.Subscription, 0, 1010, 0},
		{"flat fee with a reported cost", "m", ledger.Subscription, llm.Usage{Prompt: 1, Cost: 3}, ledger.Subscription, 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, open, ledger.Limits{})
			m := ledger.Meter(answering(c.usage), ledger.MeterOptions{Ledger: s.Ledger, Prices: s.prices, Provider: "p", Billing: c.billing})
			if _, err := run(t.Context(), m, llm.Request{Model: c.model, TurnID: "t"}); err != nil {
				t.Fatal(err)
			}
			got := s.log()[0]
			if got.Billing != c.want || got.USD-c.usd > 1e-12 || c.usd-got.USD > 1e-12 || got.Source != "user" {
				t.Errorf("entry = %+v, want %s, $%v", got, c.want, c.usd)
			}
			if today := s.today(); today.Tokens != c.tokens || today.UnpricedTokens != c.unknown || today.Calls != 1 {
				t.Errorf("today = %+v, want %d tokens, %d unpriced", today, c.tokens, c.unknown)
			}
			if _, billing := s.TurnCost("t"); billing != c.want {
				t.Errorf("the turn is paid as %q, want %q", billing, c.want)
			}
		})
	}
}

func TestOutcomes(t *testing.T) { storetest.Each(t, testOutcomes) }

func testOutcomes(t *testing.T, open storetest.Open) {
	t.Parallel()
	fails := func(text string, err error) llm.Model {
		return llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				if text != "" && !yield(llm.Event{Kind: llm.TextDelta, Text: text}, nil) {
					return
				}
				if err != nil {
					yield(llm.Event{}, err)
				}
			}
		})
	}
	cut := &llm.Error{Kind: llm.StreamTruncated}
	for _, c := range []struct {
		name    string
		model   llm.Model
		outcome string
		out     int
	}{
		{"refused at once is refunded", fails("", &llm.Error{Kind: llm.RateLimited}), "rate_limit", 0},
		{"broken off is paid for", fails("12345678", cut), "stream_truncated", 2},
		{"ended without an end", fails("1234", nil), "stream_truncated", 1},
		{"cancelled", fails("1234", context.Canceled), "cancelled", 1},
		{"foreign error", fails("", errors.New("x")), "connection", 0},
		{"no usage", answering(llm.Usage{}), "ok", 1},
		{"no usage and thoughts that were only shown", llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				if yield(llm.Event{Kind: llm.ReasoningDelta, Text: "12345678"}, nil) {
					yield(done(llm.Usage{}), nil)
				}
			}
		}), "ok", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, open, ledger.Limits{DailyUSD: 1})
			_, err := run(t.Context(), s.meter(c.model), llm.Request{Model: "m", System: "1234", MaxTokens: 50_000})
			if err != nil && c.outcome == "ok" {
				t.Fatal(err)
			}
			e := s.log()[0]
			if e.Outcome != c.outcome || e.Completion != c.out || e.Estimated != (c.out > 0) || (e.Prompt > 0) != (c.out > 0) {
				t.Errorf("entry = %+v, want %s with %d tokens out", e, c.outcome, c.out)
			}
			// Nothing stays reserved: a call for nearly everything fits.
			if _, err := run(t.Context(), s.meter(answering(usage(1, 1))), llm.Request{Model: "m", MaxTokens: 99_990}); err != nil {
				t.Errorf("the reservation was not given back: %v", err)
			}
		})
	}
}

func TestAbandonedAndPanickingCalls(t *testing.T) { storetest.Each(t, testAbandonedAndPanickingCalls) }

func testAbandonedAndPanickingCalls(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{DailyUSD: 1})
	req := llm.Request{Model: "m", MaxTokens: 99_000}
	for range s.meter(answering(usage(1, 1))).Stream(t.Context(), req) {
		break
	}
	func() {
		defer func() { _ = recover() }()
		for range s.meter(llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] { panic("bug") })).Stream(t.Context(), req) {
			continue
		}
	}()
	if _, err := run(t.Context(), s.meter(answering(usage(1, 1))), req); err != nil {
		t.Errorf("a reservation was not given back: %v", err)
	}
	var got []string
	for _, e := range s.log() {
		got = append(got, e.Outcome)
	}
	if want := []string{"cancelled", "cancelled", "ok"}; !cmp.Equal(got, want) {
		t.Errorf("outcomes = %v, want %v", got, want)
	}
}

// The request the model sees is the caller's, except for a shorter answer. Its
// 400 bytes may be as many tokens, and 16 around them.
func TestClamp(t *testing.T) { storetest.Each(t, testClamp) }

func testClamp(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		lim   ledger.Limits
		asked int
		want  int // -1: refused
	}{
		{"room enough", ledger.Limits{DailyUSD: 1}, 1000, 1000},
		{"no bound asked for", ledger.Limits{DailyUSD: 1}, 0, 8192},
		{"no bound asked for and none set", ledger.Limits{}, 0, 0},
		{"no bound asked for but little left", ledger.Limits{DailyUSD: 0.05}, 0, 4958},
		{"money", ledger.Limits{DailyUSD: 0.05}, 8000, 4958},
		{"month", ledger.Limits{DailyUSD: 9, MonthlyUSD: 0.05}, 8000, 4958},
		{"turn", ledger.Limits{TurnUSD: 0.05}, 8000, 4958},
		{"tokens", ledger.Limits{DailyTokens: 1100}, 8000, 684},
		{"tightest", ledger.Limits{DailyUSD: 0.05, DailyTokens: 1100}, 8000, 684},
		{"too little to be of use", ledger.Limits{DailyTokens: 300}, 8000, -1},
		{"but enough for a tiny answer", ledger.Limits{DailyTokens: 450}, 20, 20},
		{"only warn", ledger.Limits{DailyTokens: 300, OnExceed: ledger.Warn}, 8000, 8000},
		{"the user goes on", ledger.Limits{DailyTokens: 300, OnExceed: ledger.StopBackground}, 8000, 8000},
		{"off", ledger.Limits{}, 8000, 8000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, open, c.lim)
			got := -1
			m := s.meter(llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
				got = req.MaxTokens
				return answering(usage(1, 1)).Stream(ctx, req)
			}))
			_, err := run(t.Context(), m, llm.Request{Model: "m", System: strings.Repeat("abcd", 100), MaxTokens: c.asked, TurnID: "t"})
			if got != c.want {
				t.Errorf("MaxTokens = %d, want %d", got, c.want)
			}
			if c.want < 0 {
				budgetError(t, err, "agents.defaults.budget.dailyTokens 600")
			}
		})
	}
}

func TestRefusalSaysHowToGoOn(t *testing.T) { storetest.Each(t, testRefusalSaysHowToGoOn) }

func testRefusalSaysHowToGoOn(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		lim   ledger.Limits
		req   llm.Request
		parts []string
	}{
		{"day", ledger.Limits{DailyUSD: 0.01}, llm.Request{}, []string{"today's budget of $0.0100", "$0.0100 spent", "in 12 h 0 min", "agents.defaults.budget.dailyUsd 0.02"}},
		{"month", ledger.Limits{MonthlyUSD: 0.01}, llm.Request{}, []string{"this month's", "Tue 1 Dec 00:00, in 15 days", "monthlyUsd 0.02", "0 is no limit"}},
		{"turn", ledger.Limits{TurnUSD: 0.01}, llm.Request{}, []string{"this turn's", "continue", "turnUsd 0.02"}},
		{"source", ledger.Limits{PerSource: map[string]ledger.SourceLimits{"cron": {DailyUSD: 0.01}}}, llm.Request{Source: "cron"}, []string{"today's cron budget", "perSource.cron.dailyUsd 0.02"}},
		{"source, tokens", ledger.Limits{PerSource: map[string]ledger.SourceLimits{"user": {DailyTokens: 500}}, OnExceed: ledger.StopBackground}, llm.Request{}, []string{"today's user budget of 500 tokens", "perSource.user.dailyTokens 1000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, open, c.lim)
			m := s.meter(answering(usage(0, 1000)))
			c.req.Model, c.req.TurnID, c.req.MaxTokens = "m", "t", 2000
			if _, err := run(t.Context(), m, c.req); err != nil {
				t.Fatal(err)
			}
			_, err := run(t.Context(), m, c.req)
			budgetError(t, err, c.parts...)
			if n := len(err.Error()); n > 500 {
				t.Errorf("the message has %d characters", n)
			}
			if n := len(s.log()); n != 1 {
				t.Errorf("%d calls were logged, want the one that was made", n)
			}
		})
	}
}

// A turn's limit is for each turn.
func TestTurnLimitIsPerTurn(t *testing.T) { storetest.Each(t, testTurnLimitIsPerTurn) }

func testTurnLimitIsPerTurn(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{TurnUSD: 0.01})
	m := s.meter(answering(usage(0, 1000)))
	for i := range 700 {
		if _, err := run(t.Context(), m, llm.Request{Model: "m", TurnID: fmt.Sprint(i), MaxTokens: 1000}); err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
		s.clock.add(time.Millisecond)
	}
	_, err := run(t.Context(), m, llm.Request{Model: "m", TurnID: "699"})
	budgetError(t, err)
}

// A turn with a call under way is not forgotten, however many others pass.
func TestLongTurnIsRemembered(t *testing.T) { storetest.Each(t, testLongTurnIsRemembered) }

func testLongTurnIsRemembered(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{TurnUSD: 0.01})
	next, stop := iter.Pull2(s.meter(answering(usage(0, 1000))).Stream(t.Context(), llm.Request{Model: "m", TurnID: "long", MaxTokens: 1000}))
	defer stop()
	next()
	for i := range 700 {
		s.clock.add(time.Millisecond)
		if _, err := run(t.Context(), s.meter(answering(usage(0, 1))), llm.Request{Model: "m", TurnID: fmt.Sprint(i), MaxTokens: 1}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := run(t.Context(), s.meter(answering(usage(0, 1))), llm.Request{Model: "m", TurnID: "long", MaxTokens: 1000})
	budgetError(t, err, "$0.0100 set aside")
}

func TestBackgroundStopsFirst(t *testing.T) { storetest.Each(t, testBackgroundStopsFirst) }

func testBackgroundStopsFirst(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		on                        ledger.OnExceed
		userStops, bgNear, bgOver bool
	}{{ledger.StopAll, true, true, true}, {"", true, true, true}, {ledger.StopBackground, false, false, true}, {ledger.Warn, false, false, false}} {
		s := newShop(t, open, ledger.Limits{DailyUSD: 1, OnExceed: c.on})
		m := s.meter(answering(usage(0, 89_000)))
		if _, err := run(t.Context(), m, llm.Request{Model: "m", MaxTokens: 89_000}); err != nil {
			t.Fatal(err)
		}
		_, err := run(t.Context(), s.meter(answering(usage(0, 2000))), llm.Request{Model: "m", Source: "dream", MaxTokens: 2000})
		if c.on == ledger.StopAll && err != nil {
			t.Errorf("%s: the rest up to nine tenths was refused: %v", c.on, err)
		}
		s.SetLimits(ledger.Limits{DailyUSD: 0.92, OnExceed: c.on})
		_, bg := run(t.Context(), s.meter(answering(usage(0, 1))), llm.Request{Model: "m", Source: "dream", MaxTokens: 1000})
		_, api := run(t.Context(), s.meter(answering(usage(0, 1))), llm.Request{Model: "m", Source: "api", MaxTokens: 100})
		if bg != nil {
			budgetError(t, bg, "today's budget of $0.9200", "background work may use $0.8280 of it, $0.9100 spent", "dailyUsd 1.84")
		}
		if (bg != nil) != c.bgNear || api != nil {
			t.Errorf("%s: near the limit background = %v, api = %v", c.on, bg, api)
		}
		s.SetLimits(ledger.Limits{DailyUSD: 0.5, OnExceed: c.on})
		if _, err := run(t.Context(), m, llm.Request{Model: "m"}); (err != nil) != c.userStops {
			t.Errorf("%s: over the limit user = %v", c.on, err)
		}
		if _, err := run(t.Context(), m, llm.Request{Model: "m", Source: "something new"}); (err != nil) != c.bgOver {
			t.Errorf("%s: over the limit background = %v", c.on, err)
		}
	}
}

// Whatever an unknown price is, it is not paid once the money is gone.
func TestUnknownPricesAreBounded(t *testing.T) { storetest.Each(t, testUnknownPricesAreBounded) }

func testUnknownPricesAreBounded(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{DailyUSD: 1, UnpricedDailyTokens: 1000})
	_, err := run(t.Context(), s.meter(answering(usage(100, 600))), llm.Request{Model: "x", MaxTokens: 900})
	if err != nil {
		t.Fatal(err)
	}
	_, err = run(t.Context(), s.meter(answering(usage(100, 600))), llm.Request{Model: "x", System: strings.Repeat("a", 400), MaxTokens: 900})
	budgetError(t, err, "unpricedDailyTokens", "1.0k tokens")

	s = newShop(t, open, ledger.Limits{DailyUSD: 0.01})
	s.spend(1)
	_, err = run(t.Context(), s.meter(answering(usage(1, 1))), llm.Request{Model: "x"})
	budgetError(t, err, "dailyUsd", "$0.0100 spent")
	err = nil

	// The vendor reports costs for a model we know nothing about.
	s = newShop(t, open, ledger.Limits{DailyUSD: 1})
	m := s.meter(llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		return answering(llm.Usage{Prompt: 0, Completion: req.MaxTokens, Cost: 0.3 / 900 * float64(req.MaxTokens)}).Stream(ctx, req)
	}))
	n := 0
	for ; err == nil || n == 0; n++ {
		if _, err = run(t.Context(), m, llm.Request{Model: "x", MaxTokens: 900}); n > 10 {
			t.Fatal("it never stops")
		}
	}
	budgetError(t, err, "dailyUsd")
	if today := s.today(); today.USD > 1 {
		t.Errorf("spent %v of 1", today.USD)
	}
}

func TestNotices(t *testing.T) { storetest.Each(t, testNotices) }

func testNotices(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{DailyUSD: 1, WarnAt: []float64{0.5, 0.8}, OnExceed: ledger.StopBackground})
	call := func(dir *ledger.Ledger, source string, out int) string {
		m := ledger.Meter(answering(usage(0, out)), ledger.MeterOptions{Ledger: dir, Prices: s.prices, Provider: "p"})
		notices, err := run(t.Context(), m, llm.Request{Model: "m", Source: source, MaxTokens: out})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(notices, "\n")
	}
	steps := []struct {
		name   string
		source string
		out    int
		again  bool // another process
		day    bool // the next day
		want   string
	}{
		{"below", "", 40_000, false, false, ""},
		{"background crosses the first", "cron", 15_000, false, false, "55 % of today's budget"},
		{"the user hears of it too", "", 1000, false, false, "55 % of today's budget is used: $0.5500 of $1.00"},
		{"once", "", 1000, false, false, ""},
		{"second threshold", "", 25_000, false, false, "82 % of today's"},
		{"once", "", 1000, false, false, ""},
		{"another process knows", "", 1000, true, false, ""},
		{"the limit", "", 20_000, false, false, "104 % of today's budget is used: $1.04 of $1.00. Work goes on"},
		{"once", "", 1000, false, false, ""},
		{"next day", "", 1000, false, true, ""},
		{"next day, straight over both", "", 80_000, false, false, "81 % of today's"},
		{"once", "", 1000, false, false, ""},
	}
	for i, c := range steps {
		l := s.Ledger
		if c.again {
			l = s.open(ledger.Limits{DailyUSD: 1, WarnAt: []float64{0.5, 0.8}, OnExceed: ledger.StopBackground})
		}
		if c.day {
			s.clock.add(24 * time.Hour)
		}
		if got := call(l, c.source, c.out); (c.want == "" && got != "") || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("step %d (%s): notice = %q, want %q", i, c.name, got, c.want)
		}
	}
}

// Parallel sessions over several meters, with retries and fallbacks, never
// spend more than the limit, and use most of it.
func TestNeverExceeds(t *testing.T) { storetest.Each(t, testNeverExceeds) }

func testNeverExceeds(t *testing.T, open storetest.Open) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lim  ledger.Limits
	}{
		{"money", ledger.Limits{DailyUSD: 0.5}},
		{"month", ledger.Limits{MonthlyUSD: 0.5}},
		{"tokens", ledger.Limits{DailyTokens: 50_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, open, c.lim)
			var peak atomic.Int64
			spend := llm.ModelFunc(func(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
				return func(yield func(llm.Event, error) bool) {
					peak.Add(1)
					if peak.Load()%3 == 0 { // fails after half of its answer
						if yield(llm.Event{Kind: llm.TextDelta, Text: strings.Repeat("word", req.MaxTokens/2)}, nil) {
							yield(llm.Event{}, &llm.Error{Kind: llm.StreamTruncated})
						}
						return
					}
					yield(done(usage(10, req.MaxTokens)), nil)
				}
			})
			var wg sync.WaitGroup
			var refused atomic.Int64
			for range 16 {
				a, b := s.meter(spend), s.meter(spend)
				wg.Go(func() {
					for range 50 {
						req := llm.Request{Model: "m", System: strings.Repeat("abcd", 10), MaxTokens: 700}
						for _, m := range []llm.Model{a, a, b} { // a retry, then a fallback
							_, err := run(t.Context(), m, req)
							if err == nil {
								break
							}
							if llm.AsError(err).Kind == llm.BudgetExceeded {
								refused.Add(1)
							}
						}
					}
				})
			}
			wg.Wait()
			var usd float64
			tokens := 0
			for _, e := range s.log() {
				usd += e.USD
				tokens += e.Prompt + e.Completion
			}
			used, limit := usd, 0.5
			if c.name == "tokens" {
				used, limit = float64(tokens), 50_000
			}
			if used > limit+1e-9 || used < 0.9*limit { // sums of floats are not exact
				t.Errorf("spent %v of %v in %d calls", used, limit, len(s.log()))
			}
			if refused.Load() == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// What other processes spent counts as soon as it is logged.
func TestTwoProcesses(t *testing.T) { storetest.Each(t, testTwoProcesses) }

func testTwoProcesses(t *testing.T, open storetest.Open) {
	t.Parallel()
	lim := ledger.Limits{DailyUSD: 0.1}
	s := newShop(t, open, lim)
	other := s.open(lim)
	om := ledger.Meter(answering(usage(0, 4000)), ledger.MeterOptions{Ledger: other, Prices: s.prices, Provider: "p"})
	mine := s.meter(answering(usage(0, 4000)))
	req := llm.Request{Model: "m", MaxTokens: 4000}
	var wg sync.WaitGroup
	for _, m := range []llm.Model{mine, om} {
		wg.Go(func() {
			if _, err := run(t.Context(), m, req); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a, b := s.today(), spentToday(other)
	if a.Calls != 2 || a != b {
		t.Errorf("one sees %+v, the other %+v, want 2 calls each", a, b)
	}
	req.MaxTokens = 1000
	for range 2 {
		if _, err := run(t.Context(), ledger.Meter(answering(usage(0, 1000)), ledger.MeterOptions{Ledger: other, Prices: s.prices}), req); err != nil {
			t.Fatal(err)
		}
	}
	_, err := run(t.Context(), mine, req)
	budgetError(t, err)
}

// Processes that write to one log at the same moment lose no call, and all of
// them come to the same sums.
func TestManyProcesses(t *testing.T) { storetest.Each(t, testManyProcesses) }

func testManyProcesses(t *testing.T, open storetest.Open) {
	t.Parallel()
	s := newShop(t, open, ledger.Limits{})
	var all []*ledger.Ledger
	var wg sync.WaitGroup
	for i := range 6 {
		l := s.open(ledger.Limits{})
		all = append(all, l)
		m := ledger.Meter(answering(usage(0, 1000)), ledger.MeterOptions{Ledger: l, Prices: s.prices, Provider: "p"})
		wg.Go(func() {
			for range 60 {
				if _, err := run(t.Context(), m, llm.Request{Model: "m", SessionKey: strings.Repeat("s", 100*i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, l := range append(all, s.open(ledger.Limits{})) {
		if got := spentToday(l); got.Calls != 360 || got.USD != 3.6 {
			t.Errorf("ledger %d: %+v, want 360 calls and $3.60", i, got)
		}
	}
}

func spentToday(l *ledger.Ledger) ledger.Spent {
	today, _ := l.Spent()
	return today
}
