package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	// tripFailures is how many failures in a row open a circuit.
	tripFailures = 3
	// tripWindow is how close together they must come. The time spent inside
	// the failing calls does not count: an endpoint that hangs for five minutes
	// each time is as dead as one that refuses at once.
	tripWindow = 60 * time.Second
	// quiet is the time without trouble after which old trouble is forgotten,
	// and the longest pause of all.
	quiet = 24 * time.Hour
	// knownCircuits bounds the endpoints that are remembered.
	knownCircuits = 128
)

// cooldown returns how long an endpoint is left alone after it was found dead
// for the step-th time, counted from 1.
func cooldown(k llm.Kind, step int) time.Duration {
	steps := []time.Duration{time.Minute, 5 * time.Minute, 25 * time.Minute, time.Hour}
	if k == llm.Billing { // an account is not topped up within a minute
		steps = []time.Duration{5 * time.Hour, 10 * time.Hour, 20 * time.Hour, quiet}
	}
	return steps[min(max(step, 1), len(steps))-1]
}

// endpointFault reports whether an error says that the endpoint or the account
// is unusable, as opposed to this one request.
func endpointFault(k llm.Kind) bool {
	switch k {
	case llm.Timeout, llm.Connection, llm.RateLimited, llm.Overloaded, llm.ServerError, llm.StreamTruncated, llm.Auth, llm.Billing:
		return true
	default:
		return false
	}
}

// BreakersOptions configure Breakers. The zero value keeps everything in memory.
type BreakersOptions struct {
	// Store carries the state from one process to the next in the document
	// run/breakers.json; nil keeps it in memory. It is read on first use and
	// written when a circuit changes; one that cannot be read or written is
	// reported to Log and otherwise ignored.
	Store store.Store
	Log   *slog.Logger // nil: no log
}

// Breakers is the set of circuit breakers of a process, one per endpoint and
// key, shared by all sessions. It is safe for concurrent use.
//
// Three failures in a row, close together, open a circuit: the endpoint is not
// asked for 1 minute, then 5, 25 and 60 when it proves dead again; an account
// without credit opens it at once, for 5, 10, 20 and 24 hours. After the pause
// exactly one request is let through: its success closes the circuit, its
// failure begins the next pause. A recovery takes back one step, a day without
// trouble all of them.
type Breakers struct {
	store store.Store // nil: in memory only
	log   *slog.Logger
	load  sync.Once

	mu       sync.Mutex
	circuits map[string]*circuit
	dirty    bool // the file lacks a change
	saving   bool // a writer is at work; it looks at dirty again afterwards
}

// NewBreakers makes a set. It does no work; the file is read on first use.
func NewBreakers(o BreakersOptions) *Breakers {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Breakers{store: o.Store, log: o.Log, circuits: map[string]*circuit{}}
}

// BreakerID names an endpoint with its keys, for Breakers.At. It holds a short
// hash of them and nothing that gives a key away.
func BreakerID(provider, base string, keys ...httpsafe.Secret) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q", strings.TrimRight(base, "/"))
	for _, k := range keys {
		_, _ = fmt.Fprintf(h, " %q", k.Reveal()) // the hash stays here, the key goes nowhere
	}
	return provider + "-" + hex.EncodeToString(h.Sum(nil)[:6])
}

// At returns the breaker of one endpoint. Handles with the same id share their state.
func (b *Breakers) At(id string) *Breaker { return &Breaker{set: b, id: id} }

// pause is an endpoint that is left alone.
type pause struct {
	ID    string
	Kind  llm.Kind // of the error that did it
	Until time.Time
}

