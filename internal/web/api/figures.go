package api

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// Figures count what happens, for /metrics, and remember whether the last model
// calls failed. They outlive the agents of a gateway. Without metrics nothing is
// counted.
type Figures struct {
	metrics  atomic.Pointer[Metrics]
	embedded bool // the model belongs to the program that embeds nanobot

	mu     sync.Mutex
	failed int    // model calls in a row
	last   string // how the last of them failed
}

// modelFailures is how many calls in a row must fail before the model counts
// as out of reach: single ones are tried again.
const modelFailures = 3

// NewFigures counts in m, which may be nil. Embedded says that the model belongs
// to the program that embeds nanobot.
func NewFigures(m *Metrics, embedded bool) *Figures {
	f := &Figures{embedded: embedded}
	f.metrics.Store(m)
	return f
}

// Use counts in m from now on.
func (f *Figures) Use(m *Metrics) { f.metrics.Store(m) }

// Call counts a model call.
func (f *Figures) Call(e ledger.Entry) {
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
		m.call(e)
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

// JobBegan counts a run of the schedule, and how late it began.
func (f *Figures) JobBegan(late time.Duration) {
	if m := f.metrics.Load(); m != nil {
		m.CronLag.observe(max(late, 0).Seconds())
	}
}

// JobEnded counts the outcome of a run.
func (f *Figures) JobEnded(status string) {
	if m := f.metrics.Load(); m != nil {
		m.CronRuns.Add(1, status)
	}
}

// Compacted counts conversations that were taken into memory.
func (f *Figures) Compacted(err error) {
	if m := f.metrics.Load(); m != nil {
		m.Compactions.Add(1, Outcome(err))
	}
}

// Outcome returns the label of an error in metrics.
func Outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// Turn counts a turn that came to an end. The model calls of an embedding
// program are not counted otherwise.
func (f *Figures) Turn(channel string, t *bus.Turn) {
	m := f.metrics.Load()
	if m == nil || t == nil {
		return
	}
	m.turn(channel, t)
	if f.embedded {
		m.usage(t.Usage)
	}
}

// Counted counts the turns of callers that wait for their answer themselves,
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
