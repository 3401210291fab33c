package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

// answering is a model server that answers every request, or refuses it.
func answering(t *testing.T, refuse *atomic.Bool) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refuse.Load() {
			http.Error(w, `{"error": {"message": "no such model"}}`, http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"echo #done"}}]}`+"\n\n"+
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// read asks the gateway for one of its pages as a program on this machine.
func (h *host) read(path string) string {
	h.t.Helper()
	srv := httptest.NewServer(h.g.Handler())
	defer srv.Close()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, srv.URL+path, nil)
	h.must(err)
	r.Header.Set("Authorization", "Bearer 0123456789abcdef")
	res, err := srv.Client().Do(r)
	h.must(err)
	b, err := io.ReadAll(res.Body)
	h.must(errors.Join(err, res.Body.Close()))
	return string(b)
}

// What happens in a gateway is counted: model calls, turns of all edges, runs
// of the schedule, reloads, messages. A model that answers nobody is named.
func TestFigures(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	h := newHost(t, nil)
	conf := fmt.Sprintf(`{"agents": {"defaults": {"model": "m", "provider": "custom"}}, "providers": {"custom": {"apiBase": %q, "apiKey": "k"}},
		"api": {"apiKey": "0123456789abcdef"}, "gateway": {"port": 0, "heartbeat": {"enabled": false}, "reload": {"enabled": false}},
		"channels": {"party": {"enabled": true, "allowFrom": ["ann"]}}}`, answering(t, &refuse))
	h.configure(conf)
	h.start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "say"))
	h.party.hear(t, "echo #done")
	for _, err := range h.g.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "api", ChatID: "x"}, Text: "say"}) {
		h.must(err)
	}
	a, err := h.g.Current(t.Context())
	h.must(err)
	_, err = a.Schedule.Add(t.Context(), schedule.Draft{Message: "wake", Timing: schedule.Once(time.Now()), Route: bus.Route{Channel: "party", ChatID: "ann"}})
	h.must(err)
	h.party.hear(t, "echo #done")
	h.must(h.g.Reload(t.Context()))
	h.configure("{")
	if h.g.Reload(t.Context()) == nil {
		t.Error("a broken configuration was taken")
	}
	h.configure(conf)
	text := ""
	for _, want := range []string{
		`nanobot_llm_requests_total{provider="custom",model="m",status="ok"} 3`, `nanobot_llm_request_seconds_count{provider="custom"} 3`,
		`nanobot_llm_tokens_total{kind="prompt"} 30`, `nanobot_turns_total{channel="party",status="completed"} 2`, `nanobot_turns_total{channel="api",status="completed"} 1`,
		`nanobot_cron_runs_total{status="ok"} 1`, "nanobot_cron_lag_seconds_count 1", `nanobot_config_reload_total{result="ok"} 1`, `nanobot_config_reload_total{result="error"} 1`,
		`nanobot_received_total{channel="party"} 1`, "nanobot_sessions 3",
	} {
		// What is said may be heard before it is counted.
		for end := time.Now().Add(10 * time.Minute); !strings.Contains(text, want+"\n"); text = h.read("/metrics") {
			if time.Now().After(end) {
				t.Fatalf("%q is missing in:\n%s", want, text)
			}
		}
	}

	h.must(h.g.Reload(t.Context()))
	if got := h.read("/readyz"); !strings.Contains(got, `{"name":"model","ok":true,"optional":true}`) || !strings.Contains(got, `{"name":"schedule","ok":true,"optional":true}`) {
		t.Errorf("readyz: %s", got)
	}
	refuse.Store(true)
	for range 3 {
		for range h.g.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "api", ChatID: "x"}, Text: "say"}) { //nolint:revive // how it ends is looked at below
		}
	}
	if got := h.read("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, "the last 3 calls of a model failed, the last one of custom/m") {
		t.Errorf("readyz of a model that refuses: %s", got)
	}
	if s := h.g.Status(); !s.Ready || !strings.Contains(strings.Join(s.Problems, "\n"), "custom/m") {
		t.Errorf("status %+v", s)
	}
	h.must(h.end())
}
