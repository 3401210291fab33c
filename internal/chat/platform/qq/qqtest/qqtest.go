// Package qqtest is a QQ for tests, on loopback: the place of access tokens, the
// gateway, the REST API of official bots and the place of files. It is strict
// where QQ is: tokens and their prefix, intents, the number of replies to a
// message and how long it takes them, numbers that come again, texts that are
// too long, addresses that are not registered, Markdown without permission,
// files of another chat. qq-botpy works with it; see test/channels/qq. All
// methods are safe for concurrent use.
package qqtest

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

// The only bot that the server knows.
const (
	AppID   = "102000001"
	Secret  = "secret-for-tests"
	BotID   = "9007199254740991"
	BotName = "nb_bot"
)

// repliesMost is how many replies a message takes.
const repliesMost = 5

// Object is a JSON object.
type Object = map[string]any

// Kind is what a chat is.
type Kind string

// The kinds of chats.
const (
	Direct      Kind = "users"
	Group       Kind = "groups"
	Guild       Kind = "channels"
	GuildDirect Kind = "dms"
)

// Call is a request of the REST API, as it arrived.
type Call struct {
	Method, Path string
	Body         Object
	Status, Code int
}

// Message is one that the bot sent.
type Message struct {
	ID      string
	Kind    Kind
	Chat    string // id of the chat in the API
	ReplyTo string
	Seq     int
	Body    Object
	File    string // name of the file, or "picture"
	Data    []byte // of the file
}

// Text is what the message says.
func (m Message) Text() string {
	if md, ok := m.Body["markdown"].(Object); ok {
		s, _ := md["content"].(string)
		return s
	}
	s, _ := m.Body["content"].(string)
	return s
}

// Failure makes calls of the REST API fail.
type Failure struct {
	Method, Path string // a part of the path; "" is any
	Times        int    // 0 is once
	Status       int    // 0 cuts the connection
	Code         int
	Text         string
	RetryAfter   int
	After        bool // only after the call was done: the bot does not learn of it
	Garbage      bool // answers with HTML, as a proxy would
}

// written is a message of a person.
type written struct {
	kind    Kind
	chat    string
	at      time.Time
	replies int
	seqs    map[int]bool
}

// stored is a file that was uploaded.
type stored struct {
	kind Kind
	chat string
	name string
	data []byte
}

// Server is the fake.
type Server struct {
	http *httptest.Server

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced when there is news
	closed     bool
	app        string
	token      string
	tokens     int
	life       int // seconds of a token
	intents    int // that the bot may have
	beat       time.Duration
	skew       time.Duration // how far the clock is ahead
	remaining  int
	last       int
	sessions   map[string]*session
	conns      map[*conn]bool
	identifies int
	resumes    int
	persons    map[string]*written // by the id of the message
	own        []Message
	uploads    map[string]stored
	files      map[string][]byte
	calls      []Call
	failures   []*Failure
	markdown   bool // the bot may send it
	proactive  bool // the bot may write first
	addresses  bool // the bot may send any
	longest    int  // characters
	taps       map[string]bool
	broken     []string // rules that the bot broke
	slow       map[string]<-chan struct{}
}

// New starts a server. Close ends it.
func New() *Server {
	s := &Server{
		changed: make(chan struct{}), app: AppID, life: 7200, intents: 1<<25 | 1<<12 | 1<<30 | 1<<26, beat: 45 * time.Second, remaining: 1000,
		sessions: map[string]*session{}, conns: map[*conn]bool{}, persons: map[string]*written{}, uploads: map[string]stored{}, files: map[string][]byte{},
		addresses: true, longest: 5000, taps: map[string]bool{}, slow: map[string]<-chan struct{}{},
	}
	s.http = httptest.NewServer(s.routes())
	return s
}

// URL is the apiBaseUrl and the tokenBaseUrl of the server.
func (s *Server) URL() string { return s.http.URL }

// Close ends all connections and the server.
func (s *Server) Close() {
	s.locked(func() { s.closed = true; s.news() })
	s.Cut()
	s.http.CloseClientConnections()
	s.http.Close()
}

func (s *Server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// news wakes all that waits. The lock is held.
func (s *Server) news() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// now is the server's time. The lock is held.
func (s *Server) now() time.Time { return time.Now().Add(s.skew) }

// number is one that was not used before. The lock is held.
func (s *Server) number() string { s.last++; return strconv.Itoa(s.last) }

// SetApp makes the bot another one, for two accounts in one test.
func (s *Server) SetApp(id string) { s.locked(func() { s.app = id }) }

// Allow sets the intents that the bot may have.
func (s *Server) Allow(intents int) { s.locked(func() { s.intents = intents }) }

// Permit sets whether the bot may send Markdown, write first, and send addresses
// that are not registered.
func (s *Server) Permit(markdown, proactive, addresses bool) {
	s.locked(func() { s.markdown, s.proactive, s.addresses = markdown, proactive, addresses })
}

// Longest sets how long a text may be.
func (s *Server) Longest(n int) { s.locked(func() { s.longest = n }) }

// Advance sets the server's clock ahead.
func (s *Server) Advance(d time.Duration) { s.locked(func() { s.skew += d }) }

// Expire makes the token one that is not good any more.
func (s *Server) Expire() { s.locked(func() { s.token = "" }) }

// Logins sets how many logins are left.
func (s *Server) Logins(n int) { s.locked(func() { s.remaining = n }) }

// Slow lets a stored file wait for a channel to be closed.
func (s *Server) Slow(file Object, until <-chan struct{}) {
	address, _ := file["url"].(string)
	s.locked(func() { s.slow[address[strings.LastIndexByte(address, '/')+1:]] = until })
}

// Fail scripts failures; they are used up in the order they came.
func (s *Server) Fail(list ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		f.Times = max(f.Times, 1)
		s.failures = append(s.failures, &f)
	}
}

