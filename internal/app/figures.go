package app

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// Figures count what happens, for /metrics, and know what the model said last.
// They outlive the agents of a gateway. Without metrics nothing is counted.
type Figures struct {
	metrics  atomic.Pointer[api.Metrics]
	embedded bool // the model is not one of ours

	mu     sync.Mutex
	failed int    // model calls in a row
	last   string // how the last of them failed
}

// modelFailures is how many calls in a row must fail before the model counts
// as out of reach: single ones are tried again.
const modelFailures = 3

// call counts a model call.
func (f *Figures) call(e ledger.Entry) {
	f.mu.Lock()
	switch e.Outcome {
	case ledger.OutcomeOK:
		f.failed = 0
	case ledger.OutcomeCancelled:
	default:
		f.failed++
		f.last = fmt.Sprintf("%s/%s: %s", e.Provider, e.Model, strings.ReplaceAll(e.Outcome, "_", " "))
	}
	f.mu.Unlock()
	if m := f.metrics.Load(); m != nil {
		m.Call(api.ModelCall{
			Provider: e.Provider, Model: e.Model, Status: e.Outcome, Took: time.Duration(e.DurationMS) * time.Millisecond,
			Usage: bus.Usage{Prompt: e.Prompt, Completion: e.Completion, Cached: e.Cached, CostUSD: e.USD},
		})
	}
}

// Unreachable says why no model answers; "" if the last calls give no reason
// to think so.
func (f *Figures) Unreachable() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed < modelFailures {
		return ""
	}
	return fmt.Sprintf("the last %d calls of a model failed, the last one of %s", f.failed, f.last)
}

// began and ended count runs of the schedule.
func (f *Figures) began(late time.Duration) {
	if m := f.metrics.Load(); m != nil {
		m.CronLag.Observe(max(late, 0).Seconds())
	}
}

func (f *Figures) ended(status string) {
	if m := f.metrics.Load(); m != nil {
		m.CronRuns.Add(1, status)
	}
}

// took counts conversations that were taken into memory.
func (f *Figures) took(err error) {
	if m := f.metrics.Load(); m != nil {
		m.Compactions.Add(1, Outcome(err))
	}
}

// Outcome is the label of an error in metrics.
func Outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// Turn counts a turn that came to an end. The calls of a model that the
// program around us brings are not counted otherwise.
func (f *Figures) Turn(channel string, t *bus.Turn) {
	m := f.metrics.Load()
	if m == nil || t == nil {
		return
	}
	m.Turn(channel, t)
	if f.embedded {
		m.Usage(t.Usage)
	}
}

// Counted makes the turns of those who wait for their answer themselves count
// like those of the queue.
func (f *Figures) Counted(ask func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error]) func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error] {
	return func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
		return func(yield func(bus.Outbound, error) bool) {
			for out, err := range ask(ctx, in) {
				if err == nil && out.Kind == bus.Final {
					f.Turn(in.Route.Channel, out.Turn)
				}
				if !yield(out, err) {
					return
				}
			}
		}
	}
}
