// Package dingtalktest is a DingTalk for tests, on loopback: the stream with its
// tickets and confirmations, access tokens, session webhooks, the APIs for
// messages, files, reactions and AI cards, and the registration of apps by QR
// code. It is strict where DingTalk is: credentials and tokens, tickets that are
// used twice, frames that are not confirmed, the length and the keys of a message,
// people who are not known, webhooks that are over, HTML files, templates,
// variables, flow and rate of cards. The SDKs of DingTalk work with it; see
// test/channels/dingtalk. All methods are safe for concurrent use.
package dingtalktest

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

// The only app that the server knows.
const (
	ClientID     = "dingtest0001"
	ClientSecret = "secret-for-tests"
)

// Object is a JSON object.
type Object = map[string]any

// Call is a request, as it arrived.
type Call struct {
	Method string
	Path   string
	Body   Object
	Status int
}

// Message is one that the bot sent.
type Message struct {
	Chat  string // id of a person, or "group:" and the id of a conversation
	Way   string // webhook, api or card
	Key   string // msgKey or msgtype, or the id of a card
	Param Object
	At    []string // people who are mentioned
	File  string
	Data  []byte
}

// Text is what the message says.
func (m Message) Text() string {
	for _, k := range []string{"text", "content"} {
		if s, ok := m.Param[k].(string); ok {
			return s
		}
	}
	return ""
}

// Failure makes calls fail.
type Failure struct {
	Path    string // a part of it
	Times   int    // 0 is once
	Status  int    // 0 cuts the connection
	Code    string
	ErrCode int // with status 200, of the old API and of webhooks
	Text    string
	Garbage bool // answers with HTML, as a proxy would
}

type stored struct {
	name, kind string
	data       []byte
}

type webhook struct {
	chat    string
	expires time.Time
}

// pending is a message that was not confirmed yet.
type pending struct {
	id   string
	data []byte // the frame
	sent *conn  // on which it was sent; nil: on none
}

// Server is the fake.
type Server struct {
	http *httptest.Server

	mu        sync.Mutex
	changed   chan struct{} // closed when there is news; nil: none is awaited
	closed    bool
	client    string
	token     string
	tokens    int
	last      int
	tickets   map[string]bool
	conns     map[*conn]bool
	opened    int
	pending   []*pending
	acked     map[string]int // message -> code
	people    map[string]bool
	own       []Message
	uploads   map[string]stored
	files     map[string][]byte
	webhooks  map[string]webhook
	reactions map[string]bool
	calls     []Call
	failures  []*Failure
	denied    bool // the app may not send by the API
	slow      map[string]<-chan struct{}

	cards       []*Card
	noScope     string
	unpublished bool
	second      int64 // in which streams were counted
	streams     int

	nonce, device string // of a registration
	codes         int
	scans         []string
	unknown       bool

	idle int // edits that changed nothing
}

// Idle counts the edits that left a text as it was and did not end it.
func (s *Server) Idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle
}

// New starts a server. Close ends it.
func New() *Server {
	s := &Server{
		client: ClientID, tickets: map[string]bool{}, conns: map[*conn]bool{}, acked: map[string]int{},
		people: map[string]bool{}, uploads: map[string]stored{}, files: map[string][]byte{}, webhooks: map[string]webhook{},
		reactions: map[string]bool{}, slow: map[string]<-chan struct{}{},
	}
	s.http = httptest.NewServer(s.routes())
	return s
}

// URL is the apiBaseUrl and the oapiBaseUrl of the server.
func (s *Server) URL() string { return s.http.URL }

// Handler answers requests without a network.
func (s *Server) Handler() http.Handler { return s.http.Config.Handler }

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
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// awaited is closed when there is news. The lock is held.
func (s *Server) awaited() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// number is one that was not used before. The lock is held.
func (s *Server) number() string { s.last++; return strconv.Itoa(s.last) }

// SetClient makes the app another one, for two accounts in one test.
func (s *Server) SetClient(id string) { s.locked(func() { s.client = id }) }

// Deny takes the permission to send by the API away.
func (s *Server) Deny() { s.locked(func() { s.denied = true }) }

