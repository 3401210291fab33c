package search_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// TestRun sees that the index is kept up to date beside turns and without.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint("busy=", busy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var recs []session.Record
				for i := range 500 {
					recs = append(recs, record(llm.User, fmt.Sprint("otter ", i)))
				}
				w.say("cli:a", recs...)
				x := w.open()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					x.Run(ctx, func() bool { return busy })
				}()
				documents := func() int64 {
					t.Helper()
					s, err := x.Stats(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return s.Documents
				}
				time.Sleep(time.Minute)
				if n := documents(); n != 500 {
					t.Errorf("%d documents after a minute, want 500", n)
				}
				w.say("cli:b", record(llm.User, "beaver"))
				time.Sleep(3 * time.Minute)
				if n := documents(); n != 501 {
					t.Errorf("%d documents after the next look, want 501", n)
				}
				cancel()
				<-done
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRunGoesOn sees that a slice which was not enough is followed by another
// one soon, and not after the usual pause: at once when nobody else works, with
// a rest in between beside turns. Here the time of the slices goes into waiting
// for another process that writes.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		busy  bool
		looks int32 // in the three seconds that the other process writes
	}{{false, 12}, {true, 8}} {
		t.Run(fmt.Sprint("busy=", c.busy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.say("cli:a", record(llm.User, "otter"))
				lock := w.options().Path + ".lock"
				if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
					t.Fatal(err)
				}
				other, err := diskio.TryLock(lock)
				if err != nil {
					t.Fatal(err)
				}
				x := w.open()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				var looks atomic.Int32
				go func() {
					defer close(done)
					x.Run(ctx, func() bool { looks.Add(1); return c.busy })
				}()
				time.Sleep(13*time.Second - time.Millisecond) // the first look is after ten
				synctest.Wait()
				if n := looks.Load(); n != c.looks {
					t.Errorf("%d looks in three seconds, want %d", n, c.looks)
				}
				if err := other.Unlock(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if s, err := x.Stats(t.Context()); err != nil || s.Documents != 1 {
					t.Errorf("%d documents a second later, %v; want 1", s.Documents, err)
				}
				cancel()
				<-done
			})
		})
	}
}
