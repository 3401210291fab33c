// Package slacktest is a Slack for tests, on loopback: the Web API, Socket
// Mode, the Events API by HTTP and the files. It is strict where Slack is: who
// calls (token, its kind and its scopes), signatures, lengths of texts and
// blocks, which channels, threads and messages there are, and that an event
// comes again until it is acknowledged. Failures are scripted with Fail; what
// was sent is kept. All methods are safe for concurrent use.
package slacktest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/line"
)

// The credentials that the server knows.
const (
	BotToken      = "xoxb-1-fake-bot-token"        //nolint:gosec // of a server that exists in tests only
	AppToken      = "xapp-1-fake-app-token"        //nolint:gosec // of a server that exists in tests only
	SigningSecret = "0123456789abcdef0123456789ab" //nolint:gosec // of a server that exists in tests only
)

// Who is who.
const (
	BotUser = "U0BOT"
	BotID   = "B0BOT"
	BotName = "nb_bot"
	Team    = "T0TEAM"
	App     = "A0APP"
)

// Scopes are what the bot token may do unless SetScopes says otherwise.
const Scopes = "chat:write,reactions:write,app_mentions:read,files:read,files:write," +
	"channels:history,groups:history,im:history,mpim:history,channels:read,groups:read,im:read,mpim:read,users:read,im:write,assistant:write,commands"

// Call is one call of a method, as it arrived.
type Call struct {
	Method string
	Params map[string]string // without the token
	Error  string            // of the answer, "" if it was done
}

// Message is one that a person or the bot wrote.
type Message struct {
	Channel, TS, Thread, User string

	Text   string // as it was sent
	Plain  string // as people see it: the blocks, else the text
	Blocks string // JSON
	Files  []File
	Edits  []string // as people saw it before
	Params map[string]string
	Made   time.Time
	Lost   bool // the bot did not learn of it
}

// File is an uploaded or a stored file.
type File struct {
	ID, Name string
	Data     []byte
}

// Failure makes calls fail.
type Failure struct {
	Method string // "" is every method but auth.test and apps.connections.open
	Times  int    // 0 is once, negative for ever
	// Error is the refusal. Without one, Status is the HTTP status; a Status of
	// 0 cuts the connection.
	Error  string
	Needed string // scope, with missing_scope
	Status int
	// RetryAfter are seconds, with status 429.
	RetryAfter int
	// After fails only after the call was done: the bot does not learn of it.
	After bool
	// Garbage answers with HTML, as a proxy would.
	Garbage bool
}

// Person is a member of the workspace.
type Person struct {
	ID, Handle, Name string
	Bot              bool
}

// Channel is a conversation.
type Channel struct {
	ID, Name string
	Kind     string // channel, group, im, mpim
	User     string // of an im
	Outside  bool   // the bot is not a member
	Archived bool
}

// Server is the fake.
type Server struct {
	line.Line

	http *httptest.Server

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when there is news
	scopes    []string
	team      string
	people    []Person
	channels  []Channel
	messages  []*Message
	files     map[string]*File
	calls     []Call
	failures  []*Failure
	reactions map[string][]string // channel/ts -> names
	statuses  map[string]string   // channel/thread -> assistant status
	clock     int64               // of the last ts, in microseconds
	serial    int                 // of ids
	deaf      bool                // tickets are refused
	tickets   map[string]bool
	conns     map[*conn]bool
	envelopes []*envelope // that are not acknowledged
	acked     []string
	hook      string // where events go by HTTP
	closed    bool
	work      sync.WaitGroup
}

// New starts a server with the people U0ANN (ann) and U0EVE (eve), and the
// channels C0GEN (general), G0SEC (secret) and C0OUT (outside), in which the
// bot is not. Close ends it.
func New() *Server {
	s := &Server{
		changed:   make(chan struct{}),
		scopes:    strings.Split(Scopes, ","),
		team:      Team,
		files:     map[string]*File{},
		reactions: map[string][]string{},
		statuses:  map[string]string{},
		tickets:   map[string]bool{},
		conns:     map[*conn]bool{},
		clock:     time.Now().UnixMicro(),
		people: []Person{
			{ID: BotUser, Handle: BotName, Name: "Bot", Bot: true},
			{ID: "U0ANN", Handle: "ann", Name: "Ann Lee"},
			{ID: "U0EVE", Handle: "eve", Name: "Eve"},
		},
		channels: []Channel{
			{ID: "C0GEN", Name: "general", Kind: "channel"},
			{ID: "G0SEC", Name: "secret", Kind: "group"},
			{ID: "C0OUT", Name: "outside", Kind: "channel", Outside: true},
		},
	}

	s.http = httptest.NewServer(s)
	return s
}

// URL is the apiBase of the server.
func (s *Server) URL() string { return s.http.URL + "/api/" }

// Close ends all connections and the server.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.news()
	s.mu.Unlock()
	s.Cut()
	s.http.CloseClientConnections()
	s.http.Close()
	s.work.Wait()
}

// news wakes all who wait. The lock is held.
func (s *Server) news() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed with the next thing that happens.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Fail scripts failures; they are used up in the order they came.
func (s *Server) Fail(list ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		if f.Times == 0 {
			f.Times = 1
		}
		s.failures = append(s.failures, &f)
	}
}

