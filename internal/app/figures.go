package app

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// figures count what happens, for /metrics, and know what the model said last.
// They outlive the agents of a gateway. Without metrics nothing is counted.
type figures struct {
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
func (f *figures) call(e ledger.Entry) {
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

// unreachable says why no model answers; "" if the last calls give no reason
// to think so.
func (f *figures) unreachable() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed < modelFailures {
		return ""
	}
	return fmt.Sprintf("the last %d calls of a model failed, the last one of %s", f.failed, f.last)
}

// began and ended count runs of the schedule.
func (f *figures) began(late time.Duration) {
	if m := f.metrics.Load(); m != nil {
		m.CronLag.Observe(max(late, 0).Seconds())
	}
}

func (f *figures) ended(status string) {
	if m := f.metrics.Load(); m != nil {
		m.CronRuns.Add(1, status)
	}
}

// took counts conversations that were taken into memory.
func (f *figures) took(err error) {
	if m := f.metrics.Load(); m != nil {
		m.Compactions.Add(1, outcome(err))
	}
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// turn counts a turn that came to an end. The calls of a model that the
// program around us brings are not counted otherwise.
func (f *figures) turn(channel string, t *bus.Turn) {
	m := f.metrics.Load()
	if m == nil || t == nil {
		return
	}
	m.Turn(channel, t)
	if f.embedded {
		m.Usage(t.Usage)
	}
}

// counted makes the turns of those who wait for their answer themselves count
// like those of the queue.
func (f *figures) counted(ask func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error]) func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error] {
	return func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
		return func(yield func(bus.Outbound, error) bool) {
			for out, err := range ask(ctx, in) {
				if err == nil && out.Kind == bus.Final {
					f.turn(in.Route.Channel, out.Turn)
				}
				if !yield(out, err) {
					return
				}
			}
		}
	}
}

// gauges are looked up when somebody asks for the metrics.
func (g *Gateway) gauges(r *api.Reading) {
	s := g.Status()
	r.Gauge("nanobot_turns_running", "Turns that run now.", float64(s.Agent.Turns))
	r.Gauge("nanobot_queue_depth", "Messages that wait.", float64(s.Queue.Inbound), "direction", "in")
	out := 0
	for _, n := range s.Queue.Outbound {
		out += n
	}
	r.Gauge("nanobot_queue_depth", "Messages that wait.", float64(out), "direction", "out")
	for i := range s.Channels {
		c := &s.Channels[i]
		up := 0.0
		if c.State == channel.Running {
			up = 1
		}
		r.Gauge("nanobot_channel_up", "Whether a channel is connected.", up, "channel", c.Name)
		r.Counter("nanobot_channel_restarts_total", "How often a channel was connected again.", float64(c.Restarts), "channel", c.Name)
		r.Counter("nanobot_received_total", "Messages that came in.", float64(c.Received), "channel", c.Name)
		r.Counter("nanobot_denied_total", "Messages of people who may not talk to us.", float64(c.Denied), "channel", c.Name)
		r.Counter("nanobot_outbound_retries_total", "Attempts to send something again.", float64(c.Retries), "channel", c.Name)
		if c.Name == "websocket" {
			r.Gauge("nanobot_ws_clients", "Connections of the socket.", float64(c.Clients))
		}
		const name, help = "nanobot_deliveries_total", "Messages that were delivered, or could not be."
		r.Counter(name, help, float64(c.Sent), "channel", c.Name, "status", "delivered")
		r.Counter(name, help, float64(c.Failed), "channel", c.Name, "status", "failed")
	}
	g.mu.Lock()
	gen := g.agent
	g.mu.Unlock()
	if gen == nil {
		return
	}
	if n, ok := logsIn(gen.app.Sessions.Dir()); ok {
		r.Gauge("nanobot_sessions", "Conversations on disk.", float64(n))
	}
}

// logsIn counts the conversations in a folder.
func logsIn(dir string) (n int, ok bool) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, false
	}
	defer d.Close() //nolint:errcheck // only read
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if strings.HasSuffix(name, ".jsonl") {
			n++
		}
	}
	return n, err == nil
}
