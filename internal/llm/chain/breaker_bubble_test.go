package chain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
)

// endpoint is a model that fails with err while it is set, and takes its time.
type endpoint struct {
	mu    sync.Mutex
	err   error
	takes time.Duration
	calls int
}

func (e *endpoint) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

func (e *endpoint) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		e.mu.Lock()
		e.calls++
		err, takes := e.err, e.takes
		e.mu.Unlock()
		if takes > 0 {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				yield(llm.Event{}, ctx.Err())
				return
			}
		}
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		yield(llm.Event{Kind: llm.Done, Response: &llm.Response{}}, nil)
	}
}

// asks runs a request and reports whether the endpoint was asked.
func (e *endpoint) asks(t *testing.T, m llm.Model, req llm.Request) bool {
	t.Helper()
	before := e.count()
	_, _, _ = play(t.Context(), m, req)
	return e.count() > before
}

// guarded is a chain of an endpoint behind a breaker and a model that answers.
func guarded(e *endpoint, b *chain.Breaker) llm.Model {
	return chain.Fallback([]chain.Link{{Name: "A", Model: e, Breaker: b}, {Name: "B", Model: &endpoint{}}}, chain.FallbackOptions{})
}

func TestBreaker87(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &endpoint{err: overloaded()}
		retried := chain.Retry(a, chain.RetryOptions{Rand: noJitter})
		set := chain.NewBreakers(chain.BreakersOptions{})
		m := chain.Fallback([]chain.Link{{Name: "A", Model: retried, Breaker: set.At("a")}, {Name: "B", Model: &endpoint{}}}, chain.FallbackOptions{})
		for i := range 3 {
			if events, _, err := play(t.Context(), m, llm.Request{TurnID: fmt.Sprint(i)}); err != nil || !strings.HasSuffix(events, "D") {
				t.Fatalf("request %d: events %q, error %v", i, events, err)
			}
		}
		if a.count() != 12 {
			t.Errorf("%d calls for three requests, want 4 each", a.count())
		}
		_, notices, err := play(t.Context(), m, llm.Request{TurnID: "4"})
		want := "Answered by B, because A is overloaded; it is tried again after " + time.Now().Add(time.Minute).Local().Format("15:04") + "."
		if err != nil || a.count() != 12 || strings.Join(notices, "|") != want {
			t.Errorf("fourth request: %d calls of the first link, notices %q, want none and %q", a.count()-12, notices, want)
		}
		time.Sleep(59 * time.Second)
		if a.asks(t, m, llm.Request{}) {
			t.Error("asked before the minute was over")
		}
		time.Sleep(time.Second)
		a.set(nil)
		for range 2 {
			if !a.asks(t, m, llm.Request{}) {
				t.Error("not asked again when the minute was over")
			}
		}
	})
}

func TestBreakerCooldowns(t *testing.T) {
	t.Parallel()
	const m, h = time.Minute, time.Hour
	for _, c := range []struct {
		name  string
		err   *llm.Error
		first int // failures that open it
		want  []time.Duration
	}{
		{"transient", overloaded(), 3, []time.Duration{m, 5 * m, 25 * m, 60 * m, 60 * m}},
		{"rejected key", &llm.Error{Kind: llm.Auth, Status: 401}, 3, []time.Duration{m, 5 * m}},
		{"billing", &llm.Error{Kind: llm.Billing, Status: 402}, 1, []time.Duration{5 * h, 10 * h, 20 * h, 24 * h, 24 * h}},
		{"server asks for more", &llm.Error{Kind: llm.RateLimited, RetryAfter: 10 * m}, 3, []time.Duration{10 * m, 10 * m, 25 * m}},
		{"server asks for too much", &llm.Error{Kind: llm.RateLimited, RetryAfter: 999 * h}, 3, []time.Duration{24 * h}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := chain.NewBreakers(chain.BreakersOptions{})
				a := &endpoint{err: c.err}
				model := guarded(a, set.At("a"))
				for range c.first {
					if !a.asks(t, model, llm.Request{}) {
						t.Fatal("open too early")
					}
				}
				var got []time.Duration
				for range c.want {
					p := set.Paused(t.Context())
					if len(p) != 1 {
						t.Fatalf("paused: %v", p)
					}
					got = append(got, time.Until(p[0].Until))
					time.Sleep(time.Until(p[0].Until) - time.Nanosecond)
					if a.asks(t, model, llm.Request{}) {
						t.Error("asked during the pause")
					}
					time.Sleep(time.Nanosecond)
					if !a.asks(t, model, llm.Request{}) {
						t.Error("no probe after the pause")
					}
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("pauses differ: %s", d)
				}
			})
		})
	}
}

