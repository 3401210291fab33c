package api

import (
	"context"
	"errors"
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
