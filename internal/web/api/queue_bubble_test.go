package api_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// TestQueue: more requests than there are turns wait for their turn; a client
// that goes away waits no longer, and a flood is sent away.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, err := api.New(api.Options{MaxConcurrent: 1, Ask: func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error] { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		_, leave, err := a.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		results := make(chan error, 300)
		enter := func(ctx context.Context) {
			_, leave, err := a.Enter(ctx)
			if err == nil {
				leave()
			}
			results <- err
		}
		go enter(gone)
		synctest.Wait()
		cancel()
		if err := <-results; err == nil {
			t.Error("a client that is gone got a turn")
		}
		for range 128 {
			go enter(t.Context())
		}
		synctest.Wait()
		if len(results) != 0 {
			t.Fatalf("%d did not wait", len(results))
		}
		enter(t.Context())
		if err := <-results; api.Status(err) != 429 {
			t.Errorf("one too many: %v", err)
		}
		leave()
		for range 128 {
			if err := <-results; err != nil {
				t.Errorf("one that waited: %v", err)
			}
		}
	})
}
