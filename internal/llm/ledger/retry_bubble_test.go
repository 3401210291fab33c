package ledger_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// A retry around a meter pays for every attempt and stops where the money
// does: it neither waits nor tries again.
func TestRetryStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ledger.New(ledger.Options{Limits: ledger.Limits{DailyTokens: 1000}})
		calls := 0
		broken := llm.ModelFunc(func(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				calls++
				for range req.MaxTokens {
					if !yield(llm.Event{Kind: llm.TextDelta, Text: "word"}, nil) {
						return
					}
				}
				yield(llm.Event{}, &llm.Error{Kind: llm.StreamTruncated})
			}
		})
		m := chain.Retry(ledger.Meter(broken, ledger.MeterOptions{Ledger: l, Provider: "p", Billing: ledger.Subscription}), chain.RetryOptions{Rand: func() float64 { return 0.5 }})
		start := time.Now()
		_, err := run(t.Context(), m, llm.Request{Model: "m", MaxTokens: 400})
		budgetError(t, err, "dailyTokens")
		today, _ := l.Spent()
		// Two full answers, and no room for a third that is worth it.
		if calls != 2 || today.Tokens != 800 || today.Calls != 2 {
			t.Errorf("%d calls, counted %+v, want 2 calls and 800 tokens", calls, today)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %v, want the two waits of 1 and 2 s", took)
		}
	})
}
