package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Observe counts one value.
func (h *Histogram) Observe(v float64, values ...string) { h.observe(v, values...) }

// Enter waits for a turn.
func (a *API) Enter(ctx context.Context) (context.Context, func(), error) { return a.enter(ctx) }

// Status is the HTTP status of an error.
func Status(err error) int {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.status
	}
	return 0
}

// Guard is guard.
func (g Gate) Guard(h http.Handler) (http.Handler, error) { return g.guard(h) }

// Take is take.
func (n *Nonces) Take(ctx context.Context, nonce string, until, now time.Time) (bool, error) {
	return n.claim(ctx, nonce, until, now)
}

// Counter is counter.
func (r *Registry) Counter(name, help string, labels ...string) *Counter {
	return r.counter(name, help, labels...)
}

// Histogram is histogram.
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...string) *Histogram {
	return r.histogram(name, help, bounds, labels...)
}
