package mcp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call ends after its time, counted from the last sign of progress, and
// after ten times that in any case.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		every time.Duration // between signs of progress; 0 is none
		want  time.Duration
	}{
		{"no progress", 0, 30 * time.Second},
		{"progress too late", 31 * time.Second, 30 * time.Second},
		{"endless progress", 20 * time.Second, 300 * time.Second},
		{"a flood of progress", time.Millisecond, 300 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, extend, stop := deadline(t.Context(), 30*time.Second)
				defer stop()
				if c.every > 0 {
					tick := time.NewTicker(c.every)
					defer tick.Stop()
					for ctx.Err() == nil {
						select {
						case <-tick.C:
							extend()
						case <-ctx.Done():
						}
					}
				}
				<-ctx.Done()
				if took := time.Since(began); took != c.want || !errors.Is(context.Cause(ctx), errTimeout) {
					t.Errorf("ended after %v with %v, want %v", took, context.Cause(ctx), c.want)
				}
			})
		})
	}
}

// Somebody who wants a server shortens the wait, but not below the shortest.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wake time.Duration // after which somebody asks; 0 is nobody
		want time.Duration
	}{
		{"nobody asks", 0, time.Minute},
		{"asked at once", time.Nanosecond, time.Second},
		{"asked later", 10 * time.Second, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := New(Options{Servers: []Server{{Name: "a", Type: Stdio}}})
				if err != nil {
					t.Fatal(err)
				}
				if c.wake > 0 {
					time.AfterFunc(c.wake, func() { p.Retry("a") })
				}
				began := time.Now()
				p.servers[0].pause(t.Context(), time.Minute)
				if took := time.Since(began); took != c.want {
					t.Errorf("waited %v, want %v", took, c.want)
				}
			})
		})
	}
}
