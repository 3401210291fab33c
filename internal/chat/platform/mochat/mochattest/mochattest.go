// Package mochattest is a Mochat for tests: the HTTP API of agents and the
// Socket.IO server in both encodings, on 127.0.0.1. It refuses what Mochat
// refuses; test/channels/mochat shows that the channel of Python nanobot, with
// the Socket.IO client that it uses, works with it.
package mochattest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The agent, its token, a person, and a group with a panel.
const (
	Token = "claw_t0ken-of-mochat" //nolint:gosec // of the fake
	Self  = "agent1"
	Ann   = "ann"
	Group = "group1"
	Panel = "panel1"
)

const (
	contentMost = 10_000 // characters
	eventsMost  = 1000   // of one answer
)

// Message is what a person writes.
type Message struct {
	ID      string // "": a new one
	From    string
	Name    string
	Text    string
	Content any // instead of Text
	Meta    map[string]any
	At      time.Time // zero: now
}

// Sent is a message of the agent.
type Sent struct {
	Chat    string
	Panel   bool
	Text    string
	ReplyTo string
	Group   string
}

// Call is a request.
type Call struct {
	Path string
	Body map[string]any
}

// Failure is how a request fails. Status is that of HTTP; with 200 the code in
// the answer says it.
type Failure struct {
	Status, Code int
	Message      string
	After        time.Duration
}

// Server is the fake.
type Server struct {
	web *httptest.Server

	mu       sync.Mutex
	self     string
	token    string
	plain    bool // JSON on the socket
	offline  bool // no socket
	deaf     bool // subscriptions are refused
	interval time.Duration
	timeout  time.Duration
	skew     time.Duration // of the clock
	sessions map[string]*session
	panels   map[string]*panel
	order    []string // of sessions
	live     map[*link]bool
	sent     []Sent
	calls    []Call
	fails    map[string][]Failure
	next     int
	changed  chan struct{}
	closed   bool
}

type session struct {
	id      string
	members []string
	events  []map[string]any // the first one has seq 1
}

type panel struct {
	id, group, name string
	kind            int
	messages        []map[string]any // oldest first
}

// New starts a fake with a session of Ann and a panel.
func New() *Server {
	s := &Server{
		self:     Self,
		token:    Token,
		interval: 25 * time.Second,
		timeout:  20 * time.Second,
		sessions: map[string]*session{},
		panels:   map[string]*panel{},
		live:     map[*link]bool{},
		fails:    map[string][]Failure{},
		changed:  make(chan struct{}),
	}

	s.AddSession(SessionOf(Ann), Ann)
	s.AddPanel(Panel, Group, "general", 0)
	mux := http.NewServeMux()
	mux.HandleFunc("/socket.io/", s.serveSocket)

	for path, handle := range map[string]func(*http.Request, map[string]any) (any, *Failure){
		"/api/claw/sessions/list":          s.listSessions,
		"/api/claw/sessions/watch":         s.watch,
		"/api/claw/sessions/send":          s.sendSession,
		"/api/claw/groups/get":             s.listPanels,
		"/api/claw/groups/panels/messages": s.panelMessages,
		"/api/claw/groups/panels/send":     s.sendPanel,
		"/api/claw/agents/selfRegister":    s.register,
		"/api/claw/agents/bind":            s.bind,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, path, handle) })
	}

	s.web = httptest.NewServer(mux)
	return s
}

// SessionOf is the id of the direct conversation with a person.
func SessionOf(person string) string { return "session_" + person }

// Close ends the fake.
func (s *Server) Close() {
	s.change(func() { s.closed = true })
	s.Cut()
	s.web.Close()
}

// URL is the address of the fake.
func (s *Server) URL() string { return s.web.URL }

