package search_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/session"
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
