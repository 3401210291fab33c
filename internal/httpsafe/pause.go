package httpsafe

import (
	"context"
	"time"
)

// Pause waits, mostly before a server is asked again. It returns the error of ctx
// if that ends first.
func Pause(ctx context.Context, d time.Duration) error {
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
