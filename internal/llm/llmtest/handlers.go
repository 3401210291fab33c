package llmtest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Handlers is a server for tests that want to write each answer themselves, one
// per request. The fields tell what came; they are read when nothing runs.
type Handlers struct {
	*httptest.Server
	Bodies  []string
	Paths   []string // with the query, as they were sent
	Headers []http.Header
	Conns   int // connections that were made

	mu      sync.Mutex
	replies []http.HandlerFunc
}

// NewHandlers starts a server that ends with the test. A request for which
// check has an error, or for which no reply is left, fails the test.
func NewHandlers(t *testing.T, check func(r *http.Request, body []byte) error, replies ...http.HandlerFunc) *Handlers {
	t.Helper()
	s := &Handlers{replies: replies}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := check(r, body); err != nil {
			t.Errorf("the server would refuse the request: %v\n%s", err, body)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}

		s.mu.Lock()
		s.Bodies = append(s.Bodies, string(body))
		s.Paths = append(s.Paths, r.RequestURI)
		s.Headers = append(s.Headers, r.Header)
		var reply http.HandlerFunc
		if len(s.replies) > 0 {
			reply, s.replies = s.replies[0], s.replies[1:]
		}

		s.mu.Unlock()
		if reply == nil {
			t.Error("one request too many")
			http.Error(w, "no reply left", http.StatusTeapot)
			return
		}

		reply(w, r)
	}))

	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.mu.Lock()
			s.Conns++
			s.mu.Unlock()
		}
	}

	s.Start()
	t.Cleanup(s.Close)
	return s
}
