package deliver

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Condition is how a channel is.
type Condition string

// The conditions.
const (
	Starting Condition = "starting" // on its way to the platform; nothing went wrong so far
	Running  Condition = "running"  // the platform has let us in
	// Failed: the platform cannot be reached, or does not let us in; Error says
	// why. It is tried again, unless only a person can mend it. Whether a channel
	// tries by itself or is started again makes no difference.
	Failed  Condition = "failed"
	Stopped Condition = "stopped" // not enabled, or the gateway has stopped it
)

// failuresKept is how many failed messages status remembers.
const failuresKept = 100

// Status is what is known about one channel.
type Status struct {
	Name     string    `json:"name"`
	Enabled  bool      `json:"enabled"`
	State    Condition `json:"state"`
	Identity string    `json:"identity,omitempty"` // who we are there
	Error    string    `json:"error,omitempty"`
	Since    time.Time `json:"since,omitzero"` // of State
	Retry    time.Time `json:"retry,omitzero"`
	Restarts int       `json:"restarts,omitempty"`
	Clients  int       `json:"clients,omitempty"` // connected to us
	Queue    int       `json:"queue"`             // waiting to be sent
	Received int       `json:"received"`
	Sent     int       `json:"sent"`
	Failed   int       `json:"failed"`
	Retries  int       `json:"retries,omitempty"` // of what could not be sent at once
	Denied   int       `json:"denied"`
	Refused  []string  `json:"refused,omitempty"` // who was turned away last
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a message that could not be delivered.
type Failure struct {
	At     time.Time `json:"at"`
	ID     string    `json:"id,omitempty"`
	ChatID string    `json:"chat_id"`
	Kind   bus.Kind  `json:"kind"`
	Error  string    `json:"error"`
}

// health is the record of one channel: its state, and what was counted.
type health struct {
	now    func() time.Time
	redact func(string) string
	notify func(what string)
	log    *slog.Logger

	mu        sync.Mutex
	status    Status
	connected chan struct{} // closed and replaced by ready
	up        time.Time     // since when it runs
	met       bool          // it ran before
}

func newHealth(o *Options, log *slog.Logger) *health {
	h := &health{now: o.Now, redact: o.Redact, notify: o.Changed, log: log, connected: make(chan struct{})}
	h.setState(Stopped, "")
	return h
}

// snapshot returns a copy of what is known.
func (h *health) snapshot() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.status
	st.Failures = slices.Clone(st.Failures)
	return st
}

// setState records a new state and the reason for it.
func (h *health) setState(c Condition, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(c, reason)
}

// set is setState for callers that hold the lock.
func (h *health) set(c Condition, reason string) {
	if h.status.State != c {
		h.status.Since = h.now()
	}
	if h.status.State != c || h.status.Error != reason {
		h.notify("channels")
	}
	h.status.State = c
	h.status.Error = reason
	h.status.Retry = time.Time{}
}

// ready is Deps.Ready. A change is logged once, however often the channel
// tries.
func (h *health) ready(identity string, err error) {
	if err != nil {
		reason := h.redact(err.Error())
		h.mu.Lock()
		told := h.status.State == Failed
		h.set(Failed, reason)
		h.mu.Unlock()
		if !told {
			h.log.Warn("a channel has lost its platform and tries to get back", "err", reason)
		}
		return
	}

	h.mu.Lock()
	fresh := h.status.State != Running
	if fresh {
		h.up = h.now()
	}

	h.set(Running, "")
	h.met = true
	if identity != "" {
		h.status.Identity = identity
	}

	close(h.connected)
	h.connected = make(chan struct{})
	h.mu.Unlock()
	if fresh {
		h.log.Info("a channel is connected", "as", identity)
	}
}

// running reports whether the platform has let us in. The channel is closed the
// next time that it does.
func (h *health) running() (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.State == Running, h.connected
}

// recordEnd records that a run is over and reports whether it went well for long.
func (h *health) recordEnd() (healthy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	healthy = !h.up.IsZero() && h.now().Sub(h.up) >= healthyAfter
	h.up = time.Time{}
	return healthy
}

// recordRestartTime records when the channel is started again.
func (h *health) recordRestartTime(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Retry = t
	h.status.Restarts++
}

// recordRestart records that the channel is started again. Until the platform lets us
// in, it stays as it was.
func (h *health) recordRestart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(h.status.State, h.status.Error)
}

// everUp reports whether the platform has let us in since the channel was made.
func (h *health) everUp() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.met
}

// failed records that the channel does not work.
func (h *health) failed(err error) {
	reason := h.redact(err.Error())
	h.setState(Failed, reason)
	h.log.Error("a channel cannot be used", "err", reason)
}

// lost records a message that could not be delivered.
func (h *health) lost(out bus.Outbound, err error) {
	reason := h.redact(err.Error())
	h.mu.Lock()
	h.status.Failed++
	h.status.Failures = append(h.status.Failures, Failure{
		At:     h.now(),
		ID:     out.ID,
		ChatID: out.Route.ChatID,
		Kind:   out.Kind,
		Error:  reason,
	})

	h.status.Failures = h.status.Failures[max(0, len(h.status.Failures)-failuresKept):]
	h.mu.Unlock()
	h.log.Error("a message could not be delivered", "id", out.ID, "chat", out.Route.ChatID, "kind", out.Kind, "err", reason)
}

// received counts a message that came in.
func (h *health) received() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Received++
}

// sent counts a message that was delivered.
func (h *health) sent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Sent++
}

// retried counts a message that has to be sent again.
func (h *health) retried() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Retries++
}
