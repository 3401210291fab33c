package api

import (
	"runtime"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// Metrics are the figures of the program. Whoever does the work gets the
// counters it needs handed in as funcs; only the wiring knows this type. More
// metrics are made through the Registry, before anything is served.
type Metrics struct {
	Registry

	Turns         *Counter   // channel, status: the stop reason
	TurnSeconds   *Histogram // channel
	ModelRequests *Counter   // provider, model, status
	ModelSeconds  *Histogram // provider
	Tokens        *Counter   // kind: prompt, completion, cached
	Cost          *Counter   // US dollars
	ToolCalls     *Counter   // tool, status
	ToolSeconds   *Histogram // tool
	CronRuns      *Counter   // status
	CronLag       *Histogram // seconds behind the time a job was due
	Compactions   *Counter   // status
	Reloads       *Counter   // result
	Requests      *Counter   // route, status: HTTP requests
}

// NewMetrics makes the metrics of a program of this version that began at a
// time. Gauges that are looked up (queue depth, channels, sessions) are added
// with OnRead.
func NewMetrics(version string, began time.Time, now func() time.Time) *Metrics {
	m := &Metrics{}
	quick := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	slow := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900}
	m.Turns = m.counter("nanobot_turns_total", "Turns that came to an end.", "channel", "status")
	m.TurnSeconds = m.histogram("nanobot_turn_seconds", "Duration of turns.", slow, "channel")
	m.ModelRequests = m.counter("nanobot_llm_requests_total", "Requests to models.", "provider", "model", "status")
	m.ModelSeconds = m.histogram("nanobot_llm_request_seconds", "Duration of requests to models.", slow, "provider")
	m.Tokens = m.counter("nanobot_llm_tokens_total", "Tokens of model calls.", "kind")
	m.Cost = m.counter("nanobot_llm_cost_usd_total", "Known cost of model calls in US dollars.")
	m.ToolCalls = m.counter("nanobot_tool_calls_total", "Tool calls.", "tool", "status")
	m.ToolSeconds = m.histogram("nanobot_tool_seconds", "Duration of tool calls.", quick, "tool")
	m.CronRuns = m.counter("nanobot_cron_runs_total", "Runs of scheduled jobs.", "status")
	m.CronLag = m.histogram("nanobot_cron_lag_seconds", "How late scheduled jobs began.", slow)
	m.Compactions = m.counter("nanobot_memory_compactions_total", "Conversations taken into memory.", "status")
	m.Reloads = m.counter("nanobot_config_reload_total", "Reloads of the configuration.", "result")
	m.Requests = m.counter("nanobot_http_requests_total", "HTTP requests answered.", "route", "status")
	m.OnRead(func(r *Reading) {
		r.Gauge("nanobot_build_info", "Version of the program.", 1, "version", version, "go", runtime.Version())
		r.Gauge("nanobot_uptime_seconds", "Time since the start.", now().Sub(began).Seconds())
		r.Gauge("nanobot_goroutines", "Goroutines.", float64(runtime.NumGoroutine()))
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		r.Gauge("nanobot_heap_bytes", "Memory in use by live and dead objects.", float64(mem.HeapAlloc))
	})
	return m
}

// call counts a request to a model, whatever caused it.
func (m *Metrics) call(e ledger.Entry) {
	m.ModelRequests.Add(1, e.Provider, e.Model, e.Outcome)
	m.ModelSeconds.observe((time.Duration(e.DurationMS) * time.Millisecond).Seconds(), e.Provider)
	m.usage(bus.Usage{Prompt: e.Prompt, Completion: e.Completion, Cached: e.Cached, CostUSD: e.USD})
}

// usage counts tokens of calls that call is not told about.
func (m *Metrics) usage(u bus.Usage) {
	m.Tokens.Add(float64(u.Prompt), "prompt")
	m.Tokens.Add(float64(u.Completion), "completion")
	m.Tokens.Add(float64(u.Cached), "cached")
	m.Cost.Add(u.CostUSD)
}

// turn counts a turn that came to an end, with its tool calls.
func (m *Metrics) turn(channel string, t *bus.Turn) {
	m.Turns.Add(1, channel, t.StopReason)
	m.TurnSeconds.observe(float64(t.DurationMS)/1000, channel)
	for i := range t.Receipts {
		m.ToolCalls.Add(1, t.Receipts[i].Name, t.Receipts[i].Status)
		m.ToolSeconds.observe(float64(t.Receipts[i].DurationMS)/1000, t.Receipts[i].Name)
	}
}
