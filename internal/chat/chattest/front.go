package chattest

import (
	"net/http"
	"net/http/httptest"
	"sync"
)

// Front is the gateway's own listener, for fakes that call the channel.
type Front struct {
	URL string

	mu      sync.Mutex
	handler http.Handler
}

// Start begins to listen; stop ends it.
func (f *Front) Start() (stop func()) {
	s := httptest.NewServer(f)
	f.URL = s.URL
	return s.Close
}

// Serve is a Fixture's Serve.
func (f *Front) Serve(h http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handler = h
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	h := f.handler
	f.mu.Unlock()
	if h == nil {
		http.Error(w, "the gateway is not there", http.StatusServiceUnavailable)
		return
	}
	h.ServeHTTP(w, r)
}
