// Package wecomtest is a WeCom for tests: the long connection of AI bots, the
// files of messages and the set-up by QR code, on 127.0.0.1. It refuses what
// WeCom refuses; test/channels/wecom shows that the vendor's own libraries work
// with it.
package wecomtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bot, a person who may talk to it, and a group.
const (
	BotID  = "aib_bot"
	Secret = "s3cret-of-the-bot"
	Ann    = "ann"
	Group  = "wrGroup1"
)

// Shown is a message of the bot as people see it now.
type Shown struct {
	Chat     string
	Kind     string // stream, markdown, template_card, text, or the kind of a file
	Text     string
	Finished bool // of a stream
	Buttons  []string
	Files    []string

	stream string
	task   string
	keys   []string
}

// Upload is a file that the bot sent.
type Upload struct {
	Kind, Name string
	Data       []byte

	id     string // while it is being sent
	size   int
	md5    string
	chunks [][]byte
}

// Frame is what the bot sent.
type Frame struct {
	Cmd   string
	ReqID string
	Body  map[string]any
}

// request is a callback that the bot may answer.
type request struct {
	cmd     string
	chat    string
	user    string
	event   string
	task    string
	at      time.Time
	began   time.Time // the first update of its stream
	touched time.Time // the last one
	replied bool
}

// failure is what the next command of a kind is answered with.
type failure struct {
	cmd  string
	code int
	text string
}

type stored struct {
	name string
	body []byte
}

// Server is the fake.
type Server struct {
	web *httptest.Server

	mu       sync.Mutex
	bot      string            // whom people write to
	bots     map[string]string // secrets
	chats    map[string]bool
	live     map[*link]bool
	requests map[string]*request
	waiting  []string // callbacks while the bot is away
	shown    []*Shown
	frames   []Frame
	fails    []failure
	uploads  map[string]*Upload // by upload id, then by media id
	tasks    map[string]bool
	files    map[string]stored
	scans    []string // states of the QR code, in the order of the questions
	codes    int
	muted    bool // pings are not answered
	held     bool // answers wait
	late     []func()
	ahead    time.Duration
	next     int
	fetched  int

	idle       int           // edits that changed nothing
	streamMost time.Duration // how long a stream may be updated at all; 0: no bound
}

// Idle counts the edits that left a text as it was and did not end it.
func (s *Server) Idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle
}

// New starts a fake.
func New() *Server {
	s := &Server{
		bot:      BotID,
		bots:     map[string]string{BotID: Secret},
		chats:    map[string]bool{Ann: true, Group: true},
		live:     map[*link]bool{},
		requests: map[string]*request{},
		uploads:  map[string]*Upload{},
		tasks:    map[string]bool{},
		files:    map[string]stored{},
	}

	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.socket)
	mux.HandleFunc("GET /files/{id}", s.file)
	mux.HandleFunc("GET /ai/qc/generate", s.generate)
	mux.HandleFunc("GET /ai/qc/query_result", s.result)
	s.web = httptest.NewServer(mux)
	return s
}

// Close ends the fake.
func (s *Server) Close() {
	s.Cut()
	s.web.Close()
}

// URL is the address for people's browsers.
func (s *Server) URL() string { return s.web.URL }

// Socket is the address of the long connection.
func (s *Server) Socket() string { return "ws" + strings.TrimPrefix(s.web.URL, "http") }

// Handler serves the pages without a listener, for tests in a bubble.
func (s *Server) Handler() http.Handler { return s.web.Config.Handler }

// Rename gives the bot another id.
func (s *Server) Rename(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bot, s.bots = id, map[string]string{id: Secret}
}

// Message is something that a person sends.
type Message struct {
	ID      string // "": a new one
	From    string
	Corp    string // of a person of another company
	Chat    string // "": alone with the bot
	Text    string
	Body    map[string]any // besides the usual: msgtype and what belongs to it
	At      time.Time
	NoReply bool // the message has no id to be answered by
}

// Say sends a message to the bot and returns the id to answer it by. While the
// bot is away, it waits.
func (s *Server) Say(m Message) string {
	body := map[string]any{"msgtype": "text", "text": map[string]any{"content": m.Text}}
	maps.Copy(body, m.Body)
	return s.callback("aibot_msg_callback", m, body, "", "")
}

// Event sends an event of a person, such as enter_chat.
func (s *Server) Event(m Message, kind string) string {
	return s.callback("aibot_event_callback", m, map[string]any{"msgtype": "event", "event": map[string]any{"eventtype": kind}}, kind, "")
}

// Press presses the button with a label on the last card of a chat. Nested says
// that the event has the form of the documentation, not of the library.
func (s *Server) Press(m Message, label string, nested bool) error {
	chat := m.Chat
	if chat == "" {
		chat = m.From
	}

	s.mu.Lock()
	var card *Shown
	i := -1
	for _, c := range s.shown {
		if c.Chat == chat && slices.Contains(c.Buttons, label) {
			card, i = c, slices.Index(c.Buttons, label)
		}
	}

	s.mu.Unlock()
	if card == nil {
		return fmt.Errorf("%s has no button %q", chat, label)
	}

	s.PressKey(m, card.keys[i], card.task, nested)
	return nil
}

// PressKey sends the event of a button with any key.
func (s *Server) PressKey(m Message, key, task string, nested bool) {
	event := map[string]any{"eventtype": "template_card_event"}
	pressed := map[string]any{"event_key": key, "task_id": task}
	if nested {
		event["template_card_event"] = pressed
	} else {
		event["event_key"], event["task_id"] = key, task
	}
	s.callback("aibot_event_callback", m, map[string]any{"msgtype": "event", "event": event}, "template_card_event", task)
}

