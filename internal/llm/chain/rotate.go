package chain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	// firstKeyRest is how long a rate-limited key rests when the server does not
	// say; it doubles with each limit in a row.
	firstKeyRest = 5 * time.Second
	// longestKeyRest ends the doubling.
	longestKeyRest = time.Minute
	// stickySessions bounds the sessions whose key is remembered.
	stickySessions = 1024
)

// Keyed is one credential of a provider.
type Keyed struct {
	// Name is shown to the user and must not give the key away: "apiKeys[1]".
	Name string
	// Make builds the model that uses the key, on first use.
	Make func() (llm.Model, error)
}

// RotateOptions tune Rotate.
type RotateOptions struct {
	// Provider is named in notices and errors.
	Provider string
	// InOrder prefers earlier keys instead of the least recently used one: a
	// free key before a paid one. A session does not stick to a later key then.
	InOrder bool
	Log     *slog.Logger // nil: no log
}

// Rotate makes one model of several keys. A session stays with its key, because
// vendors cache prompts per account; a new session gets the key that was used
// least recently. A key that is rate limited rests as long as the server says, a
// key without credit for hours, and a rejected one is not used any more, which
// the user is told once; the request goes on with the next key, each key at
// most once. Once text was shown, the error is returned instead.
//
// When all keys rest because of rate limits, the error says when the first is
// ready, so that Retry waits as long as needed. When the rest are rejected or
// without credit, one is tried all the same: the account may be in order again.
func Rotate(keys []Keyed, o RotateOptions) llm.Model {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &rotor{o: o, sticky: recent.New[string, int](stickySessions)}
	for _, k := range keys {
		r.keys = append(r.keys, &rotorKey{Keyed: k, model: sync.OnceValues(k.Make)})
	}
	return r
}

type rotor struct {
	o      RotateOptions
	sticky *recent.Map[string, int] // SessionKey -> key

	mu   sync.Mutex // guards the state in keys
	uses int
	keys []*rotorKey
}

type rotorKey struct {
	Keyed
	model func() (llm.Model, error)

	used      int       // number of the last use; 0 never
	limits    int       // rate limits in a row
	restUntil time.Time // not used before
	why       llm.Kind  // RateLimited or Billing
	rejected  bool
	errors    int // errors so far
}

// Stream implements Model.
func (r *rotor) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := r.run(ctx, req, yield); err != nil {
			yield(llm.Event{}, err)
		}
	}
}

// run tries keys until one answers. It returns the final error, or nil when the
// stream is finished or the caller stopped reading.
func (r *rotor) run(ctx context.Context, req llm.Request, yield func(llm.Event, error) bool) error {
	tried := make([]bool, len(r.keys))
	var last *llm.Error
	for {
		i, errorsBefore, wait := r.pick(req.SessionKey, tried)
		if i < 0 {
			return r.exhausted(last, wait)
		}

		tried[i] = true
		shown, done, err := r.try(ctx, i, errorsBefore, req, yield)
		if done {
			return nil
		}

		e, err := failure(ctx, err)
		if err != nil {
			return err
		}

		news := r.record(ctx, i, e)
		if news && !yield(llm.Event{Kind: llm.Waiting, Text: r.rejection(i)}, nil) {
			return nil
		}
		if e.Kind != llm.RateLimited && e.Kind != llm.Billing && e.Kind != llm.Auth || shown == llm.TextDelta {
			return e
		}

		last = e
		if shown != 0 && !yield(llm.Event{Kind: llm.Restarted}, nil) {
			return nil
		}
	}
}

func (r *rotor) try(ctx context.Context, i, errorsBefore int, req llm.Request, yield func(llm.Event, error) bool) (shown llm.EventKind, done bool, err error) {
	m, err := r.keys[i].model()
	if err != nil {
		if _, ok := errors.AsType[*llm.Error](err); !ok {
			err = &llm.Error{Kind: llm.Configuration, Provider: r.o.Provider, Message: err.Error(), Err: err}
		}
		return 0, false, err
	}
	return relay(m.Stream(ctx, req), r.o.Provider, yield, func() { r.answered(i, req.SessionKey, errorsBefore) })
}

