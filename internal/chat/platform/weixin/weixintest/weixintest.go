// Package weixintest is the iLink service of WeChat for tests, on loopback. It
// is strict where the service is: the headers of a request, its base_info, the
// bot token, whom a message is for, its context token and how many messages
// that allows, and that an uploaded file is what was announced. Failures are
// scripted with Fail, a login with Script; what was asked is kept. All methods
// are safe for concurrent use.
package weixintest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The account that the fake begins with.
const (
	Token = "bot-token-0@im.bot:secret" //nolint:gosec // of the fake
	BotID = "b07000000000@im.bot"
	Owner = "o9cq-owner@im.wechat" // who scanned the code
)

// MaxText is the longest text in characters.
const MaxText = 4000

// The answers of the service.
const (
	Restricted = -2  // the context token allows no more
	Invalid    = -3  // an argument is wrong
	Stale      = -14 // the bot token is not valid any more
)

// Call is one request, as it arrived.
type Call struct {
	Path string // without ilink/bot/
	Host string
	Body map[string]any
	Ret  int // the answer
}

// Message is one that the bot sent.
type Message struct {
	To, Text, ClientID, RunID, Context string
	ID                                 string
	Item                               map[string]any
	File                               *File

	Made time.Time
	Lost bool // the bot was not told, on purpose
}

// File is one that was sent.
type File struct {
	Kind, Name string
	Data       []byte
}

// Failure makes requests fail.
type Failure struct {
	Path  string // "" is sendmessage
	Times int    // 0 is once
	// Ret and Text are the refusal, Code the same in errcode. Status is an HTTP
	// status, with After as Retry-After; Body replaces the answer. Cut drops
	// the connection.
	Ret, Code  int
	Text, Body string
	Status     int
	After      int
	Cut        bool
	// Done fails only after the request was done.
	Done bool
}

// State is what a poll of a QR code says. The last one stays.
type State struct {
	Status string
	Host   string // of scaned_but_redirect
	Code   string // of need_verifycode: what the person must type
	User   string // of confirmed: who scanned; "" is Owner
	Base   string // of confirmed: where the account lives; "" is the fake
	Empty  bool   // of confirmed: nothing else is said
}

type event struct {
	id   string
	body json.RawMessage
}

type allowance struct {
	user string
	left int
}

// Server is the fake. Fields are set before the first request.
type Server struct {
	// Budget is how many messages a context token allows.
	Budget int
	// Free takes messages without a context token.
	Free bool
	// Hold is how long a poll waits.
	Hold time.Duration

	http *httptest.Server

	mu       sync.Mutex
	changed  chan struct{}
	tokens   map[string]bool
	events   []event
	raw      []json.RawMessage
	acked    int // events that a cursor confirmed
	contexts map[string]*allowance
	people   map[string]bool
	fresh    string // context token that getconfig answers
	calls    []Call
	messages []Message
	over     int
	failures []*Failure
	states   []State
	codes    int // QR codes made
	wrong    int // verify codes
	last     uint64
	files    map[string]*stored
	pending  map[string]*upload
	noParam  int // uploads whose answer lacks x-encrypted-param
	fetched  int
}

