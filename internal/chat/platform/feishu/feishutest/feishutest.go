// Package feishutest is a Feishu open platform for tests, on loopback: tokens,
// the long connection with its frames, events by HTTP, messages, cards,
// reactions, files and the registration of apps. It is strict where Feishu is:
// who calls, which chats, messages and cards there are, what a content may be
// and how large, the order of updates of a card, and that an event comes again
// until it is acknowledged. Failures are scripted with Fail; what was sent is
// kept. All methods are safe for concurrent use.
package feishutest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The credentials that the server knows.
const (
	AppID             = "cli_a1b2c3d4e5f60001"
	AppSecret         = "fake-app-secret-0123456789"  //nolint:gosec // of a server that exists in tests only
	EncryptKey        = "fake-encrypt-key-0123456789" //nolint:gosec // of a server that exists in tests only
	VerificationToken = "fake-verification-token"     //nolint:gosec // of a server that exists in tests only
)

// Who is who.
const (
	BotID   = "ou_bot"
	BotName = "nb_bot"
	AnnID   = "ou_ann"
	GroupID = "oc_town"
	// ThreadRoot is a message in the group that began a topic.
	ThreadRoot = "om_root"
)

// Scopes are what the app may do unless SetScopes says otherwise.
const Scopes = "im:message,im:message:send_as_bot,im:message.p2p_msg:readonly,im:message.group_at_msg:readonly,im:resource,cardkit:card:write,im:message.reactions:write_only"

// Call is one request, as it arrived.
type Call struct {
	Name  string // method and pattern of the path
	Path  string
	Query string
	Body  string
	Code  int // of the answer, 0 if it was done
}

// Message is one that a person or the bot sent.
type Message struct {
	ID, Chat, Sender, Type, Content string

	Parent, Root, Thread string
	Upper                string // of a part of a forwarded conversation
	Mentions             []Mention
	SenderType           string    // user, if empty
	UserID, Tenant       string    // of the sender: the id that administrators choose, and the organisation
	At                   time.Time // now, if zero
	EventID              string    // of its event; made if empty

	Plain     string // as people see it
	Buttons   []string
	File      string // name of an uploaded file that it shows
	Card      string // id of its card
	Streaming bool   // its card shows that more comes
	Edits     []string
	Deleted   bool
	uuid      string
}

// Mention is a person who is named in a message.
type Mention struct{ Key, ID, Name string }

// Failure makes requests fail.
type Failure struct {
	Name  string // as in Call; "" is every request that creates a message
	Times int    // 0 is once, negative for ever
	// Code and Msg are the refusal; Status is the HTTP status, 400 if 0. With
	// neither the connection is cut.
	Code   int
	Msg    string
	Status int
	// After fails only after the request was done.
	After bool
	// Garbage answers with HTML, as a proxy would.
	Garbage bool
}

// File is an uploaded or a stored file.
type File struct {
	Key, Name, Kind string
	Data            []byte
}

// card is a card entity.
type card struct {
	data      string // the JSON it was made of
	text      string
	sequence  int
	streaming bool
	began     time.Time // the streaming mode
	message   string
	uuids     map[string]bool
	edits     []string
}

// event is what waits to be acknowledged.
type event struct {
	id, message string
	payload     []byte
	acked       bool
	sent        map[*conn]bool
	press       bool   // it comes once: Feishu waits three seconds for the answer
	answer      []byte // to a press
}

// Server is the fake.
type Server struct {
	http *httptest.Server

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when there is news
	appID     string
	scopes    []string
	tokens    map[string]bool
	calls     []Call
	failures  []*Failure
	messages  []*Message
	cards     map[string]*card
	files     map[string]*File
	reactions map[string]map[string]string // message -> reaction id -> emoji
	uuids     map[string]string
	gone      map[string]bool // chats that we are not in
	conns     map[*conn]bool
	events    []*event
	tickets   int
	serial    int
	split     int // frames of one event
	deaf      bool
	frozen    bool // the connection says nothing more
	pings     int
	bad       []string // what a client did wrong on the connection
	hook      string
	sealed    bool          // events by HTTP are encrypted and signed
	last      chan struct{} // closed when the last event was posted
	register  registration
	skew      time.Duration
	work      sync.WaitGroup
	closed    bool
	tables    int

	idle   int           // edits that changed nothing
	ahead  time.Duration // how much time passed for the cards
	silent bool          // late texts for cards are dropped
}