// pick chooses a key that was not tried yet, with the errors it had so far, or
// -1 and the time until a rate-limited key is ready.
func (r *rotor) pick(session string, tried []bool) (key, errorsBefore int, wait time.Duration) {
	own, stuck := r.sticky.Get(session)
	now := wall()
	r.mu.Lock()
	defer r.mu.Unlock()

	best, spare := -1, -1
	better := func(i, than int) bool {
		return than < 0 || !r.o.InOrder && r.keys[i].used < r.keys[than].used
	}
	for i, k := range r.keys {
		switch left := k.restUntil.Sub(now); {
		case left > 0 && k.why == llm.RateLimited && !k.rejected:
			if wait == 0 || left < wait {
				wait = left
			}
		case tried[i]:
		case left > 0 || k.rejected:
			if better(i, spare) {
				spare = i
			}
		case stuck && i == own && !r.o.InOrder:
			return i, r.use(i), 0
		case better(i, best):
			best = i
		}
	}

	if best < 0 && wait == 0 && !slices.Contains(tried, true) {
		best = spare
	}

	if best >= 0 {
		return best, r.use(best), 0
	}
	return -1, 0, wait
}

// use counts a use and returns how many errors the key had. The caller holds the
// lock.
func (r *rotor) use(i int) (errorsBefore int) {
	r.uses++
	r.keys[i].used = r.uses
	return r.keys[i].errors
}

// answered clears what is held against a key, unless something came up after
// the call began that is answered now.
func (r *rotor) answered(i int, session string, errorsBefore int) {
	if session != "" {
		r.sticky.Put(session, i)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[i]; k.errors == errorsBefore {
		k.limits = 0
		k.restUntil = time.Time{}
		k.rejected = false
	}
}

// record records what an error says about a key; news means that it was rejected
// for the first time.
func (r *rotor) record(ctx context.Context, i int, e *llm.Error) (news bool) {
	now := wall()
	r.mu.Lock()
	k := r.keys[i]
	rest := time.Duration(0)
	switch e.Kind {
	case llm.RateLimited:
		rest = e.RetryAfter
		if rest <= 0 {
			rest = min(firstKeyRest<<min(k.limits, 10), longestKeyRest)
		}
		k.limits++

	case llm.Billing:
		rest = max(cooldown(llm.Billing, 1), e.RetryAfter)
	case llm.Auth:
		news = !k.rejected
		k.rejected = true
	}

	if end := now.Add(min(rest, quiet)); rest > 0 && end.After(k.restUntil) { // of two calls the longer rest counts
		k.restUntil, k.why = end, e.Kind
	}

	k.errors++
	r.mu.Unlock()
	switch {
	case news:
		r.o.Log.WarnContext(ctx, "key rejected, not used any more", "provider", r.o.Provider, "key", k.Name, "err", e)
	case rest > 0:
		r.o.Log.InfoContext(ctx, "key rests", "provider", r.o.Provider, "key", k.Name, "wait_ms", rest.Milliseconds(), "kind", e.Kind)
	}
	return news
}

func (r *rotor) rejection(i int) string {
	return fmt.Sprintf("%s rejected the key %s; it is not used any more. Replace it in the configuration.", r.who(), r.keys[i].Name)
}

func (r *rotor) who() string {
	if r.o.Provider == "" {
		return "The provider"
	}
	return r.o.Provider
}

// exhausted returns the error when no key is left to try. wait is the time until a
// rate-limited key is ready, 0 if none is.
func (r *rotor) exhausted(last *llm.Error, wait time.Duration) error {
	switch {
	case len(r.keys) == 0:
		return &llm.Error{Kind: llm.Configuration, Provider: r.o.Provider, Message: "no key is configured"}
	case wait > 0:
		e := llm.Error{Kind: llm.RateLimited, Provider: r.o.Provider}
		if last != nil && last.Kind == llm.RateLimited {
			e = *last
		}
		if len(r.keys) > 1 || e.Message == "" {
			e.Message = "every key is at its rate limit"
		}

		e.RetryAfter, e.ShouldRetry = wait, nil
		return &e
	}
	return last
}
