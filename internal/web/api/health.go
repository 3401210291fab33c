package api

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// HealthWait is how long /readyz waits for Options.Health.
const HealthWait = 2 * time.Second

// Check is the state of one part of the program.
type Check struct {
	Name   string    `json:"name"`
	OK     bool      `json:"ok"`
	Detail string    `json:"detail,omitempty"` // what is wrong, or a figure
	Since  time.Time `json:"since,omitzero"`   // of the state
	// Optional parts are shown; the program is ready without them.
	Optional bool `json:"optional,omitempty"`
}

// Report says how the program is.
type Report struct {
	Checks []Check `json:"checks,omitempty"`
}

// ready reports whether all parts are well that must be.
func (r Report) ready() bool {
	for _, c := range r.Checks {
		if !c.OK && !c.Optional {
			return false
		}
	}
	return true
}

// health answers /health, /healthz and /livez: the process takes requests.
func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	_ = sendJSON(w, http.StatusOK, map[string]string{"status": "ok"}) // the client may be gone
}

// readyz tells whether the program does its work. Which part does not is told
// only to those who are on this machine or have the key.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	report := a.probe.ask(r.Context())
	status, word := http.StatusOK, "ready"
	if !report.ready() {
		status, word = http.StatusServiceUnavailable, "not ready"
	}
	if !a.trusted(r) {
		report.Checks = nil
	}

	_ = sendJSON(w, status, struct { // the client may be gone
		Status string `json:"status"`
		Report
	}{word, report})
}

func (a *API) metrics(w http.ResponseWriter, r *http.Request) {
	if !a.trusted(r) {
		a.refuse(w, r, &fault{status: http.StatusForbidden, code: "key_required", message: "Metrics are for programs on the same machine and for those with the key of the API."})
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = a.o.Metrics.WriteTo(w) // the client may be gone
}

// probe asks how the program is, once at a time: a check that hangs is the
// very thing it must tell, and must not pile up.
type probe struct {
	check func(context.Context) Report
	now   func() time.Time

	mu    sync.Mutex
	since time.Time     // when the check under way was begun
	done  chan struct{} // closed at its end; nil when none is under way
	last  Report
}

// ask returns the result of a check, or that of the check hanging.
func (p *probe) ask(ctx context.Context) Report {
	if p.check == nil {
		return Report{}
	}

	p.mu.Lock()
	if p.done == nil {
		p.done, p.since = make(chan struct{}), p.now()
		go p.run(context.WithoutCancel(ctx), p.done)
	}

	done, since := p.done, p.since
	p.mu.Unlock()
	wait := time.NewTimer(HealthWait - p.now().Sub(since))
	defer wait.Stop()

	select {
	case <-done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.last
	case <-wait.C:
	case <-ctx.Done():
	}

	return Report{Checks: []Check{{Name: "health", Detail: "the check does not come to an end", Since: since}}}
}

func (p *probe) run(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, HealthWait)
	defer cancel()
	report := p.check(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.done = report, nil
	close(done)
}
