// Package wait pauses for a time and stops early when a context ends: For leaves
// no timer and no goroutine behind.
package wait

import (
	"context"
	"time"
)

// For waits for d. It returns the error of ctx if that ends first.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}

	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