func (s *Server) callback(cmd string, m Message, body map[string]any, event, task string) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	if m.ID == "" {
		m.ID = s.newID("msg")
	}

	from := map[string]any{"userid": m.From}
	if m.Corp != "" {
		from["corpid"] = m.Corp
	}

	body["msgid"], body["aibotid"], body["from"], body["chattype"] = m.ID, s.bot, from, "single"
	chat := m.From
	if m.Chat != "" {
		body["chattype"], body["chatid"], chat = "group", m.Chat, m.Chat
	}

	s.chats[chat] = true
	if m.At.IsZero() {
		m.At = time.Now()
	}

	body["create_time"] = m.At.Unix()
	req := s.newID("req")
	if !m.NoReply {
		s.requests[req] = &request{cmd: cmd, chat: chat, user: m.From, event: event, task: task, at: s.now()}
	}

	s.deliver(text(map[string]any{"cmd": cmd, "headers": map[string]any{"req_id": req}, "body": body}))
	return req
}

// deliver sends a frame to the bot, now or when it is there. The lock is held.
func (s *Server) deliver(frame string) {
	for l := range s.live {
		if l.bot == s.bot {
			l.send(frame)
			return
		}
	}
	s.waiting = append(s.waiting, frame)
}

func (s *Server) newID(kind string) string {
	s.next++
	return fmt.Sprintf("%s_%d_%s", kind, s.next, rand.Text()[:6])
}

func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // values of this package
	}
	return string(data)
}

// SetStreamMost bounds the whole life of a stream; 0 is no bound. What WeCom does
// has changed, and is not documented: a stream that was not updated for a while
// is always closed.
func (s *Server) SetStreamMost(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streamMost = d
}

// Advance lets time pass for WeCom.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Fail answers the next command of a kind with an error.
func (s *Server) Fail(cmd string, code int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = append(s.fails, failure{cmd, code, text})
}

// FailText answers the next command that shows a text with an error.
func (s *Server) FailText(code int, text string) { s.Fail("", code, text) }

// Mute leaves pings without an answer, and holds the answers to all commands back
// until it is called again.
func (s *Server) Mute(pings, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted, s.held = pings, all
	if !all {
		for _, send := range s.late {
			send()
		}
		s.late = nil
	}
}

// Shown are the messages of the bot as people see them.
func (s *Server) Shown() []Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Shown
	for _, m := range s.shown {
		out = append(out, *m)
	}
	return out
}

// Frames are the commands of a kind, "" for all.
func (s *Server) Frames(cmd string) []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.frames), func(f Frame) bool { return cmd != "" && f.Cmd != cmd })
}

// Fetched is how many files were downloaded.
func (s *Server) Fetched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetched
}

// Uploaded are the files that the bot sent.
func (s *Server) Uploaded() []Upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Upload
	for _, u := range s.uploads {
		if u.id == "" {
			out = append(out, *u)
		}
	}
	return out
}

// Store keeps a file, encrypted, and returns what a message says of it. A name
// of "" is not shown.
func (s *Server) Store(name string, data []byte) map[string]any {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return s.StoreRaw(name, Encrypt(key, data), strings.TrimRight(base64.StdEncoding.EncodeToString(key), "="))
}

// StoreRaw keeps a file as it is.
func (s *Server) StoreRaw(name string, body []byte, key string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.newID("file")
	s.files[id] = stored{name, body}
	out := map[string]any{"url": s.web.URL + "/files/" + id + "?sign=secret"}
	if key != "" {
		out["aeskey"] = key
	}
	return out
}

// Encrypt is AES-256-CBC as WeCom does it.
func Encrypt(key, data []byte) []byte {
	const padded = 32
	n := padded - len(data)%padded
	for range n {
		data = append(slices.Clip(data), byte(n))
	}

	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // a key of 32 bytes
	}

	out := make([]byte, len(data))
	cipher.NewCBCEncrypter(block, key[:aes.BlockSize]).CryptBlocks(out, data)
	return out
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f, ok := s.files[r.PathValue("id")]
	s.fetched++
	s.mu.Unlock()

	if !ok || r.URL.Query().Get("sign") != "secret" {
		http.NotFound(w, r)
		return
	}

	if f.name != "" {
		w.Header().Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(f.name))
	}
	_, _ = w.Write(f.body)
}

// Scan sets what becomes of QR codes: what each question about one is answered
// with. The last answer stays.
func (s *Server) Scan(states ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scans = states
}

// Codes is how many QR codes were made.
func (s *Server) Codes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.codes
}

func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()

	if q.Get("source") == "" || q.Get("sourceID") == "" || !slices.Contains([]string{"0", "1", "2", "3"}, q.Get("plat")) {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}

	s.codes++
	code := fmt.Sprintf("scode%d", s.codes)
	_, _ = fmt.Fprint(w, text(map[string]any{"data": map[string]any{"scode": code, "auth_url": s.web.URL + "/ai/qc/gen?scode=" + code}}))
}

func (s *Server) result(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	state := "wait"
	if len(s.scans) > 0 {
		state = s.scans[0]
	}
	if len(s.scans) > 1 {
		s.scans = s.scans[1:]
	}

	data := map[string]any{"status": state}
	switch {
	case r.URL.Query().Get("scode") != fmt.Sprintf("scode%d", s.codes):
		data["status"] = "expired"
	case state == "broken":
		http.Error(w, "{", http.StatusOK)
		return
	case state == "success":
		data["bot_info"] = map[string]any{"botid": s.bot, "secret": Secret}
	}

	_, _ = fmt.Fprint(w, text(map[string]any{"data": data}))
}