// failure is what shall happen to a call. The lock is held.
func (s *Server) failure(method string) *Failure {
	for i, f := range s.failures {
		if f.Method != method && (f.Method != "" || method == "auth.test" || method == "apps.connections.open") {
			continue
		}
		out := *f
		if f.Times--; f.Times == 0 {
			s.failures = slices.Delete(s.failures, i, i+1)
		}
		return &out
	}
	return nil
}

// SetScopes changes what the bot token may do.
func (s *Server) SetScopes(list string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes = strings.Split(list, ",")
}

// SetTeam makes it another workspace.
func (s *Server) SetTeam(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.team = id
}

// Join adds a person or a conversation.
func (s *Server) Join(p []Person, c ...Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people = append(s.people, p...)
	s.channels = append(s.channels, c...)
}

// Calls lists the calls of a method, of all with "".
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if method == "" || c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// Messages lists what the bot wrote in a conversation and did not delete, in
// all with "".
func (s *Server) Messages(channel string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages {
		if m.User == BotUser && (channel == "" || m.Channel == channel) {
			out = append(out, *m)
		}
	}
	return out
}

// Reactions are the names of those that the bot has put on a message.
func (s *Server) Reactions(channel, ts string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reactions[channel+"/"+ts])
}

// Status is the assistant's status in a thread.
func (s *Server) Status(channel, thread string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statuses[channel+"/"+thread]
}

// Store keeps a file and returns what an event tells of it.
func (s *Server) Store(name, mime string, data []byte) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.serial++
	f := &File{ID: fmt.Sprintf("F0IN%d", s.serial), Name: name, Data: data}
	s.files[f.ID] = f
	return map[string]any{
		"id": f.ID, "name": name, "mimetype": mime, "size": len(data), "mode": "hosted",
		"url_private":          s.http.URL + "/files-pri/" + f.ID,
		"url_private_download": s.http.URL + "/files-pri/" + f.ID + "/download",
	}
}

// nextTS is the time stamp of a new message. The lock is held.
func (s *Server) nextTS() string {
	s.clock = max(s.clock+100, time.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", s.clock/1e6, s.clock%1e6)
}

// DM is the conversation of a person with the bot.
func (s *Server) DM(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dm(user)
}

func (s *Server) dm(user string) string {
	for _, c := range s.channels {
		if c.Kind == "im" && c.User == user {
			return c.ID
		}
	}
	c := Channel{ID: "D" + user[1:], Kind: "im", User: user}
	s.channels = append(s.channels, c)
	return c.ID
}

// Say lets a person write to the bot alone and returns the message's ts.
func (s *Server) Say(user, text string) string {
	return s.Post(map[string]any{"user": user, "channel": s.DM(user), "text": text})
}

// Post lets a person write a message: user, channel, text, and what else the
// event has. What is missing is filled in. A mention of the bot in a channel
// comes as two events, as with Slack. It returns the message's ts.
func (s *Server) Post(event map[string]any) string {
	ts := s.Write(event)
	event["ts"] = ts
	for _, e := range s.eventsOf(event) {
		s.Event(e)
	}
	return ts
}

// Write is Post without an event: a person wrote while no bot listened.
func (s *Server) Write(event map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	m := &Message{User: str(event["user"]), Channel: str(event["channel"]), Text: str(event["text"]), Thread: str(event["thread_ts"]), TS: str(event["ts"])}
	if m.TS == "" {
		m.TS = s.nextTS()
	}

	m.Plain = m.Text
	s.messages = append(s.messages, m)
	slices.SortStableFunc(s.messages, func(a, b *Message) int { return cmp.Compare(a.TS, b.TS) })
	return m.TS
}

func (s *Server) eventsOf(event map[string]any) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()

	msg := map[string]any{"type": "message", "event_ts": event["ts"]}
	maps.Copy(msg, event)
	kind := "channel"
	if c := s.channel(str(event["channel"])); c != nil {
		kind = c.Kind
	}

	msg["channel_type"] = kind
	out := []map[string]any{msg}
	if strings.Contains(str(event["text"]), "<@"+BotUser+">") && kind != "im" {
		mention := maps.Clone(msg)
		mention["type"] = "app_mention"
		delete(mention, "channel_type")
		delete(mention, "subtype")
		out = append(out, mention)
	}

	return out
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// channel finds a conversation. The lock is held.
func (s *Server) channel(id string) *Channel {
	for i, c := range s.channels {
		if c.ID == id {
			return &s.channels[i]
		}
	}
	return nil
}

// message finds a message. The lock is held.
func (s *Server) message(channel, ts string) *Message {
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts {
			return m
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/"):
		s.method(w, r, strings.TrimPrefix(r.URL.Path, "/api/"))
	case strings.HasPrefix(r.URL.Path, "/files-pri/"):
		s.download(w, r)
	case strings.HasPrefix(r.URL.Path, "/upload/"):
		s.upload(w, r)
	case r.URL.Path == "/link":
		s.link(w, r)
	default:
		http.NotFound(w, r)
	}
}
