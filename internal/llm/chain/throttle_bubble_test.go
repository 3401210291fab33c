package chain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
)

// busy is a model that notes when and in which order requests reach it.
type busy struct {
	takes time.Duration

	mu     sync.Mutex
	order  []string
	at     []time.Time
	active int
	peak   int
}

func (b *busy) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		b.mu.Lock()
		b.order = append(b.order, req.SessionKey)
		b.at = append(b.at, time.Now())
		b.active++
		b.peak = max(b.peak, b.active)
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			b.active--
			b.mu.Unlock()
		}()
		select {
		case <-time.After(b.takes):
		case <-ctx.Done():
			yield(llm.Event{}, ctx.Err())
			return
		}
		yield(llm.Event{Kind: llm.Done, Response: &llm.Response{}}, nil)
	}
}

func TestThrottleOneInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &busy{takes: 10 * time.Second}
		l := chain.NewLimiter(chain.Rate{Requests: 0, InFlight: 1})
		models := []llm.Model{chain.Throttle(b, l), chain.Throttle(b, l)} // two models of one server
		var wg sync.WaitGroup
		var want []string
		for i := range 6 {
			name := fmt.Sprint(i)
			want = append(want, name)
			wg.Go(func() { _, _, _ = play(t.Context(), models[i%2], llm.Request{SessionKey: name}) })
			synctest.Wait()
		}
		begin := time.Now()
		wg.Wait()
		if d := cmp.Diff(want, b.order); d != "" || b.peak != 1 || time.Since(begin) != time.Minute {
			t.Errorf("peak %d, %s, order differs: %s", b.peak, time.Since(begin), d)
		}
	})
}

func TestThrottleNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &busy{takes: 40 * time.Second}
		m := chain.Throttle(b, chain.NewLimiter(chain.Rate{Requests: 0, InFlight: 1}))
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = play(t.Context(), m, llm.Request{}) })
		synctest.Wait()
		events, notices, err := play(t.Context(), m, llm.Request{})
		want := []string{"Waiting for a free slot at the model server, 5 s so far.", "Waiting for a free slot at the model server, 35 s so far."}
		if d := cmp.Diff(want, notices); d != "" || events != "WWD" || err != nil {
			t.Errorf("events %q, error %v, notices differ: %s", events, err, d)
		}
		wg.Wait()

		m = chain.Throttle(&busy{}, chain.NewLimiter(chain.Rate{Requests: 1, InFlight: 0}))
		_, _, _ = play(t.Context(), m, llm.Request{})
		begin := time.Now()
		_, notices, _ = play(t.Context(), m, llm.Request{})
		if time.Since(begin) != time.Minute || len(notices) != 2 || notices[0] != "Waiting for the limit of 1 requests per minute, 5 s so far." {
			t.Errorf("after %s: %q", time.Since(begin), notices)
		}
	})
}

// A request that leaves the line, by its context or because nobody listens,
// gives its place to the next and uses up nothing of the rate.
func TestThrottleLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &busy{takes: 10 * time.Second}
		m := chain.Throttle(b, chain.NewLimiter(chain.Rate{Requests: 2, InFlight: 1}))
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = play(t.Context(), m, llm.Request{SessionKey: "first"}) })
		synctest.Wait()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begin := time.Now()
			if _, _, err := play(ctx, m, llm.Request{SessionKey: "gone"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
				t.Errorf("error %v after %s", err, time.Since(begin))
			}
			cancel()
		}
		for ev := range m.Stream(t.Context(), llm.Request{SessionKey: "gone"}) {
			if ev.Kind == llm.Waiting {
				break
			}
		}
		events, _, err := play(t.Context(), m, llm.Request{SessionKey: "second"})
		wg.Wait()
		if d := cmp.Diff([]string{"first", "second"}, b.order); d != "" || err != nil || events != "D" {
			t.Errorf("events %q, error %v, order differs: %s", events, err, d)
		}
		if gap := b.at[1].Sub(b.at[0]); gap != 10*time.Second {
			t.Errorf("the second request waited %s, want 10 s", gap)
		}
		// Leaving in the middle of a stream frees the slot.
		m = chain.Throttle(&scripted{steps: []step{{text: "x"}}}, chain.NewLimiter(chain.Rate{Requests: 0, InFlight: 1}))
		for range m.Stream(t.Context(), llm.Request{}) {
			break
		}
		if events, _, _ := play(t.Context(), m, llm.Request{}); events != "D" {
			t.Errorf("events %q, want D at once", events)
		}
	})
}

