package runner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The time of a turn ends what is at work.
func TestTimeBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := tool.Func(tool.Tool{Name: "hang", Description: "d"}, func(ctx context.Context, _ tool.Call, _ echoIn) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
		b := newBench(t, llmtest.NewScript(t, llmtest.Call("hang", `{"text":""}`)), hang)
		b.spec.Limits.Time = time.Minute
		began := time.Now()
		res := b.run(t)
		if took := time.Since(began); took != b.spec.Limits.Time {
			t.Errorf("the turn took %v, want %v", took, b.spec.Limits.Time)
		}
		if res.Stop != runner.OverBudget {
			t.Errorf("stop = %s (%v)", res.Stop, res.Err)
		}
		if got, want := roles(b.recorded), "assistant+1 tool assistant"; got != want {
			t.Errorf("recorded %s, want %s", got, want)
		}
	})
}

// What the model had said when the time was up stays.
func TestTimeBudgetText(t *testing.T) {
	t.Parallel()
	for _, streaming := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, llmtest.NewScript(t, llmtest.Step{Text: "Once upon a time", Until: make(chan struct{}), Hang: true}))
			b.spec.Limits.Time = time.Minute
			if !streaming {
				b.spec.Hooks = nil
			}
			res := b.run(t)
			if res.Stop != runner.OverBudget || res.Streamed != streaming || !strings.HasPrefix(res.Text, "Once upon a time\n\nI stopped because") {
				t.Errorf("stop %s, streamed %t: %q", res.Stop, res.Streamed, res.Text)
			}
			if roles(b.recorded) != "assistant" || b.recorded[0].Content.Text != res.Text {
				t.Errorf("recorded %v", b.recorded)
			}
			if streaming && b.deltas != res.Text+"|" {
				t.Errorf("deltas %q", b.deltas)
			}
		})
	}
}