// fail makes n failures, each after the given gap.
func fail(t *testing.T, a *endpoint, m llm.Model, n int, gap time.Duration) {
	t.Helper()
	a.set(overloaded())
	for range n {
		time.Sleep(gap)
		a.asks(t, m, llm.Request{})
	}
}

func TestBreakerWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		takes time.Duration
		run   func(t *testing.T, a *endpoint, m llm.Model)
		open  bool
	}{
		{"three within a minute", 0, func(t *testing.T, a *endpoint, m llm.Model) { fail(t, a, m, 3, 30*time.Second) }, true},
		{"three in more than a minute", 0, func(t *testing.T, a *endpoint, m llm.Model) { fail(t, a, m, 5, 31*time.Second) }, false},
		{"two", 0, func(t *testing.T, a *endpoint, m llm.Model) { fail(t, a, m, 2, 0) }, false},
		{"slow failures", 5 * time.Minute, func(t *testing.T, a *endpoint, m llm.Model) { fail(t, a, m, 3, 20*time.Second) }, true},
		{"an answer between", 0, func(t *testing.T, a *endpoint, m llm.Model) {
			fail(t, a, m, 2, 0)
			a.set(nil)
			a.asks(t, m, llm.Request{})
			fail(t, a, m, 2, 0)
		}, false},
		{"a bad request between shows that it lives", 0, func(t *testing.T, a *endpoint, m llm.Model) {
			fail(t, a, m, 2, 0)
			a.set(&llm.Error{Kind: llm.InvalidRequest, Status: 400})
			a.asks(t, m, llm.Request{})
			fail(t, a, m, 2, 0)
		}, false},
		{"errors of requests", 0, func(t *testing.T, a *endpoint, m llm.Model) {
			a.set(&llm.Error{Kind: llm.ContextLength})
			for range 5 {
				a.asks(t, m, llm.Request{})
			}
		}, false},
		{"cancelled requests", time.Hour, func(t *testing.T, _ *endpoint, m llm.Model) {
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, _, _ = play(ctx, m, llm.Request{})
				cancel()
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := chain.NewBreakers(chain.BreakersOptions{})
				a := &endpoint{takes: c.takes}
				c.run(t, a, guarded(a, set.At("a")))
				if got := len(set.Paused(t.Context())) == 1; got != c.open {
					t.Errorf("open = %v, want %v", got, c.open)
				}
			})
		})
	}
}

func TestBreakerForgets(t *testing.T) {
	t.Parallel()
	left := func(t *testing.T, set *chain.Breakers) time.Duration {
		t.Helper()
		p := set.Paused(t.Context())
		if len(p) != 1 {
			t.Fatalf("paused: %v", p)
		}
		return time.Until(p[0].Until)
	}
	for _, c := range []struct {
		name string
		rest time.Duration // after the second pause of 5 minutes began
		well bool          // the probe succeeds
		want time.Duration // the next pause
	}{
		{"a failed probe goes on", 5 * time.Minute, false, 25 * time.Minute},
		{"a recovery takes back one step", 5 * time.Minute, true, 5 * time.Minute},
		{"a quiet day all of them", 25 * time.Hour, false, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := chain.NewBreakers(chain.BreakersOptions{})
				a := &endpoint{}
				m := guarded(a, set.At("a"))
				fail(t, a, m, 3, 0)
				fail(t, a, m, 1, time.Minute)
				if got := left(t, set); got != 5*time.Minute {
					t.Fatalf("second pause is %s", got)
				}
				time.Sleep(c.rest)
				if c.well {
					a.set(nil)
					a.asks(t, m, llm.Request{})
				}
				n := 1
				if c.well {
					n = 3
				}
				fail(t, a, m, n, 0)
				if got := left(t, set); got != c.want {
					t.Errorf("next pause is %s, want %s", got, c.want)
				}
			})
		})
	}
}