func TestThrottleDeadContext(t *testing.T) {
	t.Parallel()
	b := &busy{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := play(ctx, chain.Throttle(b, chain.NewLimiter(chain.Rate{Requests: 5, InFlight: 1})), llm.Request{})
	if !errors.Is(err, context.Canceled) || len(b.order) != 0 {
		t.Errorf("error %v after %d calls, want none", err, len(b.order))
	}
}

// A request that gives up while it waits for the rate gives its slot back.
func TestThrottleLeaveAtTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := chain.Throttle(&busy{}, chain.NewLimiter(chain.Rate{Requests: 1, InFlight: 1}))
		_, _, _ = play(t.Context(), m, llm.Request{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, _ = play(ctx, m, llm.Request{})
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		if _, _, err := play(ctx, m, llm.Request{}); err != nil || time.Since(begin) != 59*time.Second {
			t.Errorf("error %v after %s, want an answer after 59 s", err, time.Since(begin))
		}
	})
}

// A place that is handed to a request in the moment it gives up, or nobody
// listens to it any more, goes to the next.
func TestThrottleLeaveInTheSameMoment(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := &busy{takes: 7 * time.Second} // longer than the wait for the first notice
			m := chain.Throttle(b, chain.NewLimiter(chain.Rate{Requests: 0, InFlight: 1}))
			var wg sync.WaitGroup
			wg.Go(func() { _, _, _ = play(t.Context(), m, llm.Request{}) })
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range m.Stream(ctx, llm.Request{SessionKey: "gone"}) {
				wg.Wait() // the slot is free now, and this request is the first in line
				cancel()
				if i%2 == 0 {
					break
				}
			}
			late, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			_, _, err := play(late, m, llm.Request{})
			if d := cmp.Diff([]string{"", ""}, b.order); d != "" || err != nil {
				t.Errorf("error %v, requests that reached the model differ: %s", err, d)
			}
		})
	}
}

func TestThrottleNoLimit(t *testing.T) {
	t.Parallel()
	b := &busy{}
	if chain.Throttle(b, nil) != llm.Model(b) || chain.Throttle(b, chain.NewLimiter(chain.Rate{Requests: 0, InFlight: 0})) != llm.Model(b) {
		t.Error("a limiter without limits is in the way")
	}
}

// Random arrivals and cancellations: never more than the limits, in any minute,
// and everybody who stays gets through in order.
func TestThrottleProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			rpm, slots := rnd.IntN(8), rnd.IntN(4)
			b := &busy{takes: time.Duration(rnd.IntN(20)) * time.Second}
			m := chain.Throttle(b, chain.NewLimiter(chain.Rate{Requests: rpm, InFlight: slots}))
			var wg sync.WaitGroup
			var stay []string
			for i := range 40 {
				name := fmt.Sprint(i)
				ctx, cancel := context.WithCancel(t.Context())
				if rnd.IntN(3) == 0 {
					name = "gone"
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rnd.IntN(40))*time.Second)
				} else {
					stay = append(stay, name)
				}
				wg.Go(func() {
					defer cancel()
					_, _, err := play(ctx, m, llm.Request{SessionKey: name})
					if err != nil && ctx.Err() == nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
				synctest.Wait()
				<-time.After(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			}
			wg.Wait()
			var got []string
			for i, name := range b.order {
				if name != "gone" {
					got = append(got, name)
				}
				if rpm > 0 && i >= rpm && b.at[i].Sub(b.at[i-rpm]) < time.Minute {
					t.Errorf("seed %d: %d starts within %s", seed, rpm+1, b.at[i].Sub(b.at[i-rpm]))
				}
			}
			if d := cmp.Diff(stay, got); d != "" {
				t.Errorf("seed %d: order differs: %s", seed, d)
			}
			if slots > 0 && b.peak > slots {
				t.Errorf("seed %d: %d in flight, want at most %d", seed, b.peak, slots)
			}
		})
	}
}

// TestThrottleTokens: a minute sees no more tokens than allowed, as far as they can
// be known before, and what an answer used counts.
func TestThrottleTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		used := 900
		spends := llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Usage: llm.Usage{Prompt: used}}}, nil)
			}
		})
		m := chain.Throttle(spends, chain.NewLimiter(chain.Rate{Tokens: 2000}))
		began := time.Now()
		var at []time.Duration
		for range 5 {
			if _, err := llm.Collect(t.Context(), m, llm.Request{Model: "m"}); err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(began))
		}
		want := []time.Duration{0, 0, time.Minute, time.Minute, 2 * time.Minute}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("requests passed at (-want +got):\n%s", diff)
		}

		used = 1_000_000 // more than ever fits passes alone
		if _, err := llm.Collect(t.Context(), chain.Throttle(spends, chain.NewLimiter(chain.Rate{Tokens: 10})), llm.Request{Model: "m"}); err != nil {
			t.Error(err)
		}
	})
}
