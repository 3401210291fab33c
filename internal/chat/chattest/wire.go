package chattest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// wire is what lies between a channel and its platform. It can fall silent as a
// network does, without an end of the connections.
type wire struct {
	mu    sync.Mutex
	conns []*strand
	down  bool // connections to come are silent, too
}

// strand is one connection.
type strand struct {
	net.Conn
	silent atomic.Bool
}

// Read loses what arrives on a silent connection.
func (s *strand) Read(p []byte) (int, error) {
	for {
		n, err := s.Conn.Read(p)
		if err != nil || !s.silent.Load() {
			return n, err
		}
	}
}

// Write loses what is sent on a silent connection.
func (s *strand) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}

	s := &strand{Conn: c}
	w.mu.Lock()
	defer w.mu.Unlock()

	s.silent.Store(w.down)
	w.conns = append(w.conns, s)
	return s, nil
}

// client makes an HTTP client that uses the wire.
func (w *wire) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: w.dial}}
}

// silence makes all connections silent, and those to come as well if all is set.
func (w *wire) silence(all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = all
	for _, s := range w.conns {
		s.silent.Store(true)
	}
}

// reap closes the silent connections, as a system does that was told at last.
func (w *wire) reap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.conns {
		if s.silent.Load() {
			_ = s.Close() // it may be closed already
		}
	}
}

// end closes what is left of the connections.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.conns {
		_ = s.Close() // most are closed already
	}
	w.conns, w.down = nil, false
}