// Idle counts the edits that left a text as it was and did not end it.
func (s *Server) Idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle
}

// New starts a server that knows one app, the person ou_ann and the group
// oc_town with a topic. Close ends it.
func New() *Server { return NewApp(AppID) }

// NewApp is New for an app with another id.
func NewApp(id string) *Server {
	s := &Server{
		changed:   make(chan struct{}),
		appID:     id,
		scopes:    strings.Split(Scopes, ","),
		tokens:    map[string]bool{},
		cards:     map[string]*card{},
		files:     map[string]*File{},
		reactions: map[string]map[string]string{},
		uuids:     map[string]string{},
		gone:      map[string]bool{},
		conns:     map[*conn]bool{},
		split:     1,
		tables:    3,
	}

	s.messages = []*Message{{
		ID: ThreadRoot, Chat: GroupID, Sender: AnnID, Type: "text", Content: `{"text":"a topic"}`, Plain: "a topic", Thread: threadID(ThreadRoot), Root: ThreadRoot, At: time.Now(),
	}}
	s.http = httptest.NewServer(s.routes())
	return s
}

// threadID is the id of the topic that a message began.
func threadID(root string) string { return "omt_" + strings.TrimPrefix(root, "om_") }

// URL is the address of the server, for apiBaseUrl and accountsBaseUrl.
func (s *Server) URL() string { return s.http.URL }

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

func (s *Server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.news()
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
		f.Times = cmp.Or(f.Times, 1)
		s.failures = append(s.failures, &f)
	}
}

// failure is what shall happen to a request. The lock is held.
func (s *Server) failure(name string) *Failure {
	for i, f := range s.failures {
		if f.Name != name && (f.Name != "" || name != createCall && name != replyCall) {
			continue
		}

		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.failures = slices.Delete(s.failures, i, i+1)
			}
		}
		return f
	}
	return nil
}

// Calls are the requests of a name, "" for all.
func (s *Server) Calls(name string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if name == "" || c.Name == name {
			out = append(out, c)
		}
	}
	return out
}

// SetScopes says what the app may do.
func (s *Server) SetScopes(list string) { s.locked(func() { s.scopes = strings.Split(list, ",") }) }

// SetTables says how many tables a card may have.
func (s *Server) SetTables(n int) { s.locked(func() { s.tables = n }) }

// Advance lets time pass for the cards.
func (s *Server) Advance(d time.Duration) { s.locked(func() { s.ahead += d }) }

// SetSilent says whether texts for a card whose streaming mode is over by time
// are dropped without a word. Both has been seen.
func (s *Server) SetSilent(on bool) { s.locked(func() { s.silent = on }) }

// now is the time of the cards. The lock is held.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// SetSkew says how far the server's clock is ahead.
func (s *Server) SetSkew(d time.Duration) { s.locked(func() { s.skew = d }) }

// Invalidate makes all tokens invalid, as when the secret is reset.
func (s *Server) Invalidate() { s.locked(func() { clear(s.tokens) }) }

// Leave takes the bot out of a chat.
func (s *Server) Leave(chat string) { s.locked(func() { s.gone[chat] = true }) }

// Delete recalls a message.
func (s *Server) Delete(id string) {
	s.locked(func() {
		if m := s.message(id); m != nil {
			m.Deleted = true
		}
	})
}

// CloseCard ends the streaming mode of a message's card, as Feishu does after
// ten minutes.
func (s *Server) CloseCard(message string) {
	s.locked(func() {
		if m := s.message(message); m != nil && s.cards[m.Card] != nil {
			s.cards[m.Card].streaming = false
		}
	})
}