// New starts a server. Close ends it.
func New() *Server {
	s := &Server{
		Budget: 10, Hold: time.Second, changed: make(chan struct{}), tokens: map[string]bool{Token: true}, contexts: map[string]*allowance{},
		people: map[string]bool{}, last: 1<<63 + 41, files: map[string]*stored{}, pending: map[string]*upload{}, // ids are beyond int64
	}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Close ends the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL is the address of the service, CDN that of its files.
func (s *Server) URL() string { return s.http.URL }

// CDN is the address of the files.
func (s *Server) CDN() string { return s.http.URL + "/c2c" }

// Drop cuts all connections.
func (s *Server) Drop() { s.http.CloseClientConnections() }

// note changes something and wakes who waits. The caller holds no lock.
func (s *Server) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.wake()
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed at the next request or event.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Fail scripts a failure.
func (s *Server) Fail(f Failure) {
	if f.Path == "" {
		f.Path = "sendmessage"
	}
	f.Times = max(f.Times, 1)
	s.note(func() { s.failures = append(s.failures, &f) })
}

// Script says what the polls of QR codes answer, one after the other.
func (s *Server) Script(states ...State) { s.note(func() { s.states = states }) }

// Tokens are the bot tokens that are valid from now on.
func (s *Server) Tokens(list ...string) {
	s.note(func() {
		s.tokens = map[string]bool{}
		for _, t := range list {
			s.tokens[t] = true
		}
	})
}

// Refresh makes getconfig answer a new context token for a person, and returns
// it.
func (s *Server) Refresh(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = s.context(user)
	return s.fresh
}

// UseUp leaves nothing of the context tokens of a person.
func (s *Server) UseUp(user string) {
	s.note(func() {
		for _, a := range s.contexts {
			if a.user == user {
				a.left = 0
			}
		}
	})
}

// LoseParam makes the next uploads answer without x-encrypted-param.
func (s *Server) LoseParam(times int) { s.note(func() { s.noParam = times }) }

func (s *Server) nextID() string {
	s.last++
	return strconv.FormatUint(s.last, 10)
}

func (s *Server) context(user string) string {
	token := fmt.Sprintf("context-%d-%s", len(s.contexts)+1, user)
	s.contexts[token] = &allowance{user, s.Budget}
	s.people[user] = true
	return token
}

// Say is a person who writes; it returns the id of the message.
func (s *Server) Say(user, text string) string {
	return s.Post(map[string]any{"from_user_id": user, "item_list": []any{Text(text)}})
}

// Text is an item of a message.
func Text(s string) map[string]any {
	return map[string]any{"type": 1, "text_item": map[string]any{"text": s}}
}

// Post delivers a message. What it lacks is filled in.
func (s *Server) Post(m map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	m = maps.Clone(m)
	user, _ := m["from_user_id"].(string)
	for key, value := range map[string]any{
		"to_user_id": BotID, "message_type": 1, "message_state": 2, "create_time_ms": time.Now().UnixMilli(), "seq": len(s.events) + 1, "session_id": "session-" + user,
	} {
		if _, ok := m[key]; !ok {
			m[key] = value
		}
	}

	if _, ok := m["message_id"]; !ok {
		m["message_id"] = json.Number(s.nextID())
	}
	if _, ok := m["context_token"]; !ok {
		m["context_token"] = s.context(user)
	}

	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}

	id := fmt.Sprint(m["message_id"])
	s.events = append(s.events, event{id, body})
	s.wake()
	return id
}

// Raw makes a poll answer with these bytes.
func (s *Server) Raw(body []byte) {
	s.note(func() { s.raw = append(s.raw, slices.Clone(body)) })
}

// Acked reports whether a poll came that does not ask for a message any more.
func (s *Server) Acked(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events[:s.acked], func(e event) bool { return e.id == id })
}

// Messages are what the bot sent.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// MessagesAfter are the messages that follow the first n.
func (s *Server) MessagesAfter(n int) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages[n:])
}

// Calls are the requests of a path, of all with "".
func (s *Server) Calls(path string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Call) bool { return path != "" && c.Path != path })
}

// Over is how many messages were tried with a context token that allows none.
func (s *Server) Over() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Downloads is how many files were fetched.
func (s *Server) Downloads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetched
}

