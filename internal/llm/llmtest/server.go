package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Key is the credential the Server expects.
const Key = "test-key-123456"

// Answer is one scripted HTTP answer of a Server. Either Reply is set, which
// is rendered in the protocol of the request, or the raw fields are.
type Answer struct {
	Reply *StreamReply

	Status      int // 0 means 200
	Header      http.Header
	ContentType string // "" means text/event-stream for Events, else application/json
	Body        string
	Events      []string // each is sent and flushed as one "data:" line
	// Abort breaks the TCP connection after the body instead of ending it.
	Abort bool
	// Hold keeps the answer open after the body until the channel is closed or
	// the client goes away.
	Hold <-chan struct{}
	// Gate is waited for before anything is sent.
	Gate <-chan struct{}
	// Handler, if set, writes the whole answer.
	Handler http.HandlerFunc
	// Refuse makes an offline server refuse the connection.
	Refuse bool
}

// Recorded is a request that reached a Server.
type Recorded struct {
	Path   string
	Header http.Header
	Body   []byte
	Error  string // why the server refused it, "" if it did not
}

// Server is a fake of a vendor's HTTP interface on loopback. It understands
// POST .../chat/completions, .../messages and .../converse-stream (and
// .../responses when offline or after SpeakResponses), refuses what the real ones
// refuse (which also fails the test, unless Lenient), and plays its answers in
// order. It is safe for concurrent use.
type Server struct {
	// URL is the base URL to give to a driver; for the Messages protocol too.
	URL string
	// Lenient only records violations. Set it before the first request.
	Lenient bool
	// Brand makes the Chat Completions part as narrow as that vendor's: it
	// refuses keys the vendor does not know. "" takes what any vendor takes.
	Brand string
	// Models are listed at .../models. Set them before the first request.
	Models []string

	t        testing.TB
	http     *httptest.Server
	mu       sync.Mutex
	answers  []Answer
	requests []Recorded
	times    []time.Time // of the requests, if offline
	conns    int
	gone     int  // clients that left before the answer ended
	paused   bool // the last answer wants to be continued
	changed  *sync.Cond
}

// NewServer starts a server; it ends with the test.
func NewServer(tb testing.TB, answers ...Answer) *Server {
	tb.Helper()
	s := &Server{t: tb, answers: answers}
	s.changed = sync.NewCond(&s.mu)
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}

	s.http.Start()
	s.URL = s.http.URL + "/v1"
	tb.Cleanup(s.http.Close)
	return s
}

// Add appends answers.
func (s *Server) Add(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

// Say appends replies.
func (s *Server) Say(replies ...StreamReply) {
	for _, r := range replies {
		s.Add(Answer{Reply: &r})
	}
}

// Requests returns what was received so far.
func (s *Server) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Connections counts the TCP connections made so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// AwaitGone waits until n clients have left before the end of their answer.
func (s *Server) AwaitGone(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.gone < n {
		s.changed.Wait()
	}
}

// CloseConnections drops idle connections, as a restarted server would.
func (s *Server) CloseConnections() { s.http.CloseClientConnections() }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models") {
		s.list(w, r)
		return
	}

	body, _ := io.ReadAll(r.Body)
	rec := Recorded{Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	chat := strings.HasSuffix(r.URL.Path, "/chat/completions")
	var err error
	switch {
	case r.Method != http.MethodPost:
		err = fmt.Errorf("method %s", r.Method)
	case chat:
		err = checkChat(r.Header, body, brandRules(s.Brand))
	case strings.HasSuffix(r.URL.Path, "/messages"):
		err = checkMessages(r.Header, body, s.wasPaused())
	case isConverse(r.URL.Path):
		err = checkConverse(r.Header, body)
	default:
		err = fmt.Errorf("unknown path %s", r.URL.Path)
	}

	if err != nil {
		rec.Error = err.Error()
	}

	s.mu.Lock()
	s.requests = append(s.requests, rec)
	n := len(s.requests)
	var a Answer
	found := len(s.answers) > 0
	if found && err == nil {
		a, s.answers = s.answers[0], s.answers[1:]
		s.paused = strings.Contains(a.Body, `"pause_turn"`)
	}

	s.mu.Unlock()

	switch {
	case err != nil:
		if !s.Lenient {
			s.t.Errorf("request %d to %s: the API would refuse it: %v\n%s", n, r.URL.Path, err, body)
		}
		a = Answer{Status: http.StatusBadRequest, Body: fmt.Sprintf(`{"error":{"type":"invalid_request_error","message":%q}}`, err)}
	case !found:
		s.t.Errorf("request %d: the server has no more answers", n)
		a = Answer{Status: http.StatusTeapot, Body: `{"error":{"message":"no more answers"}}`}
	}

	if !s.play(w, r, a, chat) {
		s.mu.Lock()
		s.gone++
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// list answers a question for the models; it is not a request to a model.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if len(s.Models) == 0 {
		http.NotFound(w, r)
		return
	}

	type model struct {
		ID string `json:"id"`
	}
	var all struct {
		Data []model `json:"data"`
	}
	for _, id := range s.Models {
		all.Data = append(all.Data, model{id})
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // the client may have left
}

func (s *Server) wasPaused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}

// play writes an answer; false means that the client left first.
func (s *Server) play(w http.ResponseWriter, r *http.Request, a Answer, chat bool) bool {
	if a.Gate != nil {
		select {
		case <-a.Gate:
		case <-r.Context().Done():
			return false
		}
	}

	if a.Handler != nil {
		a.Handler(w, r)
		return r.Context().Err() == nil
	}

	if a.Reply != nil {
		a = a.Reply.render(a, chat)
	}

	if a.ContentType == "" {
		a.ContentType = "application/json"
		if a.Events != nil {
			a.ContentType = "text/event-stream"
		}
	}

	maps.Copy(w.Header(), a.Header)
	w.Header().Set("Content-Type", a.ContentType)
	w.WriteHeader(max(a.Status, http.StatusOK))
	flush := http.NewResponseController(w)
	for _, ev := range a.Events {
		if _, err := fmt.Fprintf(w, "data: %s\n\n", ev); err != nil {
			return false
		}
		if err := flush.Flush(); err != nil {
			return false
		}
	}

	if _, err := io.Copy(w, bytes.NewReader([]byte(a.Body))); err != nil {
		return false
	}
	if err := flush.Flush(); err != nil {
		return false
	}

	if a.Hold != nil {
		select {
		case <-a.Hold:
		case <-r.Context().Done():
			return false
		}
	}

	if a.Abort {
		panic(http.ErrAbortHandler)
	}
	return true
}
