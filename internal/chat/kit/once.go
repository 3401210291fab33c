package kit

import (
	"context"
	"log/slog"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/recent"
)

// causesMost is how many causes are remembered. One that was forgotten is logged again.
const causesMost = 1000

// Once logs each cause of trouble once, so that what a platform repeats does not fill the
// log. Safe for concurrent use.
type Once struct {
	log *slog.Logger

	mu     sync.Mutex // makes the check and the record one step
	logged *recent.Map[string, bool]
}

// NewOnce begins without a cause.
func NewOnce(log *slog.Logger) *Once {
	return &Once{log: log, logged: recent.New[string, bool](causesMost)}
}

// Warn logs a message if the cause is new.
func (o *Once) Warn(ctx context.Context, cause, message string, args ...any) {
	if o.first(cause) {
		o.log.WarnContext(ctx, message, args...) //nolint:sloglint // a constant of the caller
	}
}

// first reports whether a cause is new, and remembers it.
func (o *Once) first(cause string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logged.Has(cause) {
		return false
	}
	o.logged.Put(cause, true)
	return true
}
