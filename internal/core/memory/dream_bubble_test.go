package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

func TestDreamServes(t *testing.T) { storetest.Each(t, testDreamServes) }

func testDreamServes(t *testing.T, open storetest.Open) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		m := llmtest.NewScript(t)
		m.Otherwise = func(llm.Request) llmtest.Step {
			at = append(at, time.Since(begin))
			return llmtest.Reply("[SKIP]")
		}
		d := newDreamer(t, open, m)
		d.o.Now, d.o.MaxBatch = time.Now, 2
		for range 5 {
			d.entry(t, Entry{Content: "x"})
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Serve(ctx) }()
		time.Sleep(3 * time.Hour)
		d.entry(t, Entry{Content: "y"})
		time.Sleep(3 * time.Hour)
		cancel()
		must(t, <-done)
		want := []time.Duration{time.Minute, 11 * time.Minute, 2*time.Hour + 11*time.Minute, 4*time.Hour + 11*time.Minute}
		if len(at) != len(want) {
			t.Fatalf("runs at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("run %d at %v, want %v", i, at[i], want[i])
			}
		}
	})
}