// However many requests come when a pause is over, one goes through; the next
// only after it failed, or all after it answered.
func TestBreakerOneProbe(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"answers", "fails", "is cancelled"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := chain.NewBreakers(chain.BreakersOptions{})
				a := &endpoint{}
				m := guarded(a, set.At("a"))
				fail(t, a, m, 3, 0)
				time.Sleep(time.Minute)
				a.takes = 10 * time.Second
				if end == "answers" {
					a.set(nil)
				}
				before := a.count()
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() { _, _, _ = play(ctx, m, llm.Request{}) })
				}
				synctest.Wait()
				if got := a.count() - before; got != 1 {
					t.Errorf("%d probes, want 1", got)
				}
				if end == "is cancelled" {
					cancel()
				}
				wg.Wait()
				cancel()
				open := end == "fails"
				if got := !a.asks(t, m, llm.Request{}); got != open {
					t.Errorf("after a probe that %s: open = %v, want %v", end, got, open)
				}
			})
		})
	}
}

// When every link is left alone, a person is served all the same and background
// work is not; insisting does not prolong the pause.
func TestBreakerInsist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := chain.NewBreakers(chain.BreakersOptions{})
		a, b := &endpoint{}, &endpoint{err: overloaded()}
		m := chain.Fallback([]chain.Link{
			{Name: "A", Model: a, Breaker: set.At("a")}, {Name: "B", Model: b, Breaker: set.At("b")},
		}, chain.FallbackOptions{})
		fail(t, a, m, 3, 0)
		if len(set.Paused(t.Context())) != 2 {
			t.Fatalf("paused: %v", set.Paused(t.Context()))
		}
		for _, source := range []string{"cron", "heartbeat", "dream", "?"} {
			if a.asks(t, m, llm.Request{Source: source}) {
				t.Errorf("source %q was let through", source)
			}
		}
		_, _, err := play(t.Context(), m, llm.Request{Source: "cron"})
		if e := llm.AsError(err); e.Kind != llm.Overloaded || e.Retryable() || e.RetryAfter != time.Minute {
			t.Errorf("refusal %v of kind %s, retryable %v, after %s", e, e.Kind, e.Retryable(), e.RetryAfter)
		}
		before := b.count()
		for _, source := range []string{"", "user", "api", "subagent"} {
			if !a.asks(t, m, llm.Request{Source: source}) {
				t.Errorf("source %q was not let through", source)
			}
		}
		if b.count() != before+4 {
			t.Errorf("the second link was asked %d times, want 4", b.count()-before)
		}
		if p := set.Paused(t.Context()); len(p) != 2 || time.Until(p[0].Until) != time.Minute {
			t.Errorf("insisting changed the pause: %v", p)
		}
		a.set(nil)
		if _, _, err := play(t.Context(), m, llm.Request{}); err != nil || len(set.Paused(t.Context())) != 1 {
			t.Errorf("an answer did not close the circuit: %v, %v", err, set.Paused(t.Context()))
		}
	})
}

// breakerPath is where breakers keep their state, in a folder of the test.
func breakerPath(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "breakers.json")
}

func breakerStore(path string) store.Store { return disk.Open(filepath.Dir(filepath.Dir(path)), nil) }

func TestBreakerFile(t *testing.T) {
	t.Parallel()
	path := breakerPath(t)
	id := chain.BreakerID("openai", "https://api.example/v1/", httpsafe.NewSecret("sk-very-secret"))
	synctest.Test(t, func(t *testing.T) {
		set := func() *chain.Breakers { return chain.NewBreakers(chain.BreakersOptions{Store: breakerStore(path)}) }
		a := &endpoint{err: overloaded()}
		for range 3 { // three processes, one failure each
			a.asks(t, guarded(a, set().At(id)), llm.Request{})
		}
		if a.asks(t, guarded(a, set().At(id)), llm.Request{}) {
			t.Error("a new process asked an endpoint that was left alone")
		}
		data, err := os.ReadFile(path)
		if err != nil || bytes.Contains(data, []byte("secret")) || !bytes.Contains(data, []byte(id)) {
			t.Errorf("file %s, error %v", data, err)
		}

		// A process that knows nothing of it keeps it when it saves something else.
		one, two := set(), set()
		one.Paused(t.Context())
		two.Paused(t.Context())
		b := &endpoint{err: &llm.Error{Kind: llm.Billing}}
		b.asks(t, guarded(b, one.At("b")), llm.Request{})
		c := &endpoint{err: &llm.Error{Kind: llm.Billing}}
		c.asks(t, guarded(c, two.At("c")), llm.Request{})
		if got := len(set().Paused(t.Context())); got != 3 {
			t.Errorf("%d endpoints paused in the file, want 3: %v", got, set().Paused(t.Context()))
		}

		time.Sleep(time.Minute)
		a.set(nil)
		a.asks(t, guarded(a, set().At(id)), llm.Request{})
		if p := set().Paused(t.Context()); len(p) != 2 {
			t.Errorf("the recovery was not saved: %v", p)
		}
	})
}