// Write lets a person write in a chat: to a person's own chat, a group, a channel
// of a guild or a direct chat of a guild. The changes are laid over the message.
func (s *Server) Write(k Kind, sender, chat, text string, changes Object) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	m := Object{"id": "ROBOT1.0_" + s.number(), "content": text, "timestamp": s.now().Format(time.RFC3339), "attachments": []Object{}}
	event := ""
	switch k {
	case Direct:
		event = "C2C_MESSAGE_CREATE"
		m["author"] = Object{"id": sender, "user_openid": sender, "union_openid": "union-" + sender}
		m["message_scene"] = Object{"source": "default"}
	case Group:
		event = "GROUP_AT_MESSAGE_CREATE"
		m["author"] = Object{"id": sender, "member_openid": sender, "union_openid": "union-" + sender}
		m["group_id"], m["group_openid"], m["content"] = chat, chat, " "+text
	case Guild:
		event = "AT_MESSAGE_CREATE"
		m["author"] = Object{"id": sender, "username": "user " + sender, "bot": false, "avatar": ""}
		m["guild_id"], m["channel_id"], m["member"], m["seq"], m["content"] = "500", chat, Object{"roles": []string{"1"}, "joined_at": ""}, 1, "<@!"+BotID+"> "+text
		m["mentions"] = []Object{{"id": BotID, "username": BotName, "bot": true}}

	case GuildDirect:
		event = "DIRECT_MESSAGE_CREATE"
		m["author"] = Object{"id": sender, "username": "user " + sender, "bot": false, "avatar": ""}
		m["guild_id"], m["channel_id"], m["direct_message"], m["member"], m["seq"] = chat, "c"+chat, true, Object{"joined_at": ""}, 1
	}

	maps.Copy(m, changes)
	if other, ok := m["event"].(string); ok {
		event = other
		delete(m, "event")
	}

	id, _ = m["id"].(string)
	if s.persons[id] == nil {
		s.persons[id] = &written{kind: k, chat: chat, at: s.now(), seqs: map[int]bool{}}
	}

	s.dispatch(event, m)
	return id
}

// Store makes a file that can be fetched, and returns the attachment.
func (s *Server) Store(name string, data []byte) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := "file" + s.number()
	s.files[id] = data
	kind := http.DetectContentType(data)
	if !strings.HasPrefix(kind, "image/") {
		kind = "file"
	}
	return Object{"url": s.http.URL + "/download/" + id, "filename": name, "size": len(data), "content_type": kind}
}

// Tap lets a person press the button with a label below the last message that has
// it, and returns the interaction.
func (s *Server) Tap(k Kind, sender, chat, label string) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range slices.Backward(s.own) {
		if m.Kind != k || m.Chat != chat {
			continue
		}
		for _, b := range Buttons(m) {
			if b["label"] == label && b["type"] == 1.0 {
				return s.press(k, sender, chat, fmt.Sprint(b["data"])), true
			}
		}
	}

	return "", false
}

// Press lets a person press a button with this data.
func (s *Server) Press(k Kind, sender, chat, data string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.press(k, sender, chat, data)
}

func (s *Server) press(k Kind, sender, chat, data string) string {
	id := "interaction-" + s.number()
	d := Object{
		"id": id, "type": 11, "version": 1, "application_id": s.app, "timestamp": s.now().Format(time.RFC3339),
		"data": Object{"type": 11, "resolved": Object{"button_id": "0", "button_data": data}},
	}
	if k == Group {
		d["chat_type"], d["scene"], d["group_openid"], d["group_member_openid"] = 1, "group", chat, sender
	} else {
		d["chat_type"], d["scene"], d["user_openid"] = 2, "c2c", sender
	}

	s.taps[id] = false
	s.dispatch("INTERACTION_CREATE", d)
	return id
}

// Tapped reports whether the bot confirmed an interaction.
func (s *Server) Tapped(id string) (ok bool) { s.locked(func() { ok = s.taps[id] }); return ok }

// Buttons are those of a message, flat: label, type and data.
func Buttons(m Message) (out []Object) {
	keyboard, _ := m.Body["keyboard"].(Object)
	content, _ := keyboard["content"].(Object)
	rows, _ := content["rows"].([]any)
	for _, row := range rows {
		r, _ := row.(Object)
		list, _ := r["buttons"].([]any)
		for _, b := range list {
			button, _ := b.(Object)
			shown, _ := button["render_data"].(Object)
			action, _ := button["action"].(Object)
			out = append(out, Object{"label": shown["label"], "type": action["type"], "data": action["data"]})
		}
	}

	return out
}

// Event sends the bot something else.
func (s *Server) Event(kind string, d any) { s.locked(func() { s.dispatch(kind, d) }) }

// Messages are those the bot sent, but typing.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.own...)
}

// Calls are the requests of a method whose path holds a word.
func (s *Server) Calls(method, word string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if (method == "" || c.Method == method) && strings.Contains(c.Path, word) {
			out = append(out, c)
		}
	}
	return out
}

// Broken are the rules about replies that the bot broke.
func (s *Server) Broken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.broken...)
}

// Tokens is how many access tokens were given.
func (s *Server) Tokens() (n int) { s.locked(func() { n = s.tokens }); return n }

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("qqtest: %v", err))
	}
	return data
}
