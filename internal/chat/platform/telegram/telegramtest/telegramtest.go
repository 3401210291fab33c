// Package telegramtest is a Bot API server for tests, on loopback. It is
// strict where Telegram is: who calls (token), how (JSON, form or multipart),
// how long a text is (4096 UTF-16 units without markup), which HTML it
// understands, and that updates come again until an offset acknowledges them.
// Failures are scripted with Fail; what was sent is kept and duplicates are
// counted. test/channels/telegram shows that python-telegram-bot works with it.
// All methods are safe for concurrent use.
package telegramtest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/line"
)

// Token is the only one the server knows, unless SetBot was called.
const Token = "999" + tokenRest

const tokenRest = ":fake-token_for-tests-0123456789"

// BotID and BotName are who the bot is, unless SetBot was called.
const (
	BotID   = 999
	BotName = "nb_bot"
)

// Call is one call of a method, as it arrived.
type Call struct {
	Method string
	Params map[string]string // strings as they are, everything else as JSON
	File   *File             // that came along
	Code   int               // of the answer, 200 if it was done
	At     time.Time

	lost bool // its answer will not arrive
}

// File is an uploaded or a stored file.
type File struct {
	Field, Name string
	Data        []byte
}

// Message is one that the bot sent.
type Message struct {
	ID     int64
	ChatID int64
	Thread int64
	Text   string // as it was sent
	Plain  string // as people see it
	HTML   bool
	Method string // of the first sending
	Params map[string]string
	File   *File
	Edits  []string // texts as they were edited to
	Made   time.Time
	Lost   bool // the bot did not learn of it

	fileID  string
	answers int64 // the message that it answers
}

// Failure makes calls fail.
type Failure struct {
	Method string // "" is every method but getMe
	// Times is how often; 0 is once.
	Times int
	// Code and Text are the refusal. A Code of 0 cuts the connection.
	Code       int
	Text       string
	RetryAfter int
	MigrateTo  int64
	// After fails only after the call was done: the bot does not learn of it.
	After bool
	// Garbage answers with HTML, as a proxy would.
	Garbage bool
	// Chance fails that share of the calls for as long as Times allows, with a
	// negative Times for ever. 0 is every call.
	Chance float64
}

// Server is the fake.
type Server struct {
	line.Line

	http *httptest.Server
	id   int64  // of the bot
	name string // of the bot

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when there is news
	updates   []update
	lastID    int64 // of updates
	lastMsg   map[int64]int64
	lastTap   int64
	allowed   []string
	webhook   string
	secret    string
	polling   int // generation of the running getUpdates
	polls     int
	calls     []Call
	messages  []*Message
	failures  []*Failure
	files     map[string]File
	reactions map[string]string // chat/message -> emoji
	commands  []string
	moved     map[int64]int64
	random    func() float64
	closed    bool
}

type update struct {
	id   int64
	body map[string]any
}

// New starts a server. Close ends it.
func New() *Server {
	s := Offline()
	s.http = httptest.NewServer(s)
	return s
}

// Offline makes a server without a listener, for tests with a clock of their
// own: it is reached through Transport only.
func Offline() *Server {
	return &Server{
		changed: make(chan struct{}), lastMsg: map[int64]int64{}, files: map[string]File{}, reactions: map[string]string{}, moved: map[int64]int64{},
		lastID: 1000, random: func() float64 { return 0 }, id: BotID, name: BotName,
	}
}

// SetBot makes it the server of another bot, before it is used.
func (s *Server) SetBot(id int64, name string) { s.id, s.name = id, name }

// Token is what the bot proves itself with.
func (s *Server) Token() string { return strconv.FormatInt(s.id, 10) + tokenRest }

// URL is the apiBase of the server.
func (s *Server) URL() string {
	if s.http == nil {
		return "http://telegram.test"
	}
	return s.http.URL
}

// Transport reaches the server without a network. Calls run in the goroutine
// of the caller.
func (s *Server) Transport() http.RoundTripper { return direct{s} }

type direct struct{ *Server }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // the value net/http compares with
				panic(p)
			}
			res, err = nil, io.ErrUnexpectedEOF
		}
	}()
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}

	rec := httptest.NewRecorder()
	d.ServeHTTP(rec, r)
	_ = r.Body.Close()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

// Close ends all connections and the server.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.news()
	s.mu.Unlock()
	if s.http != nil {
		s.http.CloseClientConnections()
		s.http.Close()
	}
}

// CutAll cuts every connection that is open now.
func (s *Server) CutAll() { s.http.CloseClientConnections() }

// Random sets where Failure.Chance takes its luck from.
func (s *Server) Random(f func() float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.random = f
}

// news wakes all who wait. The lock is held.
func (s *Server) news() {
	close(s.changed)
	s.changed = make(chan struct{})
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

// Mend forgets all scripted failures.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = nil
}

