package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// TestHealth: everybody learns whether the program works, only those who
// belong here which part does not.
func TestHealth(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	report := api.Report{}
	h := open(t, says(), func(o *api.Options) {
		o.Token = httpsafe.NewSecret(token)
		o.Health = func(context.Context) api.Report { mu.Lock(); defer mu.Unlock(); return report }
	})
	far := []string{"X-Forwarded-For", "10.0.0.1"}
	for _, c := range []struct {
		name    string
		checks  []api.Check
		headers []string
		status  int
		want    string
	}{
		{"well", []api.Check{{Name: "disk", OK: true}}, nil, 200, `{"status":"ready","checks":[{"name":"disk","ok":true}]}`},
		{"optional", []api.Check{{Name: "telegram", Optional: true}}, nil, 200, `{"status":"ready","checks":[{"name":"telegram","ok":false,"optional":true}]}`},
		{"ill", []api.Check{{Name: "agent", Detail: "stuck"}}, nil, 503, `{"status":"not ready","checks":[{"name":"agent","ok":false,"detail":"stuck"}]}`},
		{"ill, from afar", []api.Check{{Name: "agent", Detail: "stuck"}}, far, 503, `{"status":"not ready"}`},
		{"ill, with the key", []api.Check{{Name: "agent"}}, append(far, "Authorization", "Bearer "+token), 503, `{"status":"not ready","checks":[{"name":"agent","ok":false}]}`},
		{"ill, a page", []api.Check{{Name: "agent"}}, []string{"Origin", "https://evil.example"}, 503, `{"status":"not ready"}`},
		{"ill, rebound", []api.Check{{Name: "agent"}}, []string{"Host", "evil.example"}, 503, `{"status":"not ready"}`},
	} {
		mu.Lock()
		report = api.Report{Checks: c.checks}
		mu.Unlock()
		status, _, body := h.send(t, http.MethodGet, "/readyz", "", c.headers...)
		if status != c.status || strings.TrimSpace(body) != c.want {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, body, c.status, c.want)
		}
		for _, path := range []string{"/health", "/livez"} {
			if status, _, body := h.send(t, http.MethodGet, path, "", c.headers...); status != 200 || body != "{\"status\":\"ok\"}\n" {
				t.Errorf("%s: %s: %d %s", c.name, path, status, body)
			}
		}
	}
	if status, _, _ := h.send(t, http.MethodGet, "/metrics", "", far...); status != 403 {
		t.Errorf("metrics from afar: %d", status)
	}
	if status, _, body := h.send(t, http.MethodGet, "/nothing", ""); status != 404 || !strings.Contains(body, "unknown_url") {
		t.Errorf("nothing: %d %s", status, body)
	}
}

// TestHealthOnly: without an agent there is no API, but there is health.
func TestHealthOnly(t *testing.T) {
	t.Parallel()
	h := open(t, says(), func(o *api.Options) { o.Ask = nil })
	if status, _, _ := h.send(t, http.MethodGet, "/readyz", ""); status != 200 {
		t.Errorf("readyz: %d", status)
	}
	if status, _, _ := h.post(t, "/v1/chat/completions", "{}"); status != 404 {
		t.Errorf("chat: %d", status)
	}
}

