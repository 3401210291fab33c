package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is the pause between attempts, which grows while they fail: it is Least,
// then twice as long each time, at most Most. Who tries again, and after which
// errors, is up to the caller.
type Backoff struct {
	Least, Most time.Duration
	// Spread makes each pause longer or shorter by up to this share of it, at random,
	// so that programs that lost the same server do not come back at once.
	Spread float64
	next   time.Duration // 0: Least
}

// Next returns the pause after another failure.
func (b *Backoff) Next() time.Duration {
	d := min(max(b.next, b.Least), b.Most)
	b.next = min(2*d, b.Most)
	return time.Duration(float64(d) * (1 - b.Spread + 2*b.Spread*rand.Float64())) //nolint:gosec // spreads load, hides nothing
}

// Fresh reports whether nothing failed since the last success.
func (b *Backoff) Fresh() bool { return b.next == 0 }

// Reset says that an attempt succeeded.
func (b *Backoff) Reset() { b.next = 0 }

// Wait waits for Next. It returns the error of ctx if that ends first.
func (b *Backoff) Wait(ctx context.Context) error { return For(ctx, b.Next()) }