// failure is what shall happen to a call. The lock is held.
func (s *Server) failure(method string) *Failure {
	for i, f := range s.failures {
		if f.Method != method && (f.Method != "" || method == "getMe") {
			continue
		}
		if f.Chance > 0 && s.random() >= f.Chance {
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

// Messages lists what the bot sent to a chat and did not delete, to all with 0.
func (s *Server) Messages(chat int64) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages {
		if chat == 0 || m.ChatID == chat {
			out = append(out, *m)
		}
	}
	return out
}

// Duplicates counts the messages to one chat whose text was sent before to it.
func (s *Server) Duplicates() int {
	s.mu.Lock()
	defer s.mu.Unlock()

	n := 0
	seen := map[string]bool{}
	for _, m := range s.messages {
		key := m.key()
		if seen[key] {
			n++
		}
		seen[key] = true
	}

	return n
}

func (m *Message) key() string {
	id, _ := json.Marshal([]any{m.ChatID, m.Thread, m.Plain, m.File != nil && len(m.File.Data) > 0})
	return string(id)
}

// Reaction is the emoji the bot has put on a message, "" if none.
func (s *Server) Reaction(chat, message int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reactions[pair(chat, message)]
}

// Commands is the menu, "name - description" each.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

// Webhook is the address that was set, "" if none.
func (s *Server) Webhook() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.webhook
}

// SetWebhook does what another program with the same token would.
func (s *Server) SetWebhook(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = address
	s.news()
}

// Pending counts the updates that no offset has acknowledged.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates)
}

// Changed is closed with the next thing that happens. Ask for it before
// looking at the state, to miss nothing.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Move makes a group another one: sending to the old number is refused with
// the new one.
func (s *Server) Move(from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved[from] = to
}

// Store keeps a file for getFile and returns its id.
func (s *Server) Store(path string, data []byte) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = "id-" + strings.ReplaceAll(path, "/", "-")
	s.files[id] = File{Name: path, Data: data}
	return id
}

// Update queues an update made of JSON without its number, and returns the
// number. Like Telegram it drops kinds the bot did not ask for.
func (s *Server) Update(body map[string]any) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(body)
}

func (s *Server) add(body map[string]any) int64 {
	s.lastID++
	for kind := range body {
		if s.allowed != nil && !slices.Contains(s.allowed, kind) {
			return s.lastID
		}
	}

	body = maps.Clone(body)
	body["update_id"] = s.lastID
	s.updates = append(s.updates, update{s.lastID, body})
	s.news()
	return s.lastID
}

// Say lets a person with the number of the chat write into their private chat,
// and returns the number of the message.
func (s *Server) Say(chat int64, text string) int64 {
	return s.Post(map[string]any{"text": text, "chat": map[string]any{"id": chat, "type": "private", "first_name": "Ann"}})
}

// Post queues a message. What is missing is filled in: its number, the date,
// and a sender who has the number of the chat, or 42 in a group.
func (s *Server) Post(m map[string]any) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	m = maps.Clone(m)
	chat := number(m["chat"], "id")
	if _, ok := m["message_id"]; !ok {
		m["message_id"] = s.nextMessage(chat)
	}
	if _, ok := m["date"]; !ok {
		m["date"] = 1_700_000_000
	}

	if _, ok := m["from"]; !ok {
		from := chat
		if chat < 0 {
			from = 42
		}
		m["from"] = map[string]any{"id": from, "is_bot": false, "first_name": "Ann", "username": "ann"}
	}

	s.add(map[string]any{"message": m})
	return number(m, "message_id")
}

// Tap lets a person, who has the number of the chat, tap the button with a label
// below the last message of the bot that has it.
func (s *Server) Tap(chat int64, label string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range slices.Backward(s.messages) {
		for _, b := range buttonsOf(m.Params["reply_markup"]) {
			if m.ChatID == chat && b.Text == label {
				s.lastTap++
				s.add(map[string]any{"callback_query": map[string]any{
					"id": "tap" + strconv.FormatInt(s.lastTap, 10), "chat_instance": "1", "data": b.Data, "message": s.shown(m),
					"from": map[string]any{"id": chat, "is_bot": false, "first_name": "Ann", "username": "ann"},
				}})
				return
			}
		}
	}
}

func (s *Server) nextMessage(chat int64) int64 {
	s.lastMsg[chat]++
	return s.lastMsg[chat]
}

func number(v any, key string) int64 {
	m, _ := v.(map[string]any)
	switch n := m[key].(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case float64:
		return int64(n)
	}

	return 0
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/bot"+s.Token()+"/")
	if ok {
		s.method(w, r, rest)
		return
	}
	if rest, ok = strings.CutPrefix(r.URL.Path, "/file/bot"+s.Token()+"/"); ok {
		s.file(w, r, rest)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/bot") {
		refuse(w, Failure{Code: http.StatusUnauthorized, Text: "Unauthorized"})
		return
	}
	http.NotFound(w, r)
}