func TestBreakerFileDamaged(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "not JSON": "\x00\x01", "another version": `{"version":9,"circuits":{"a":{"until":"2999-01-01T00:00:00Z"}}}`,
		"null circuit": `{"version":1,"circuits":{"a":null}}`,
		"far future":   `{"version":1,"circuits":{"a":{"step":-5,"until":"2999-01-01T00:00:00Z","failed":"1999-12-01T00:00:00Z","changed":"1999-12-31T00:00:00Z"}}}`,
		"failed in the future": `{"version":1,"circuits":{"a":{"step":4,"until":"2000-01-03T00:00:00Z","failed":"2000-01-02T23:00:00Z",` +
			`"changed":"1999-12-31T00:00:00Z"}}}`,
		"clock was set back": `{"version":1,"circuits":{"a":{"step":4,"until":"2000-01-03T00:00:00Z","failed":"2000-01-02T23:00:00Z",` +
			`"changed":"2000-01-02T23:00:00Z"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := breakerPath(t)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				set := chain.NewBreakers(chain.BreakersOptions{Store: breakerStore(path)})
				a := &endpoint{}
				if !a.asks(t, guarded(a, set.At("a")), llm.Request{}) {
					t.Error("not asked")
				}
				fail(t, a, guarded(a, set.At("a")), 3, 0)
				if got := len(chain.NewBreakers(chain.BreakersOptions{Store: breakerStore(path)}).Paused(t.Context())); got != 1 {
					t.Errorf("%d paused in the file, want 1", got)
				}
			})
		})
	}
}

func TestBreakerFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	blocker := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		set := chain.NewBreakers(chain.BreakersOptions{Store: disk.Open(blocker, nil), Log: slog.New(slog.NewTextHandler(&log, nil))})
		a := &endpoint{}
		m := guarded(a, set.At("a"))
		fail(t, a, m, 3, 0)
		if a.asks(t, m, llm.Request{}) || !strings.Contains(log.String(), "not saved") {
			t.Errorf("without a file the breaker must work from memory and say so: %s", log.String())
		}
	})
}

func TestBreakerFileIsBounded(t *testing.T) {
	t.Parallel()
	path := breakerPath(t)
	synctest.Test(t, func(t *testing.T) {
		var old []string
		for i := range 200 {
			at := time.Now().Add(time.Duration(i-200) * time.Second).Format(time.RFC3339)
			old = append(old, fmt.Sprintf(`"%03d":{"step":1,"until":"2000-01-01T05:00:00Z","failed":%q,"changed":%q}`, i, at, at))
		}
		if err := os.WriteFile(path, []byte(`{"version":1,"circuits":{`+strings.Join(old, ",")+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &endpoint{err: &llm.Error{Kind: llm.Billing}}
		a.asks(t, guarded(a, chain.NewBreakers(chain.BreakersOptions{Store: breakerStore(path)}).At("a")), llm.Request{})
		data, err := os.ReadFile(path)
		if n := bytes.Count(data, []byte(`"step"`)); err != nil || n != 128 || !bytes.Contains(data, []byte(`"a"`)) || bytes.Contains(data, []byte(`"072"`)) {
			t.Errorf("error %v, %d endpoints kept, want the newest 128: %s", err, n, data)
		}
	})
}

func TestBreakersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := chain.NewBreakers(chain.BreakersOptions{})
		for i := range 200 {
			time.Sleep(time.Second)
			a := &endpoint{err: &llm.Error{Kind: llm.Billing}}
			a.asks(t, guarded(a, set.At(fmt.Sprintf("%03d", i))), llm.Request{})
		}
		if p := set.Paused(t.Context()); len(p) != 128 || p[0].ID != "072" {
			t.Errorf("%d endpoints kept, want the newest 128", len(p))
		}
	})
}

// A driver that reports the end of its context as an error of its own says
// nothing about the endpoint, and no other link is asked.
func TestBreakerIgnoresCancelledErrors(t *testing.T) {
	t.Parallel()
	set := chain.NewBreakers(chain.BreakersOptions{})
	b := &endpoint{}
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		a := llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				cancel()
				yield(llm.Event{}, &llm.Error{Kind: llm.Connection})
			}
		})
		m := chain.Fallback([]chain.Link{{Name: "A", Model: a, Breaker: set.At("a")}, {Name: "B", Model: b}}, chain.FallbackOptions{})
		if _, _, err := play(ctx, m, llm.Request{}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
		cancel()
	}
	if p := set.Paused(t.Context()); len(p) != 0 || b.count() != 0 {
		t.Errorf("paused %v, %d calls of the next link; want none", p, b.count())
	}
}

// A listener who leaves between two links does not take the probe with him.
func TestBreakerProbeIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := chain.NewBreakers(chain.BreakersOptions{})
		b := &endpoint{}
		fail(t, b, guarded(b, set.At("b")), 3, 0)
		time.Sleep(time.Minute)
		a := &scripted{steps: []step{{text: "x", err: &llm.Error{Kind: llm.Timeout}}, {err: overloaded()}}}
		m := chain.Fallback([]chain.Link{{Name: "A", Model: a}, {Name: "B", Model: b, Breaker: set.At("b")}}, chain.FallbackOptions{})
		for ev := range m.Stream(t.Context(), llm.Request{}) {
			if ev.Kind == llm.Restarted {
				break
			}
		}
		if !b.asks(t, m, llm.Request{}) {
			t.Error("the probe is lost")
		}
	})
}

// Who insists is served by the endpoint whose pause ends first.
func TestBreakerInsistOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := chain.NewBreakers(chain.BreakersOptions{})
		a, b := &endpoint{err: &llm.Error{Kind: llm.Billing}}, &endpoint{}
		m := chain.Fallback([]chain.Link{
			{Name: "A", Model: a, Breaker: set.At("a")}, {Name: "B", Model: b, Breaker: set.At("b")},
		}, chain.FallbackOptions{})
		fail(t, b, m, 3, 0)
		b.set(nil)
		before := a.count()
		if _, _, err := play(t.Context(), m, llm.Request{}); err != nil || a.count() != before {
			t.Errorf("error %v, %d calls of the account without credit", err, a.count()-before)
		}
	})
}

func TestBreakerID(t *testing.T) {
	t.Parallel()
	key := httpsafe.NewSecret
	base := chain.BreakerID("p", "https://h/v1", key("k1"))
	if same := chain.BreakerID("p", "https://h/v1/", key("k1")); same != base {
		t.Errorf("a final slash made another endpoint: %s, %s", base, same)
	}
	for _, other := range []string{
		chain.BreakerID("q", "https://h/v1", key("k1")), chain.BreakerID("p", "https://h/v2", key("k1")), chain.BreakerID("p", "https://h/v1", key("k2")),
		chain.BreakerID("p", "https://h/v1"), chain.BreakerID("p", "https://h/v1", key("k1"), key("k2")), chain.BreakerID("p", "https://h/v1", key(`k1" "k2`)),
	} {
		if other == base {
			t.Errorf("different endpoints share %s", base)
		}
	}
}

// Many goroutines hit many circuits that fail and recover at random: whatever
// happens, an open circuit lets nobody through and a half-open one exactly one.
func TestBreakerConcurrent(t *testing.T) {
	t.Parallel()
	path := breakerPath(t)
	synctest.Test(t, func(t *testing.T) {
		set := chain.NewBreakers(chain.BreakersOptions{Store: breakerStore(path)})
		var under [3]atomic.Int32 // calls under way while the circuit was open at their begin
		var wg sync.WaitGroup
		for g := range 12 {
			rnd := rand.New(rand.NewPCG(uint64(g), 7))
			wg.Go(func() {
				for range 40 {
					i := rnd.IntN(3)
					id := fmt.Sprint(i)
					d := time.Duration(rnd.IntN(20)) * time.Second
					bad := rnd.IntN(4) > 0
					a := llm.ModelFunc(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
						return func(yield func(llm.Event, error) bool) {
							for _, p := range set.Paused(ctx) {
								if p.ID == id {
									under[i].Add(1)
								}
							}
							<-time.After(d + time.Millisecond)
							if bad {
								yield(llm.Event{}, overloaded())
								return
							}
							yield(llm.Event{Kind: llm.Done, Response: &llm.Response{}}, nil)
						}
					})
					m := chain.Fallback([]chain.Link{{Name: "A", Model: a, Breaker: set.At(id)}, {Name: "B", Model: &endpoint{}}}, chain.FallbackOptions{})
					_, _, _ = play(t.Context(), m, llm.Request{})
					<-time.After(time.Duration(rnd.IntN(90)) * time.Second)
				}
			})
		}
		wg.Wait()
		for i := range under {
			if n := under[i].Load(); n != 0 {
				t.Errorf("circuit %d: %d calls began while it was open", i, n)
			}
		}
	})
}
