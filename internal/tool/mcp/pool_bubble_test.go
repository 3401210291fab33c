package mcp

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

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
