package approve_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Parallel calls of one conversation are asked about one after another, and the
// second profits from what the first was told; other conversations do not wait.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	synctest.Test(t, func(t *testing.T) {
		questions := 0
		release := make(chan struct{})
		c := b.call
		c.Input = json.RawMessage(`{"command":"git status"}`)
		c.Ask = func(context.Context, bus.Question) (string, error) {
			questions++
			<-release
			return "session", nil
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if res := b.policy.Check(t.Context(), execTool, c); res != nil {
					t.Errorf("refused: %+v", res)
				}
			})
		}
		synctest.Wait()
		if questions != 1 {
			t.Errorf("%d questions at once, want 1", questions)
		}
		elsewhere := c
		elsewhere.SessionKey = "cli:other"
		elsewhere.Ask = func(context.Context, bus.Question) (string, error) { return "yes", nil }
		if res := b.policy.Check(t.Context(), execTool, elsewhere); res != nil {
			t.Errorf("another conversation: %+v", res)
		}
		stopped, stop := context.WithCancel(t.Context())
		wg.Go(func() {
			if res := b.policy.Check(stopped, execTool, c); res == nil || res.Code != tool.Cancelled {
				t.Errorf("stopped while waiting: %+v", res)
			}
		})
		synctest.Wait()
		stop()
		synctest.Wait()
		close(release)
		wg.Wait()
		if questions != 1 {
			t.Errorf("%d questions, want 1", questions)
		}
	})
}

// A question that its asker forgets does not hold up the turn for ever.
func TestForgottenQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask, Timeout: time.Minute})
	synctest.Test(t, func(t *testing.T) {
		c := b.call
		c.Input = json.RawMessage(`{"command":"git push"}`)
		c.Ask = func(ctx context.Context, _ bus.Question) (string, error) {
			<-ctx.Done()
			return "yes", ctx.Err()
		}
		start := time.Now()
		if res := b.policy.Check(t.Context(), execTool, c); res == nil || res.Code != tool.DeniedApproval {
			t.Errorf("got %+v", res)
		}
		if took := time.Since(start); took != 2*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}
