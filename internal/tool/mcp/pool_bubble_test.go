package mcp

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A program that ends after one answer waits for a slow server as long as it may
// take to connect, and can say for which.
func TestPatientWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{Patient: true, Servers: []Server{{Name: "a", Type: Stdio, Command: "x"}, {Name: "off", Disabled: true}}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := p.Slow(t.Context()); len(got) != 1 || got[0] != "a" || time.Since(began) != p.timing.slow {
			t.Errorf("slow: %q after %v", got, time.Since(began))
		}
		if p.Tools(t.Context()); time.Since(began) < p.timing.connect {
			t.Errorf("waited %v, and a server may take %v", time.Since(began), p.timing.connect)
		}
		if got := p.Slow(t.Context()); len(got) != 0 {
			t.Errorf("still waiting for %q", got)
		}
	})
}

// Servers that are down delay a turn once, and not longer than that.
func TestFirstWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{Servers: []Server{{Name: "a", Type: Stdio, Command: "x"}, {Name: "off", Disabled: true}}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i, want := range []time.Duration{p.timing.first, p.timing.first} {
			p.Tools(t.Context())
			if took := time.Since(began); took != want {
				t.Errorf("turn %d: %v after the first began, want %v", i+1, took, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.timing.first = time.Hour
		if p.Tools(ctx); time.Since(began) > time.Minute {
			t.Error("a cancelled turn waits")
		}
		if st := p.Status()[1]; st.State != Off {
			t.Errorf("state = %q", st.State)
		}
	})
}