func (s *Server) failure(path string) *Failure {
	for i, f := range s.failures {
		if f.Path != path {
			continue
		}
		if f.Times--; f.Times <= 0 {
			s.failures = slices.Delete(s.failures, i, i+1)
		}
		return f
	}
	return nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutPrefix(r.URL.Path, "/c2c/"); ok {
		s.cdn(w, r, name)
		return
	}

	path, ok := strings.CutPrefix(r.URL.Path, "/ilink/bot/")
	if !ok {
		http.NotFound(w, r)
		return
	}

	body := map[string]any{}
	data, err := io.ReadAll(r.Body)
	if err == nil && r.Method == http.MethodPost {
		err = json.Unmarshal(data, &body)
	}

	if err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}

	s.mu.Lock()
	f := s.failure(path)
	s.mu.Unlock()

	if f != nil && !f.Done {
		s.fail(w, f)
		return
	}

	answer := s.handle(r, path, body)
	ret, _ := answer["ret"].(int)
	s.note(func() {
		s.calls = append(s.calls, Call{Path: path, Host: r.Host, Body: body, Ret: ret})
		for i := range s.messages {
			if f != nil && path == "sendmessage" && answer["message_id"] == json.Number(s.messages[i].ID) {
				s.messages[i].Lost = true
			}
		}
	})

	if f != nil {
		s.fail(w, f)
		return
	}
	if raw, ok := answer["raw"].(json.RawMessage); ok {
		_, _ = w.Write(raw) //nolint:gosec // what a test scripted
		return
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Server) fail(w http.ResponseWriter, f *Failure) {
	switch {
	case f.Cut:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.After > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.After))
		}
		http.Error(w, f.Text, f.Status)

	case f.Body != "":
		_, _ = io.WriteString(w, f.Body)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"ret": f.Ret, "errcode": f.Code, "errmsg": f.Text})
	}
}

func refusal(ret int, format string, args ...any) map[string]any {
	return map[string]any{"ret": ret, "errmsg": fmt.Sprintf(format, args...)}
}

// headers says what is wrong with those of a request.
func headers(r *http.Request, body map[string]any) string {
	version, err := strconv.Atoi(r.Header.Get("iLink-App-ClientVersion"))
	if r.Header.Get("iLink-App-Id") != "bot" || err != nil {
		return "iLink-App-Id or iLink-App-ClientVersion"
	}
	if r.Method == http.MethodGet {
		return ""
	}
	if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("AuthorizationType") != "ilink_bot_token" {
		return "Content-Type or AuthorizationType"
	}

	uin, err := base64.StdEncoding.DecodeString(r.Header.Get("X-WECHAT-UIN"))
	if _, bad := strconv.ParseUint(string(uin), 10, 32); err != nil || bad != nil {
		return "X-WECHAT-UIN"
	}
	if strings.HasSuffix(r.URL.Path, "/get_bot_qrcode") {
		return ""
	}

	base, _ := body["base_info"].(map[string]any)
	named, _ := base["channel_version"].(string)
	var major, minor, patch int
	if _, err := fmt.Sscanf(named, "%d.%d.%d", &major, &minor, &patch); err != nil || major<<16|minor<<8|patch != version {
		return "base_info.channel_version"
	}
	if agent, ok := base["bot_agent"].(string); ok && !regexp.MustCompile(`^([\w.-]{1,32}/[\w.+-]{1,32}( \([\x20-\x27\x2A-\x7E]{1,64}\))? ?)+$|^OpenClaw$`).MatchString(agent) {
		return "base_info.bot_agent"
	}
	return ""
}

func (s *Server) handle(r *http.Request, path string, body map[string]any) map[string]any {
	if wrong := headers(r, body); wrong != "" {
		return refusal(Invalid, "%s", wrong)
	}

	switch path {
	case "get_bot_qrcode":
		return s.makeCode(body)
	case "get_qrcode_status":
		return s.codeStatus(r)
	}

	s.mu.Lock()
	valid := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	s.mu.Unlock()
	if !valid {
		return map[string]any{"ret": Stale, "errcode": Stale, "errmsg": "session timeout"}
	}

	switch path {
	case "getupdates":
		return s.updates(r, body)
	case "sendmessage":
		return s.send(body)
	case "getuploadurl":
		return s.announce(body)
	case "getconfig":
		return s.config(body)
	case "sendtyping":
		if body["typing_ticket"] != "ticket-"+fmt.Sprint(body["ilink_user_id"]) || body["status"] != 1.0 && body["status"] != 2.0 {
			return refusal(Invalid, "typing_ticket or status")
		}
		return map[string]any{"ret": 0}

	case "msg/notifystart", "msg/notifystop":
		return map[string]any{"ret": 0}
	}

	return refusal(Invalid, "unknown method")
}