// Expire makes the token one that is not good any more.
func (s *Server) Expire() { s.locked(func() { s.token = "" }) }

// EndWebhooks makes all session webhooks end.
func (s *Server) EndWebhooks() { s.locked(func() { clear(s.webhooks) }) }

// Slow lets the file of a code wait for a channel to be closed.
func (s *Server) Slow(code string, until <-chan struct{}) { s.locked(func() { s.slow[code] = until }) }

// Fail scripts failures; they are used up in the order they came.
func (s *Server) Fail(list ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		f.Times = max(f.Times, 1)
		s.failures = append(s.failures, &f)
	}
}

// Write lets a person write: directly if the conversation is "", else in a group,
// where the bot is mentioned. The changes are laid over the message.
func (s *Server) Write(sender, conversation, words string, changes Object) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.people[sender] = true
	expires := time.Now().Add(90 * time.Minute)
	hook := "hook" + s.number()
	m := Object{
		"msgId": "msg" + s.number(), "msgtype": "text", "createAt": time.Now().UnixMilli(), "conversationId": "direct-" + sender, "conversationType": "1",
		"senderId": "$:LWCP_v1:$" + sender, "senderStaffId": sender, "senderNick": "User " + sender, "senderCorpId": "corp", "isAdmin": false,
		"chatbotUserId": "$:LWCP_v1:$bot", "chatbotCorpId": "corp", "robotCode": s.client, "sessionWebhook": s.http.URL + "/robot/sendBySession?session=" + hook,
		"sessionWebhookExpiredTime": expires.UnixMilli(), "text": Object{"content": words},
	}

	chat := sender
	if conversation != "" {
		chat = "group:" + conversation
		m["conversationId"], m["conversationType"], m["conversationTitle"], m["isInAtList"] = conversation, "2", "A group", true
		m["atUsers"] = []Object{{"dingtalkId": "$:LWCP_v1:$bot"}}
		m["text"] = Object{"content": " " + words + " "}
	}

	maps.Copy(m, changes)
	s.webhooks[hook] = webhook{chat, expires}
	id, _ = m["msgId"].(string)
	s.callback("/v1.0/im/bot/messages/get", id, encode(m))
	return id
}

// callback queues a frame until it is confirmed. The lock is held.
func (s *Server) callback(topic, id string, data []byte) {
	s.pending = append(s.pending, &pending{id: id, data: s.frame("CALLBACK", topic, "frame-"+s.number()+"-"+id, data)})
	s.news()
}

func (s *Server) frame(kind, topic, id string, data []byte) []byte {
	return encode(Object{
		"specVersion": "1.0", "type": kind, "data": string(data),
		"headers": Object{"appId": "app", "connectionId": "c", "contentType": "application/json", "messageId": id, "time": strconv.FormatInt(time.Now().UnixMilli(), 10), "topic": topic},
	})
}

// Event sends a frame of another topic.
func (s *Server) Event(topic string, data any) {
	s.locked(func() { s.callback(topic, topic, encode(data)) })
}

// Store makes a file that can be fetched by its code.
func (s *Server) Store(data []byte) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code = "code" + s.number()
	s.files[code] = data
	return code
}

// Acked is the code that a message was confirmed with, 0 if it was not.
func (s *Server) Acked(id string) (code int) { s.locked(func() { code = s.acked[id] }); return code }

// Messages are those the bot sent.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.own)
}

// Reactions are those of the bot at a message.
func (s *Server) Reactions(id string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.reactions {
		if e, ok := strings.CutPrefix(k, id+"/"); ok {
			out = append(out, e)
		}
	}
	return out
}

// Calls are the requests whose path holds a word.
func (s *Server) Calls(word string) (out []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.Contains(c.Path, word) {
			out = append(out, c)
		}
	}
	return out
}

// Tokens is how many access tokens were given, Opened how many connections.
func (s *Server) Tokens() (n int) { s.locked(func() { n = s.tokens }); return n }

// Opened is how many connections were made.
func (s *Server) Opened() (n int) { s.locked(func() { n = s.opened }); return n }

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("dingtalktest: %v", err))
	}
	return data
}
