package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"
)

// server is a model that answers at once. It notes when requests arrive, what
// they hold and how many connections were opened.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	arrived []time.Time
	bodies  [][]byte
	conns   atomic.Int64
	keep    bool         // keep all bodies
	scratch bytes.Buffer // otherwise the last one
}

const answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello! How can I help?\"},\"finish_reason\":null}]}\n\n" +
	"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":2000,\"completion_tokens\":7}}\n\n" +
	"data: [DONE]\n\n"

func newServer(keep bool) *server {
	s := &server{keep: keep}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		if s.keep {
			var body bytes.Buffer
			_, _ = io.Copy(&body, r.Body)
			s.mu.Lock()
			s.bodies = append(s.bodies, body.Bytes())
			s.mu.Unlock()
		} else { // into a buffer that is used again: the server must not make garbage
			s.mu.Lock()
			s.scratch.Reset()
			_, _ = io.Copy(&s.scratch, r.Body)
			s.mu.Unlock()
		}
		s.mu.Lock()
		s.arrived = append(s.arrived, at)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, answer)
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.Start()
	return s
}

func (s *server) lastArrival() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived[len(s.arrived)-1]
}

func (s *server) body(i int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.keep {
		return bytes.Clone(s.scratch.Bytes())
	}
	if i < 0 {
		i += len(s.bodies)
	}
	return s.bodies[i]
}
