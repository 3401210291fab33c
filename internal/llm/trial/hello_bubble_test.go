package trial

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// slowModel begins its answer after a while and would go on for ever.
func slowModel(asked *llm.Request, first llm.EventKind, after time.Duration) llm.Model {
	return llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		*asked = req
		return func(yield func(llm.Event, error) bool) {
			for {
				select {
				case <-time.After(after):
				case <-ctx.Done():
					yield(llm.Event{}, &llm.Error{Kind: llm.Connection, Message: "the connection was closed"})
					return
				}
				if !yield(llm.Event{Kind: first, Text: "Hel"}, nil) {
					return
				}
			}
		}
	})
}

func TestHello(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		first llm.EventKind
		after time.Duration
		slow  bool
	}{
		"a slow answer":  {first: llm.TextDelta, after: 90 * time.Second},
		"thinking":       {first: llm.ReasoningDelta, after: time.Second},
		"nothing at all": {first: llm.TextDelta, after: time.Hour, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				var asked llm.Request
				start := time.Now()
				tr := New("m", slowModel(&asked, row.first, row.after), catalog.Choice{WireModel: "m"}, nil)
				tr.Hello(ctx)
				if asked.MaxTokens != 16 {
					t.Errorf("the call may take %d tokens", asked.MaxTokens)
				}
				if took := time.Since(start); !row.slow && (tr.Err() != nil || took != row.after) {
					t.Errorf("%v after %s, want the first piece to be enough", tr.Err(), took)
				}
				if row.slow != errors.Is(tr.Err(), ErrSlow) {
					t.Errorf("error %v", tr.Err())
				}
			})
		})
	}
}

func TestHelloUnreachable(t *testing.T) {
	t.Parallel()
	dead := llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			yield(llm.Event{}, &llm.Error{Kind: llm.Connection, Message: "connection refused"})
		}
	})
	tr := New("m", dead, catalog.Choice{WireModel: "m"}, nil)
	tr.Hello(t.Context())
	if errors.Is(tr.Err(), ErrSlow) || llm.AsError(tr.Err()).Kind != llm.Connection {
		t.Errorf("error %v", tr.Err())
	}
}