func (s *Server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Become is another agent.
func (s *Server) Become(self, token string) { s.change(func() { s.self, s.token = self, token }) }

// Plain makes the socket speak JSON instead of msgpack.
func (s *Server) Plain(plain bool) { s.change(func() { s.plain = plain }) }

// Offline takes the socket away.
func (s *Server) Offline(off bool) { s.change(func() { s.offline = off }) }

// Deaf refuses subscriptions.
func (s *Server) Deaf(deaf bool) { s.change(func() { s.deaf = deaf }) }

// Beat is how often the socket pings, and what it promises about it.
func (s *Server) Beat(interval, timeout time.Duration) {
	s.change(func() { s.interval, s.timeout = interval, timeout })
}

// Skew puts the clock of the server ahead.
func (s *Server) Skew(d time.Duration) { s.change(func() { s.skew = d }) }

// Fail lets the next request of a path fail.
func (s *Server) Fail(path string, f Failure) {
	s.change(func() { s.fails[path] = append(s.fails[path], f) })
}

// AddSession makes a conversation with people.
func (s *Server) AddSession(id string, people ...string) {
	s.change(func() {
		if s.sessions[id] == nil {
			s.sessions[id] = &session{id: id, members: people}
			s.order = append(s.order, id)
		}
	})
}

// AddPanel makes a panel of a group.
func (s *Server) AddPanel(id, group, name string, kind int) {
	s.change(func() { s.panels[id] = &panel{id: id, group: group, name: name, kind: kind} })
}

func (s *Server) message(m *Message) map[string]any {
	s.next++
	if m.ID == "" {
		m.ID = "m" + strconv.Itoa(s.next)
	}
	if m.At.IsZero() {
		m.At = time.Now().Add(s.skew)
	}

	var content any = m.Text
	if m.Content != nil {
		content = m.Content
	}

	name := m.Name
	if name == "" {
		name = "name of " + m.From
	}

	meta := m.Meta
	if meta == nil {
		meta = map[string]any{}
	}
	return map[string]any{
		"messageId": m.ID, "author": m.From, "authorInfo": map[string]any{"userId": m.From, "agentId": nil, "nickname": name, "email": m.From + "@mochat.example"},
		"content": content, "meta": meta,
	}
}

func iso(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// Say lets a person write in a session. Those who have no subscription of it
// find an entry in the inbox.
func (s *Server) Say(id string, m Message) string {
	s.change(func() {
		t := s.sessions[id]
		payload := s.message(&m)
		payload["converseId"] = "c_" + id
		e := map[string]any{"seq": len(t.events) + 1, "sessionId": id, "type": "message.add", "timestamp": iso(m.At), "payload": payload}
		t.events = append(t.events, e)

		for l := range s.live {
			if l.sessions[id] {
				l.emit("claw.session.events", batch(t, len(t.events)-1))
				continue
			}
			l.emit("notify:chat.inbox.append", map[string]any{
				"type": "message", "_id": "i" + m.ID, "createdAt": iso(m.At),
				"payload": map[string]any{"converseId": "c_" + id, "messageId": m.ID, "messageAuthor": m.From, "messagePlainContent": m.Text, "messageSnippet": m.Text},
			})
		}
	})
	return m.ID
}

// batch is what a session has after a cursor.
func batch(t *session, cursor int) map[string]any {
	events := []any{}
	for _, e := range t.events[min(cursor, len(t.events)):] {
		events = append(events, e)
	}
	return map[string]any{"sessionId": t.id, "cursor": len(t.events), "events": events}
}

// Post lets a person write in a panel. Who has a subscription of it is told twice,
// as members are and as those who watch it.
func (s *Server) Post(id string, m Message) string {
	s.change(func() {
		p := s.panels[id]
		payload := s.message(&m)
		kept := map[string]any{"createdAt": iso(m.At)}
		maps.Copy(kept, payload)
		p.messages = append(p.messages, kept)
		payload["groupId"], payload["converseId"] = p.group, id
		note := map[string]any{"_id": m.ID, "createdAt": iso(m.At)}
		for k, v := range payload {
			if k != "messageId" {
				note[k] = v
			}
		}

		for l := range s.live {
			if l.panels[id] {
				l.emit("claw.panel.events", map[string]any{"sessionId": id, "events": []any{
					map[string]any{"type": "message.add", "timestamp": iso(m.At), "payload": payload},
				}})
			}
			l.emit("notify:chat.message.add", note)
		}
	})
	return m.ID
}

// Emit sends any event on all connections.
func (s *Server) Emit(name string, body any) {
	s.change(func() {
		for l := range s.live {
			l.emit(name, body)
		}
	})
}

// Raw sends a frame as it is on all connections.
func (s *Server) Raw(binary bool, data []byte) {
	s.change(func() {
		for l := range s.live {
			l.out = append(l.out, raw{binary, data})
		}
	})
}

// Cut ends all connections.
func (s *Server) Cut() {
	s.change(func() {
		for l := range s.live {
			l.cut = true
		}
	})
}

// Subscribed counts the connections that have a subscription of a chat.
func (s *Server) Subscribed(id string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		if !l.cut && (l.sessions[id] || l.panels[id]) {
			n++
		}
	}
	return n
}

// Connected counts the connections that are logged in.
func (s *Server) Connected() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		if !l.cut {
			n++
		}
	}
	return n
}

// Sent are the messages of the agent.
func (s *Server) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// Calls are the requests whose path ends so.
func (s *Server) Calls(end string) (out []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.HasSuffix(c.Path, end) {
			out = append(out, c)
		}
	}
	return out
}

// answer serves one request of the API.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, path string, handle func(*http.Request, map[string]any) (any, *Failure)) {
	var body map[string]any
	var bad *Failure
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(&body)
	s.mu.Lock()
	s.calls = append(s.calls, Call{path, body})
	w.Header().Set("Date", time.Now().Add(s.skew).UTC().Format(http.TimeFormat))

	switch list := s.fails[path]; {
	case len(list) > 0:
		bad, s.fails[path] = &list[0], list[1:]
	case r.Header.Get("Content-Type") != "application/json" || err != nil || body == nil:
		bad = &Failure{Status: http.StatusBadRequest, Message: "the body is not JSON"}
	case path != "/api/claw/agents/selfRegister" && r.Header.Get("X-Claw-Token") != s.token:
		bad = &Failure{Status: http.StatusUnauthorized, Message: "invalid claw token"}
	}

	s.mu.Unlock()
	var data any
	if bad == nil {
		data, bad = handle(r, body)
	}

	w.Header().Set("Content-Type", "application/json")
	if bad == nil {
		_ = json.NewEncoder(w).Encode(map[string]any{"code": 200, "data": data})
		return
	}

	if bad.After > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(bad.After/time.Second)))
	}

	code := bad.Code
	if code == 0 {
		code = bad.Status
	}

	w.WriteHeader(bad.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "message": bad.Message})
}

func refuse(code int, format string, args ...any) *Failure {
	return &Failure{Status: http.StatusOK, Code: code, Message: fmt.Sprintf(format, args...)}
}
