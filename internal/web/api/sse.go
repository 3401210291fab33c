package api

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// stream writes server-sent events. The status is not sent before the first
// of them, so that a turn that fails at once is answered with a proper error.
// A client that does not read for a while ends the turn.
type stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	stop context.CancelCauseFunc
	idle []byte // frame for clients that wait

	mu    sync.Mutex
	begun bool
	err   error
}

func newStream(w http.ResponseWriter, stop context.CancelCauseFunc) *stream {
	return &stream{w: w, rc: http.NewResponseController(w), stop: stop, idle: []byte(": ping\n\n")}
}

// send writes an event with JSON data; the name may be empty.
func (s *stream) send(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.fail(err)
		return
	}

	frame := make([]byte, 0, len(b)+len(name)+24)
	if name != "" {
		frame = append(append(append(frame, "event: "...), name...), '\n')
	}
	s.raw(append(append(append(frame, "data: "...), b...), "\n\n"...))
}

func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken(err)
}

// broken notes the first error and ends the turn. The caller holds the lock.
func (s *stream) broken(err error) {
	if s.err == nil {
		s.err = err
		s.stop(errUnread)
	}
}

// raw writes a whole frame.
func (s *stream) raw(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.err != nil {
		return
	}

	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("X-Accel-Buffering", "no") // proxies must not collect events
		s.w.WriteHeader(http.StatusOK)
	}

	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTime)) // not every connection can
	if _, err := s.w.Write(frame); err != nil {
		s.broken(err)
		return
	}

	if err := s.rc.Flush(); err != nil {
		s.broken(err)
	}
}

// release takes the limit on writing back: the connection may be used again,
// long after.
func (s *stream) release() { _ = s.rc.SetWriteDeadline(time.Time{}) } // not every connection can

// isBegun reports whether the status was sent.
func (s *stream) isBegun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// beat writes the idle frame now and then, so that neither the client nor anything
// between gives a long turn up. The returned func ends that and waits for it.
func (s *stream) beat(every time.Duration) (stop func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-over:
				return
			case <-t.C:
				s.raw(s.idle)
			}
		}
	})
	return func() { close(over); wg.Wait() }
}
