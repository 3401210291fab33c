package chain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
)

// ring is a set of keys whose calls are written down as letters.
type ring struct {
	mu   sync.Mutex
	log  strings.Builder
	errs map[string]error // by key; nil: answers
	text string           // shown before an error
}

func (r *ring) keys(names string) []chain.Keyed {
	var out []chain.Keyed
	for _, c := range names {
		name := string(c)
		out = append(out, chain.Keyed{Name: name, Make: func() (llm.Model, error) {
			return llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
				return func(yield func(llm.Event, error) bool) {
					r.mu.Lock()
					r.log.WriteString(name)
					err, text := r.errs[name], r.text
					r.mu.Unlock()
					if err == nil {
						yield(llm.Event{Kind: llm.Done, Response: &llm.Response{}}, nil)
						return
					}
					if text == "" || yield(llm.Event{Kind: llm.TextDelta, Text: text}, nil) {
						yield(llm.Event{}, err)
					}
				}
			}), nil
		}})
	}
	return out
}

// calls plays requests of the sessions and gives the keys that were called.
func (r *ring) calls(t *testing.T, m llm.Model, sessions ...string) string {
	t.Helper()
	r.mu.Lock()
	r.log.Reset()
	r.mu.Unlock()
	for _, s := range sessions {
		_, _, _ = play(t.Context(), m, llm.Request{SessionKey: s})
	}
	return r.log.String()
}

func (r *ring) set(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.errs == nil {
		r.errs = map[string]error{}
	}
	r.errs[key] = err
}

func limited(after time.Duration) *llm.Error {
	return &llm.Error{Kind: llm.RateLimited, Status: 429, Message: "slow", RetryAfter: after}
}

func TestRotatePicksTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	var r ring
	m := chain.Rotate(r.keys("abc"), chain.RotateOptions{})
	if got := r.calls(t, m, "", "", "", ""); got != "abca" {
		t.Errorf("without a session: %s, want abca", got)
	}
	if got := r.calls(t, m, "x", "y", "x", "x", "z", "y", "", "x"); got != "bcbbacbb" {
		t.Errorf("sessions stick: %s, want bcbbacbb", got)
	}
	in := chain.Rotate(r.keys("abc"), chain.RotateOptions{InOrder: true})
	r.set("a", limited(10*time.Minute))
	if got := r.calls(t, in, "x", "y", ""); got != "abbb" {
		t.Errorf("in order: %s, want abbb", got)
	}
}

func TestRotateInOrderReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r ring
		m := chain.Rotate(r.keys("ab"), chain.RotateOptions{InOrder: true})
		r.set("a", limited(time.Minute))
		r.calls(t, m, "s")
		r.set("a", nil)
		time.Sleep(time.Minute)
		if got := r.calls(t, m, "s"); got != "a" {
			t.Errorf("key %s, want the first again", got)
		}
	})
}

func TestRotateAfterThinking(t *testing.T) {
	t.Parallel()
	m := chain.Rotate([]chain.Keyed{
		{Name: "a", Make: func() (llm.Model, error) {
			return &scripted{steps: []step{{thought: "hm", err: limited(time.Second)}}}, nil
		}},
		{Name: "b", Make: func() (llm.Model, error) { return fails(), nil }},
	}, chain.RotateOptions{})
	if events, _, err := play(t.Context(), m, llm.Request{}); events != "tRD" || err != nil {
		t.Errorf("events %q, error %v, want tRD", events, err)
	}
}

func TestRotateRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r ring
		m := chain.Rotate(r.keys("ab"), chain.RotateOptions{Provider: "p"})
		r.set("a", limited(10*time.Second))
		if got := r.calls(t, m, "s", "s"); got != "abb" {
			t.Errorf("keys called %s, want abb", got)
		}
		r.set("b", limited(30*time.Second))
		_, _, err := play(t.Context(), m, llm.Request{SessionKey: "s"})
		if e := llm.AsError(err); e.Kind != llm.RateLimited || e.RetryAfter != 10*time.Second || e.Status != 429 || !e.Retryable() {
			t.Errorf("error %v, after %s", err, e.RetryAfter)
		}
		// Nothing is asked while all rest; Retry waits just long enough.
		if got := r.calls(t, m, "s"); got != "" {
			t.Errorf("resting keys called: %s", got)
		}
		r.set("a", nil)
		begin := time.Now()
		events, _, err := play(t.Context(), chain.Retry(m, chain.RetryOptions{}), llm.Request{SessionKey: "s"})
		if took := time.Since(begin); err != nil || events != "WD" || took != 11*time.Second {
			t.Errorf("events %q, error %v after %s, want WD after 11 s", events, err, took)
		}
		time.Sleep(30 * time.Second)
		r.set("b", nil)
		if got := r.calls(t, m, "", "", "s"); got != "baa" {
			t.Errorf("after the rest: %s, want baa: the session moved to a", got)
		}
	})
}

func TestRotateRestsLongerEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r ring
		m := chain.Rotate(r.keys("a"), chain.RotateOptions{})
		r.set("a", limited(0))
		var got []time.Duration
		for range 6 {
			_, _, err := play(t.Context(), m, llm.Request{})
			got = append(got, llm.AsError(err).RetryAfter)
			time.Sleep(llm.AsError(err).RetryAfter)
		}
		if d := cmp.Diff(seconds(5, 10, 20, 40, 60, 60), got); d != "" {
			t.Errorf("rests differ: %s", d)
		}
		r.set("a", nil)
		_, _, _ = play(t.Context(), m, llm.Request{})
		r.set("a", limited(0))
		if _, _, err := play(t.Context(), m, llm.Request{}); llm.AsError(err).RetryAfter != 5*time.Second {
			t.Errorf("rest after an answer is %s, want 5 s", llm.AsError(err).RetryAfter)
		}
	})
}

func TestRotateRejectedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r ring
		var log bytes.Buffer
		m := chain.Rotate(r.keys("ab"), chain.RotateOptions{Provider: "openai", Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.set("a", &llm.Error{Kind: llm.Auth, Status: 401})
		events, notices, err := play(t.Context(), m, llm.Request{})
		want := "openai rejected the key a; it is not used any more. Replace it in the configuration."
		if err != nil || events != "WD" || notices[0] != want || strings.Count(log.String(), "key rejected") != 1 {
			t.Errorf("events %q, notices %q, error %v, log %s", events, notices, err, log.String())
		}
		time.Sleep(time.Hour)
		if got := r.calls(t, m, "", "", "x"); got != "bbb" {
			t.Errorf("keys called %s, want bbb", got)
		}
		// All rejected: one is tried each time, in case the account is in order again.
		r.set("b", &llm.Error{Kind: llm.Auth, Status: 401})
		events, _, err = play(t.Context(), m, llm.Request{})
		if events != "W" || llm.AsError(err).Kind != llm.Auth {
			t.Errorf("events %q, error %v", events, err)
		}
		if events, _, err = play(t.Context(), m, llm.Request{}); events != "" || llm.AsError(err).Kind != llm.Auth {
			t.Errorf("told twice: events %q, error %v", events, err)
		}
		if got := r.calls(t, m, ""); len(got) != 1 {
			t.Errorf("keys called %s, want one", got)
		}
		r.set("b", nil)
		got := r.calls(t, m, "", "", "")
		if !strings.HasSuffix(got, "bb") || len(got) != 3 {
			t.Errorf("keys called %s, want b to be back", got)
		}
	})
}

func TestRotateErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		text   string
		err    error
		calls  string
		events string
		kind   llm.Kind
	}{
		{"billing", "", &llm.Error{Kind: llm.Billing, Status: 429}, "ab", "D", ""},
		{"rate limit after text", "x", limited(time.Second), "a", "T", llm.RateLimited},
		{"server error", "", overloaded(), "a", "", llm.Overloaded},
		{"forbidden", "", &llm.Error{Kind: llm.Permission, Status: 403}, "a", "", llm.Permission},
		{"cancelled", "", context.Canceled, "a", "", llm.Connection},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ring{text: c.text}
			r.set("a", c.err)
			m := chain.Rotate(r.keys("ab"), chain.RotateOptions{})
			events, _, err := play(t.Context(), m, llm.Request{})
			if got := r.log.String(); got != c.calls || events != c.events || (err == nil) != (c.kind == "") || err != nil && llm.AsError(err).Kind != c.kind {
				t.Errorf("keys %s, events %q, error %v; want %s, %q, %s", got, events, err, c.calls, c.events, c.kind)
			}
		})
	}
}

func TestRotateBuildsLazily(t *testing.T) {
	t.Parallel()
	made := 0
	m := chain.Rotate([]chain.Keyed{
		{Name: "a", Make: func() (llm.Model, error) { made++; return fails(), nil }},
		{Name: "b", Make: func() (llm.Model, error) { return nil, errors.New("no such proxy") }},
	}, chain.RotateOptions{Provider: "p"})
	if made != 0 {
		t.Error("a model was made before its first use")
	}
	if _, _, err := play(t.Context(), m, llm.Request{}); err != nil || made != 1 {
		t.Errorf("made %d, error %v", made, err)
	}
	if _, _, err := play(t.Context(), m, llm.Request{}); err == nil || llm.AsError(err).Kind != llm.Configuration || err.Error() != "p: no such proxy" {
		t.Errorf("error = %v, want a configuration error", err)
	}
	if _, _, err := play(t.Context(), chain.Rotate(nil, chain.RotateOptions{}), llm.Request{}); err == nil || llm.AsError(err).Kind != llm.Configuration {
		t.Errorf("no keys: error = %v, want a configuration error", err)
	}
}

// Many sessions at once, keys that are limited at random: each request uses
// each key at most once, and a resting key is never called.
func TestRotateConcurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		until, since := map[string]time.Time{}, map[string]time.Time{}
		var keys []chain.Keyed
		for i := range 4 {
			name := fmt.Sprint(i)
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			keys = append(keys, chain.Keyed{Name: name, Make: func() (llm.Model, error) {
				return llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
					return func(yield func(llm.Event, error) bool) {
						mu.Lock()
						// A key that was chosen in the very moment of the error is called all the same.
						if now := time.Now(); now.Before(until[name]) && now.After(since[name]) {
							t.Errorf("key %s was called %s before the end of its rest", name, time.Until(until[name]))
						}
						bad := rnd.IntN(8) == 0
						rest := time.Duration(1+rnd.IntN(60)) * time.Second
						mu.Unlock()
						if bad {
							// The rest begins when the error arrives; nobody can know it earlier.
							yield(llm.Event{}, limited(rest))
							mu.Lock()
							if end := time.Now().Add(rest); end.After(until[name]) {
								until[name] = end
							}
							since[name] = time.Now()
							mu.Unlock()
							return
						}
						yield(llm.Event{Kind: llm.Done, Response: &llm.Response{}}, nil)
					}
				}), nil
			}})
		}
		m := chain.Retry(chain.Rotate(keys, chain.RotateOptions{}), chain.RetryOptions{Persistent: true})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for range 50 {
					<-time.After(time.Duration(g+1) * 137 * time.Millisecond)
					if _, _, err := play(t.Context(), m, llm.Request{SessionKey: fmt.Sprint(g)}); err != nil {
						t.Errorf("session %d: %v", g, err)
					}
				}
			})
		}
		wg.Wait()
	})
}