func (s *Server) config(body map[string]any) map[string]any {
	user, _ := body["ilink_user_id"].(string)
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.people[user] && user != Owner {
		return refusal(Invalid, "ilink_user_id")
	}

	out := map[string]any{"ret": 0, "typing_ticket": "ticket-" + user}
	if s.fresh != "" {
		out["context_token"], s.fresh = s.fresh, ""
	}
	return out
}

// updates waits for messages behind the cursor.
func (s *Server) updates(r *http.Request, body map[string]any) map[string]any {
	cursor, _ := body["get_updates_buf"].(string)
	at := 0
	if cursor != "" {
		var err error
		if at, err = strconv.Atoi(strings.TrimPrefix(cursor, "buf-")); err != nil || !strings.HasPrefix(cursor, "buf-") {
			return refusal(Invalid, "get_updates_buf")
		}
	}

	limit := time.NewTimer(s.Hold)
	defer limit.Stop()
	for {
		s.mu.Lock()
		at = min(at, len(s.events))
		s.acked = max(s.acked, at)
		changed, news := s.changed, s.events[at:]

		if len(s.raw) > 0 {
			raw := s.raw[0]
			s.raw = s.raw[1:]
			s.mu.Unlock()
			return map[string]any{"raw": raw}
		}

		s.mu.Unlock()
		if len(news) > 0 {
			list := make([]json.RawMessage, len(news))
			for i, e := range news {
				list[i] = e.body
			}
			return map[string]any{"ret": 0, "msgs": list, "get_updates_buf": "buf-" + strconv.Itoa(at+len(news)), "longpolling_timeout_ms": 35000}
		}

		select {
		case <-changed:
		case <-limit.C:
			return map[string]any{"ret": 0, "msgs": []any{}, "get_updates_buf": cursor}
		case <-r.Context().Done():
			return map[string]any{"ret": 0}
		}
	}
}

// send takes a message of the bot.
func (s *Server) send(body map[string]any) map[string]any {
	msg, _ := body["msg"].(map[string]any)
	word := func(key string) string { v, _ := msg[key].(string); return v }
	items, _ := msg["item_list"].([]any)
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case msg["message_type"] != 2.0 || msg["message_state"] != 2.0 || word("client_id") == "" || len(items) != 1:
		return refusal(Invalid, "message_type, message_state, client_id or item_list")
	case !s.people[word("to_user_id")]:
		return refusal(Invalid, "to_user_id")
	}

	item, _ := items[0].(map[string]any)
	m := Message{To: word("to_user_id"), ClientID: word("client_id"), RunID: word("run_id"), Context: word("context_token"), Item: item}
	if wrong := s.read(item, &m); wrong != "" {
		return refusal(Invalid, "%s", wrong)
	}

	a := s.contexts[m.Context]
	switch {
	case m.Context == "" && s.Free:
	case a == nil || a.user != m.To:
		return refusal(Restricted, "prepare failed")
	case a.left <= 0:
		s.over++
		return refusal(Restricted, "unknown error")
	default:
		a.left--
	}

	m.ID, m.Made = s.nextID(), time.Now()
	s.messages = append(s.messages, m)
	return map[string]any{"ret": 0, "message_id": json.Number(m.ID)}
}

// read fills in what an item says, or says what is wrong with it.
func (s *Server) read(item map[string]any, m *Message) string {
	inner := func(key string) map[string]any { v, _ := item[key].(map[string]any); return v }
	switch item["type"] {
	case 1.0:
		m.Text, _ = inner("text_item")["text"].(string)
		if m.Text == "" || utf8.RuneCountInString(m.Text) > MaxText {
			return "text_item.text"
		}
		return ""

	case 11.0, 12.0:
		return ""
	case 2.0:
		return s.attach(m, "image", inner("image_item"))
	case 4.0:
		return s.attach(m, "file", inner("file_item"))
	case 5.0:
		return s.attach(m, "video", inner("video_item"))
	}

	return "item.type"
}