// TestMetrics: the text form, exactly.
func TestMetrics(t *testing.T) {
	t.Parallel()
	h := open(t, says(final("x", bus.Turn{})), func(o *api.Options) {
		m, f := o.Metrics, api.NewFigures(o.Metrics, false)
		f.Turn("telegram", &bus.Turn{
			StopReason: "completed", DurationMS: 300,
			Receipts: []bus.Receipt{{Name: "exec", Status: "ok", DurationMS: 3}, {Name: "ex\"e\nc\\", Status: "error"}},
		})
		f.Turn("telegram", nil)
		f.Call(ledger.Entry{Provider: "p", Model: "m", Outcome: "ok", DurationMS: 1000, Prompt: 10, Completion: 2, Cached: 4, USD: 0.25})
		f.Call(ledger.Entry{Provider: "p", Model: "m", Outcome: "rate_limit"})
		m.OnRead(func(r *api.Reading) {
			r.Gauge("nanobot_channel_up", "Channels that work.", 1, "channel", "telegram")
			r.Gauge("nanobot_channel_up", "Channels that work.", 0, "channel", "email")
			r.Counter("nanobot_deliveries_total", "Messages.", 3, "channel", "email", "status", "failed")
		})
	})
	h.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`)
	h.post(t, "/v1/chat/completions", `{`)
	_, head, body := h.send(t, http.MethodGet, "/metrics", "")
	for _, want := range []string{
		"# HELP nanobot_turns_total Turns that came to an end.\n# TYPE nanobot_turns_total counter\nnanobot_turns_total{channel=\"telegram\",status=\"completed\"} 1\n",
		"nanobot_turn_seconds_bucket{channel=\"telegram\",le=\"0.25\"} 0\nnanobot_turn_seconds_bucket{channel=\"telegram\",le=\"0.5\"} 1\n",
		"nanobot_turn_seconds_bucket{channel=\"telegram\",le=\"+Inf\"} 1\nnanobot_turn_seconds_sum{channel=\"telegram\"} 0.3\nnanobot_turn_seconds_count{channel=\"telegram\"} 1\n",
		"nanobot_llm_tokens_total{kind=\"cached\"} 4\nnanobot_llm_tokens_total{kind=\"completion\"} 2\nnanobot_llm_tokens_total{kind=\"prompt\"} 10\n",
		"nanobot_llm_cost_usd_total 0.25\n",
		"nanobot_llm_requests_total{provider=\"p\",model=\"m\",status=\"ok\"} 1\nnanobot_llm_requests_total{provider=\"p\",model=\"m\",status=\"rate_limit\"} 1\n",
		"nanobot_llm_request_seconds_count{provider=\"p\"} 2\n",
		"# TYPE nanobot_deliveries_total counter\nnanobot_deliveries_total{channel=\"email\",status=\"failed\"} 3\n",
		"nanobot_cron_lag_seconds_count 0\n",
		`nanobot_tool_calls_total{tool="ex\"e\nc\\",status="error"} 1` + "\n",
		"nanobot_channel_up{channel=\"email\"} 0\nnanobot_channel_up{channel=\"telegram\"} 1\n",
		"nanobot_uptime_seconds 5\n",
		`nanobot_build_info{version="v1",`,
		`nanobot_http_requests_total{route="POST /v1/chat/completions",status="200"} 1` + "\n",
		`nanobot_http_requests_total{route="POST /v1/chat/completions",status="400"} 1` + "\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is missing in\n%s", want, body)
		}
	}
	if got := head.Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
}

// TestMetricsBounded: label values that strangers choose do not fill the memory.
func TestMetricsBounded(t *testing.T) {
	t.Parallel()
	var r api.Registry
	c := r.Counter("x_total", "X.", "who")
	for i := range 2000 {
		c.Add(1, fmt.Sprint(i))
	}
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 503 || !strings.Contains(b.String(), "x_total{who=\"other\"} 1500\n") {
		t.Errorf("%d lines", n)
	}
}

// TestMetricsConcurrent: nothing is lost when many count at once.
func TestMetricsConcurrent(t *testing.T) {
	t.Parallel()
	var r api.Registry
	c := r.Counter("c_total", "C.", "who")
	h := r.Histogram("h", "H.", []float64{1, 2})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				c.Add(1, fmt.Sprint(i%3))
				h.Observe(float64(i % 3))
				if i%100 == 0 {
					_, _ = r.WriteTo(&strings.Builder{})
				}
			}
		})
	}
	wg.Wait()
	var b strings.Builder
	_, _ = r.WriteTo(&b)
	for _, want := range []string{`c_total{who="0"} 1336`, "h_bucket{le=\"1\"} 2672\n", "h_bucket{le=\"+Inf\"} 4000\nh_sum 3992\nh_count 4000\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// TestMetricsAllocate: counting makes nothing to clean up.
func TestMetricsAllocate(t *testing.T) { // AllocsPerRun wants to be alone
	m := api.NewMetrics("v", time.Unix(0, 0), time.Now)
	channel := "telegram"
	if n := testing.AllocsPerRun(100, func() {
		m.Turns.Add(1, channel, "completed")
		m.TurnSeconds.Observe(0.1, channel)
		m.Cost.Add(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