// ready reads the file once.
func (b *Breakers) ready(ctx context.Context) {
	b.load.Do(func() {
		old := b.read(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.merge(old)
	})
}

// change runs f on a circuit and saves if f reports that something changed.
func (b *Breakers) change(ctx context.Context, id string, f func(c *circuit, now time.Time) bool) {
	b.ready(ctx)
	now := wall()
	b.mu.Lock()
	c := b.circuits[id]
	if c == nil {
		b.prune(knownCircuits - 1)
		c = &circuit{}
		b.circuits[id] = c
	}

	changed := f(c, now)
	if changed {
		c.Changed = now
		b.dirty = true
	}

	b.mu.Unlock()
	if changed {
		b.save(ctx)
	}
}

// prune drops circuits that are not in use and that changed longest ago, until
// at most limit are left. The caller holds the lock.
func (b *Breakers) prune(limit int) {
	for len(b.circuits) > limit {
		oldest := ""
		for id, c := range b.circuits {
			if c.probe == nil && c.calls == 0 && (oldest == "" || c.Changed.Before(b.circuits[oldest].Changed)) {
				oldest = id
			}
		}

		if oldest == "" {
			return
		}
		delete(b.circuits, oldest)
	}
}

// wall returns the time of day without the monotonic clock, which stands still while
// a laptop sleeps.
func wall() time.Time { return time.Now().Round(0) }

// circuit is the state of one endpoint. Closed: Until is zero. Open: now is
// before Until. Half open: Until has passed and one probe decides.
type circuit struct {
	Step    int       `json:"step,omitempty"` // pauses so far that no recovery took back
	Until   time.Time `json:"until,omitzero"`
	Kind    llm.Kind  `json:"kind,omitempty"` // of the last failure
	Failed  time.Time `json:"failed,omitzero"`
	Recent  []span    `json:"recent,omitempty"` // failures in a row while closed
	Changed time.Time `json:"changed,omitzero"`

	probe *pass // the one request that is let through while half open
	calls int   // requests under way
}

// span is a failed call.
type span struct {
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
}

func (c *circuit) closed() bool { return c.Until.IsZero() }

// open reports whether the endpoint is left alone. A clock that was set back
// behind the failure must not prolong the pause.
func (c *circuit) open(now time.Time) bool {
	return !c.closed() && now.Before(c.Until) && !now.Before(c.Failed)
}

// fail records a failure and reports whether the circuit opened.
func (c *circuit) fail(e *llm.Error, s span, probe bool) bool {
	now := s.Ended
	if !c.closed() && !probe {
		return false // a straggler, or a forced call: no news
	}

	if last := later(c.Until, c.Failed); now.Sub(last) > quiet || (c.Kind == llm.Billing) != (e.Kind == llm.Billing) {
		c.Step = 0
	}

	c.Kind, c.Failed = e.Kind, now
	if c.closed() {
		c.Recent = append(c.Recent, s)
		if len(c.Recent) > tripFailures {
			c.Recent = c.Recent[len(c.Recent)-tripFailures:]
		}
		if e.Kind != llm.Billing && !trips(c.Recent) {
			return false
		}
	}

	c.Step++
	c.Until = now.Add(min(max(cooldown(e.Kind, c.Step), e.RetryAfter), quiet))
	c.Recent = nil
	return true
}

// trips reports whether failures are enough and close enough together.
func trips(recent []span) bool {
	if len(recent) < tripFailures {
		return false
	}
	var idle time.Duration
	for i := 1; i < len(recent); i++ {
		idle += max(recent[i].Began.Sub(recent[i-1].Ended), 0)
	}
	return idle <= tripWindow
}

// answered records that the endpoint lives and reports whether that is news.
func (c *circuit) answered() bool {
	news := !c.closed() || len(c.Recent) > 0
	if !c.closed() {
		c.Step = max(c.Step-1, 0)
	}
	c.Until = time.Time{}
	c.Recent = nil
	c.probe = nil
	return news
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Breaker watches one endpoint. Fallback asks it before each call of a link
// and tells it how the call ended. A nil Breaker lets everything through.
type Breaker struct {
	set *Breakers
	id  string
}

// pass is the permission for one call. Every pass must be ended.
type pass struct {
	b     *Breaker
	began time.Time
}

// enter asks for a pass. Without one it returns the time until which the
// endpoint is left alone, and why. force gets a pass from an open circuit.
func (b *Breaker) enter(ctx context.Context, force bool) (*pass, pause) {
	if b == nil {
		return nil, pause{}
	}

	p := &pass{b: b, began: wall()}
	var refused pause
	b.set.change(ctx, b.id, func(c *circuit, now time.Time) bool {
		switch {
		case c.closed() || force:
		case c.open(now):
			refused = pause{ID: b.id, Kind: c.Kind, Until: c.Until}
		case c.probe == nil:
			c.probe = p
		default:
			refused = pause{ID: b.id, Kind: c.Kind, Until: now}
		}

		if refused.ID == "" {
			c.calls++
		}
		return false
	})
	if refused.ID != "" {
		return nil, refused
	}
	return p, pause{}
}

// report records how the call went: nil for an answer, the error of a failed one.
// errAbandoned, and any error that is not an *Error, says nothing about the
// endpoint and frees the place of a probe.
func (p *pass) report(ctx context.Context, err error) {
	if p == nil {
		return
	}

	var opened pause
	p.b.set.change(ctx, p.b.id, func(c *circuit, now time.Time) bool {
		probe := c.probe == p
		if probe {
			c.probe = nil
		}

		c.calls = max(c.calls-1, 0)
		e, typed := err.(*llm.Error) //nolint:errorlint // the caller passes its own *Error or nothing of interest
		switch {
		case err != nil && !typed:
			return false
		case err == nil || !endpointFault(e.Kind): // the endpoint lives, whatever it thinks of the request
			return c.answered()
		}

		if c.fail(e, span{Began: p.began, Ended: now}, probe) {
			opened = pause{Kind: c.Kind, Until: c.Until}
		}
		return true
	})
	if !opened.Until.IsZero() {
		p.b.set.log.WarnContext(ctx, "endpoint left alone after failures", "endpoint", p.b.id, "kind", opened.Kind, "until", opened.Until)
	}
}
