package kit

import (
	"context"
	"log/slog"
	"sync"
)

// Once logs each cause of trouble once. A platform that sends something wrong sends it
// with every message, and would fill the log.
type Once struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[string]bool // by cause
}

// NewOnce makes a Once that has logged nothing.
func NewOnce(log *slog.Logger) *Once {
	return &Once{log: log, logged: map[string]bool{}}
}

// Warn logs what happened, unless something of the same cause was logged before.
func (o *Once) Warn(ctx context.Context, cause, what string, err error) {
	o.mu.Lock()
	before := o.logged[cause]
	o.logged[cause] = true
	o.mu.Unlock()
	if !before {
		o.log.WarnContext(ctx, "a problem that is logged once", "what", what, "err", err)
	}
}
