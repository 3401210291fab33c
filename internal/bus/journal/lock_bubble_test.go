package journal

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

// The lock of a process that was killed may outlive it for a moment, in a child
// that has not run its program yet.
func TestOpenWaitsForALock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held time.Duration
		ok   bool
	}{
		"a moment":   {held: 500 * time.Millisecond, ok: true},
		"for longer": {held: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				release, err := disk.Open(dir, nil).Lock(t.Context(), nameLock)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					time.Sleep(c.held)
					if err := release(); err != nil {
						t.Error(err)
					}
				}()
				start := time.Now()
				j, err := Open(disk.Open(dir, nil), Options{})
				_, locked := errors.AsType[*store.LockedError](err)
				if c.ok != (err == nil) || c.ok == locked || time.Since(start) > 2*time.Second {
					t.Errorf("Open: %v after %s", err, time.Since(start))
				}
				if err == nil {
					_ = j.Close() // only its opening matters
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}
