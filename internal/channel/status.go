package channel

import (
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Condition is how a channel is.
type Condition string

// The conditions.
const (
	Starting Condition = "starting" // on its way to the platform, for the first time or again
	Running  Condition = "running"  // the platform has let us in
	Failed   Condition = "failed"   // Error says why; tried again at Retry, if that is set
	Stopped  Condition = "stopped"  // not enabled, or the gateway has stopped it
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

func (s *slot) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state
	st.Name, st.Enabled = s.name, s.enabled
	st.Failures = slices.Clone(st.Failures)
	for _, c := range s.chats {
		st.Queue += len(c.queue) + c.busy
	}
	if s.gate != nil {
		st.Denied, st.Refused = s.gate.refused()
	}
	if p, ok := s.ch.(Served); ok {
		st.Clients = p.Clients()
	}
	return st
}

// become notes a new state. The caller holds the lock.
func (s *slot) become(c Condition, reason string) {
	if s.state.State != c {
		s.state.Since = s.m.o.Now()
	}
	s.state.State, s.state.Error, s.state.Retry = c, reason, time.Time{}
}

// ready is Deps.Ready. What changes is in the log once, however often the
// channel tries.
func (s *slot) ready(identity string, err error) {
	if err != nil {
		reason := s.m.o.Redact(err.Error())
		s.mu.Lock()
		told := s.state.State == Starting && s.state.Error != ""
		s.become(Starting, reason)
		s.mu.Unlock()
		if !told {
			s.log.Warn("a channel has lost its platform and tries to get back", "err", reason)
		}
		return
	}
	s.mu.Lock()
	fresh := s.state.State != Running
	if fresh {
		s.up = s.m.o.Now()
	}
	s.become(Running, "")
	if identity != "" {
		s.state.Identity = identity
	}
	close(s.connected)
	s.connected = make(chan struct{})
	s.mu.Unlock()
	if fresh {
		s.log.Info("a channel is connected", "as", identity)
	}
}

// fail notes that the channel cannot be used as it is configured.
func (s *slot) fail(err error) {
	s.broken = err
	s.trouble(err)
}

func (s *slot) trouble(err error) {
	reason := s.m.o.Redact(err.Error())
	s.mu.Lock()
	s.become(Failed, reason)
	s.mu.Unlock()
	s.log.Error("a channel cannot be used", "err", reason)
}

// lost notes a message that could not be delivered.
func (s *slot) lost(out bus.Outbound, err error) {
	reason := s.m.o.Redact(err.Error())
	s.mu.Lock()
	s.state.Failed++
	s.state.Failures = append(s.state.Failures, Failure{At: s.m.o.Now(), ID: out.ID, ChatID: out.Route.ChatID, Kind: out.Kind, Error: reason})
	s.state.Failures = s.state.Failures[max(0, len(s.state.Failures)-failuresKept):]
	s.mu.Unlock()
	s.log.Error("a message could not be delivered", "id", out.ID, "chat", out.Route.ChatID, "kind", out.Kind, "err", reason)
}

func (s *slot) count(field *int) {
	s.mu.Lock()
	*field++
	s.mu.Unlock()
}