// message finds one. The lock is held.
func (s *Server) message(id string) *Message {
	for _, m := range s.messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// Messages are what the bot sent to a chat, "" for all, as people see it now.
func (s *Server) Messages(chat string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()

	var out []Message
	for _, m := range s.messages {
		if m.Sender != BotID || m.Deleted || chat != "" && m.Chat != chat {
			continue
		}
		c := *m
		if e := s.cards[m.Card]; e != nil {
			c.Plain, c.Streaming, c.Edits = e.text, e.streaming, slices.Clone(e.edits)
		}
		out = append(out, c)
	}

	return out
}

// Reactions are the marks of the bot on a message.
func (s *Server) Reactions(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, emoji := range s.reactions[id] {
		out = append(out, emoji)
	}
	slices.Sort(out)
	return out
}

// Store keeps a file that messages can refer to, and returns its key.
func (s *Server) Store(name string, data []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(&File{Name: name, Data: data}, "file_v3_")
}

func (s *Server) store(f *File, prefix string) string {
	s.serial++
	f.Key = prefix + strconv.Itoa(s.serial)
	s.files[f.Key] = f
	return f.Key
}

// File is an uploaded or stored file.
func (s *Server) File(key string) (File, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[key]
	if f == nil {
		return File{}, false
	}
	return *f, true
}

// Text is the content of a text message.
func Text(text string) string { return object(map[string]any{"text": text}) }

func object(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Put makes a message that exists without an event.
func (s *Server) Put(m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.put(m)
}

func (s *Server) put(m Message) *Message {
	if m.ID == "" {
		s.serial++
		m.ID = fmt.Sprintf("om_x%d", s.serial)
	}
	if m.At.IsZero() {
		m.At = time.Now().Add(s.skew)
	}

	m.Type, m.Sender, m.SenderType = cmp.Or(m.Type, "text"), cmp.Or(m.Sender, AnnID), cmp.Or(m.SenderType, "user")
	if m.Chat == "" {
		m.Chat = "oc_p2p_" + m.Sender
	}

	if old := s.message(m.ID); old != nil {
		m.EventID = cmp.Or(m.EventID, old.EventID)
		*old = m
		return old
	}

	s.messages = append(s.messages, &m)
	return &m
}

// Say lets a person write; the event comes again until it is acknowledged. A
// message whose id is known is delivered again.
func (s *Server) Say(m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()

	made := s.put(m)
	if made.EventID == "" {
		s.serial++
		made.EventID = fmt.Sprintf("ev%d", s.serial)
	}

	kind := "group"
	if strings.HasPrefix(made.Chat, "oc_p2p_") {
		kind = "p2p"
	}

	var mentions []any
	for _, n := range made.Mentions {
		mentions = append(mentions, map[string]any{"key": n.Key, "id": map[string]any{"open_id": n.ID, "union_id": "on_" + n.ID, "user_id": nil}, "name": n.Name, "tenant_key": "t1"})
	}

	stamp := strconv.FormatInt(made.At.UnixMilli(), 10)
	message := map[string]any{
		"message_id": made.ID, "create_time": stamp, "update_time": stamp, "chat_id": made.Chat, "chat_type": kind,
		"message_type": made.Type, "content": made.Content,
	}
	for key, value := range map[string]string{"root_id": made.Root, "parent_id": made.Parent, "thread_id": made.Thread} {
		if value != "" {
			message[key] = value
		}
	}

	if mentions != nil {
		message["mentions"] = mentions
	}

	s.emit(made.EventID, made.ID, "im.message.receive_v1", stamp, map[string]any{
		"sender":  map[string]any{"sender_id": map[string]any{"open_id": made.Sender, "union_id": "on_" + made.Sender, "user_id": made.UserID}, "sender_type": made.SenderType, "tenant_key": cmp.Or(made.Tenant, "t1")},
		"message": message,
	})
	return *made
}

// Emit sends an event of any kind.
func (s *Server) Emit(kind string, body any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	id := fmt.Sprintf("ev%d", s.serial)
	s.emit(id, "", kind, strconv.FormatInt(time.Now().UnixMilli(), 10), body)
	return id
}

// emit queues an event. The lock is held.
func (s *Server) emit(id, message, kind, stamp string, body any) {
	payload := object(map[string]any{
		"schema": "2.0",
		"header": map[string]any{
			"event_id": id, "event_type": kind, "create_time": stamp, "token": VerificationToken, "app_id": s.appID, "tenant_key": "t1",
		},
		"event": body,
	})

	e := &event{id: id, message: message, payload: []byte(payload), sent: map[*conn]bool{}, press: kind == pressEvent}
	s.events = append(s.events, e)
	if s.hook != "" && !s.closed {
		before, done := s.last, make(chan struct{})
		s.last = done
		s.work.Go(func() { // in the order of the events
			defer close(done)
			if before != nil {
				<-before
			}
			s.post(e)
		})
	}

	s.news()
}

// Acked reports whether the event of a message was acknowledged.
func (s *Server) Acked(message string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(e *event) bool { return e.acked && (e.message == message || e.id == message) })
}

// Pending is how many events are not acknowledged.
func (s *Server) Pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if !e.acked {
			n++
		}
	}
	return n
}

// Wrong is what clients did that Feishu would not understand.
func (s *Server) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bad)
}
