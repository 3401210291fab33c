// Package signaltest is a daemon of signal-cli for tests, on loopback. It is
// strict where signal-cli is: which account a request is for, whom it names,
// which methods there are, that a message is not empty, that styles stay within
// the text, and which files it can read. Events wait until a client listens, as
// with --receive-mode on-connection. Failures are scripted with Fail; what was
// asked is kept. All methods are safe for concurrent use.
package signaltest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
)

// Number and UUID are the bot's account.
const (
	Number = "+4915100000001"
	UUID   = "b07b07b0-0000-4000-8000-000000000001"
)

// MaxText is the longest text in bytes that clients show.
const MaxText = 64 << 10

const keepAlive = 15 * time.Second

// Call is one request, as it arrived.
type Call struct {
	Method string
	Params map[string]any
	Code   int // of the refusal, 0 if it was done
}

// Message is one that the bot sent.
type Message struct {
	Chat   string // number, UUID or group id
	Text   string
	Styles []string
	Files  []File
	Quote  string // timestamp and author
	At     int64
}

// File is one that was sent.
type File struct {
	Name, MIME string
	Data       []byte
}

// Failure makes requests fail.
type Failure struct {
	Method string // "" is every method
	Times  int    // 0 is once
	// Code and Text are the refusal; RetryAfter is in it. Status is an HTTP
	// status without an answer. Cut drops the connection.
	Code       int
	Text       string
	RetryAfter int
	Status     int
	Cut        bool
	// After fails only after the request was done.
	After bool
}

// Server is the fake.
type Server struct {
	http   *httptest.Server
	number string

	mu       sync.Mutex
	queue    []string
	client   chan struct{} // closed to drop the client that listens; nil: none listens
	news     chan struct{}
	gone     bool          // the daemon does not answer
	beat     time.Duration // 0: keepAlive
	calls    []Call
	messages []Message
	files    map[string][]byte
	groups   []string
	blocked  map[string]bool // people whose safety number changed
	link     string          // number that the next device is linked to; "": one account only
	late     int             // how many codes are not scanned in time
	codes    int
	failures []*Failure
	last     int64
}

// New starts a server that knows these groups. Close ends it.
func New(groups ...string) *Server { return NewAccount(Number, groups...) }

// NewAccount is New with another account.
func NewAccount(number string, groups ...string) *Server {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return Serve(l, number, groups...)
}

// Serve is NewAccount on a listener.
func Serve(l net.Listener, number string, groups ...string) *Server {
	s := &Server{number: number, groups: groups, files: map[string][]byte{}, blocked: map[string]bool{}, news: make(chan struct{}), last: 1700000000000}
	s.http = httptest.NewUnstartedServer(s)
	_ = s.http.Listener.Close()
	s.http.Listener = l
	s.http.Start()
	return s
}

// Link makes the daemon one for many accounts, which can be linked to a phone of
// this number; of the codes to scan the first are too late.
func (s *Server) Link(number string, late int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.late = number, late
}

// Close ends the server.
func (s *Server) Close() {
	s.Drop()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Number is the account.
func (s *Server) Number() string { return s.number }

// Host and Port are where the server listens.
func (s *Server) Host() string {
	h, _, _ := net.SplitHostPort(s.http.Listener.Addr().String())
	return h
}

// Port is where the server listens.
func (s *Server) Port() int {
	_, p, _ := net.SplitHostPort(s.http.Listener.Addr().String())
	n, _ := strconv.Atoi(p) // a listener's own port
	return n
}

// Post queues an envelope for whoever listens.
func (s *Server) Post(envelope map[string]any) {
	data, err := json.Marshal(map[string]any{"account": s.number, "envelope": envelope})
	if err != nil {
		panic(err)
	}
	s.PostRaw("event:receive\ndata:" + string(data) + "\n\n")
}

// PostRaw queues lines of the stream.
func (s *Server) PostRaw(lines string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, lines)
	close(s.news)
	s.news = make(chan struct{})
}

// Drop cuts the stream of whoever listens.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		close(s.client)
		s.client = nil
	}
}

// Listening reports whether a client listens.
func (s *Server) Listening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client != nil
}

// Down lets the daemon refuse everything, or be there again.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	s.gone = down
	s.mu.Unlock()
	if down {
		s.Drop()
	}
}

// Store keeps a file for getAttachment.
func (s *Server) Store(id string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[id] = data
}

// ChangeKey makes a person untrusted until trust is called.
func (s *Server) ChangeKey(person string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked[person] = true
}

// Fail scripts a failure.
func (s *Server) Fail(f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.failures = append(s.failures, &f)
}

// Calls are the requests for a method, all for "".
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

// Messages are what the bot sent.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone {
		panic(http.ErrAbortHandler)
	}

	switch r.Method + " " + r.URL.Path {
	case "GET /api/v1/check":
		w.WriteHeader(http.StatusOK)
	case "GET /api/v1/events":
		s.events(w, r)
	case "POST /api/v1/rpc":
		s.rpc(w, r)
	default:
		http.NotFound(w, r)
	}
}

// Beat sets how often the daemon says on the stream that it is there.
func (s *Server) Beat(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = d
}

func (s *Server) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.beat, keepAlive)
}

// events streams to one client; the next one takes over.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if a := r.URL.Query().Get("account"); a != "" && a != s.number {
		http.Error(w, "unknown account", http.StatusBadRequest)
		return
	}

	s.Drop()
	s.mu.Lock()
	mine := make(chan struct{})
	s.client = mine
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush()

	alive := time.NewTicker(s.interval())
	defer alive.Stop()
	for {
		s.mu.Lock()
		var next string
		if s.client == mine && len(s.queue) > 0 {
			next, s.queue = s.queue[0], s.queue[1:]
		}

		news := s.news
		s.mu.Unlock()
		if next != "" {
			_, _ = io.WriteString(w, next)
			_ = flush.Flush()
			continue
		}

		select {
		case <-news:
		case <-alive.C:
			_, _ = io.WriteString(w, ":\n")
			_ = flush.Flush()
		case <-mine:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			s.mu.Lock()
			if s.client == mine {
				s.client = nil
			}
			s.mu.Unlock()
			return
		}
	}
}

type refusal struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (s *Server) rpc(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Version string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Method  string         `json:"method"`
		Params  map[string]any `json:"params"`
	}

	var result any
	err := refuse(-32700, "Parse error")
	if json.NewDecoder(r.Body).Decode(&req) == nil {
		err = nil
	}

	s.mu.Lock()
	f := s.failing(req.Method)
	switch {
	case err != nil:
	case req.Version != "2.0" || req.ID == nil || r.Header.Get("Content-Type") != "application/json":
		err = refuse(-32600, "Invalid request")
	case f != nil && !f.After && f.Code != 0:
		err = f.refusal()
	case f != nil && !f.After:
	default:
		result, err = s.do(req.Method, req.Params)
	}

	if f != nil && f.After && f.Code != 0 {
		err = f.refusal()
	}

	c := Call{Method: req.Method, Params: req.Params}
	if err != nil {
		c.Code = err.Code
	}

	s.calls = append(s.calls, c)
	s.mu.Unlock()

	if f != nil && f.Cut {
		panic(http.ErrAbortHandler)
	}
	if f != nil && f.Status != 0 {
		http.Error(w, "<html>proxy</html>", f.Status)
		return
	}

	answer := map[string]any{"jsonrpc": "2.0", "id": req.ID}
	if err != nil {
		answer["error"] = err
	} else {
		answer["result"] = result
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *Failure) refusal() *refusal {
	r := refuse(f.Code, "%s", f.Text)
	if f.RetryAfter > 0 {
		r.Data = map[string]any{"response": map[string]any{"results": []map[string]any{{"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": f.RetryAfter}}}}
	}
	return r
}

func (s *Server) failing(method string) *Failure {
	for i, f := range s.failures {
		if f.Method == "" || f.Method == method {
			if f.Times--; f.Times <= 0 {
				s.failures = slices.Delete(s.failures, i, i+1)
			}
			return f
		}
	}
	return nil
}

// do runs a method. The caller holds the lock.
func (s *Server) do(method string, p map[string]any) (any, *refusal) {
	if s.link != "" && (method == "startLink" || method == "finishLink") {
		return s.linking(method, p)
	}
	if s.link == "" && (method == "startLink" || method == "finishLink") {
		return nil, refuse(-32601, "Method not implemented")
	}

	account, named := p["account"]
	if !named && s.link == "" {
		account = s.number // a daemon for one account needs no name of it
	}

	if account != s.number {
		return nil, refuse(-32602, "Method requires valid account parameter")
	}

	switch method {
	case "updateConfiguration":
		return map[string]any{}, nil
	case "version":
		return map[string]any{"version": "0.14.5"}, nil
	case "getUserStatus":
		return []map[string]any{{"recipient": s.number, "number": s.number, "uuid": UUID, "isRegistered": true}}, nil
	case "listGroups":
		var out []map[string]any
		for _, g := range s.groups {
			out = append(out, map[string]any{"id": g, "name": "Group " + g[:4], "isMember": true})
		}
		return out, nil

	case "getAttachment":
		id, _ := p["id"].(string)
		data, ok := s.files[id]
		if !ok {
			return nil, refuse(-1, "Could not find attachment with ID: %s", id)
		}
		return map[string]any{"data": base64.StdEncoding.EncodeToString(data)}, nil

	case "trust":
		who, _ := p["recipient"].(string)
		delete(s.blocked, who)
		return map[string]any{}, nil
	case "sendTyping", "sendReaction", "sendReceipt":
		if _, err := s.recipient(p); err != nil {
			return nil, err
		}
		if method == "sendReaction" && (p["emoji"] == "" || p["targetTimestamp"] == nil || p["targetAuthor"] == nil) {
			return nil, refuse(-1, "Missing target of the reaction")
		}
		return map[string]any{"timestamp": s.stamp(), "results": []any{}}, nil

	case "send":
		return s.send(p)
	}

	return nil, refuse(-32601, "Method not implemented")
}

// linking are the methods of a daemon for many accounts that take none.
func (s *Server) linking(method string, p map[string]any) (any, *refusal) {
	code := func() string { return fmt.Sprintf("sgnl://linkdevice?uuid=code%d&pub_key=k", s.codes) }
	switch {
	case p["account"] != nil:
		return nil, refuse(-32600, "Unrecognized field \"account\"")
	case method == "startLink":
		s.codes++
		return map[string]any{"deviceLinkUri": code()}, nil
	case p["deviceLinkUri"] != code():
		return nil, refuse(-1, "Unknown device link uri.")
	case s.codes <= s.late:
		return nil, refuse(-1, "Link request timed out, please try again.")
	}

	return map[string]any{"number": s.link}, nil
}

func (s *Server) stamp() int64 { s.last++; return s.last }

// recipient is who a request is for.
func (s *Server) recipient(p map[string]any) (string, *refusal) {
	if g, ok := p["groupId"].(string); ok {
		if !slices.Contains(s.groups, g) {
			return "", refuse(-1, "Failed to send message: Group not found: %s", g)
		}
		return g, nil
	}

	list, ok := p["recipient"].([]any)
	if one, single := p["recipient"].(string); single {
		list, ok = []any{one}, true
	}

	if !ok || len(list) != 1 {
		return "", refuse(-1, "No recipients given")
	}

	id, _ := list[0].(string)
	if !strings.HasPrefix(id, "+") && strings.Count(id, "-") != 4 {
		return "", refuse(-1, "Invalid phone number: %s", id)
	}

	if s.blocked[id] {
		return "", &refusal{Code: -4, Message: "Failed to send message: untrusted identity", Data: map[string]any{
			"response": map[string]any{"results": []map[string]any{{"type": "IDENTITY_FAILURE"}}},
		}}
	}
	return id, nil
}

func (s *Server) send(p map[string]any) (any, *refusal) {
	chat, err := s.recipient(p)
	if err != nil {
		return nil, err
	}

	m := Message{Chat: chat, At: s.stamp()}
	m.Text, _ = p["message"].(string)
	files, _ := p["attachments"].([]any)
	if m.Text == "" && len(files) == 0 {
		return nil, refuse(-1, "No message given")
	}
	if len(m.Text) > MaxText {
		return nil, refuse(-1, "Message is too long")
	}

	styles, _ := p["textStyle"].([]any)
	for _, v := range styles {
		style, _ := v.(string)
		if !validStyle(style, len(utf16.Encode([]rune(m.Text)))) {
			return nil, refuse(-1, "Invalid syntax for text style: %q", style)
		}
		m.Styles = append(m.Styles, style)
	}

	for _, v := range files {
		name, _ := v.(string)
		f, ok := readFile(name)
		if !ok {
			return nil, refuse(-1, "Failed to add attachment: %.60s", name)
		}
		m.Files = append(m.Files, f)
	}

	if at, ok := p["quoteTimestamp"].(float64); ok {
		m.Quote = fmt.Sprintf("%.0f/%v", at, p["quoteAuthor"])
	}

	s.messages = append(s.messages, m)
	return map[string]any{"timestamp": m.At, "results": []map[string]any{{"recipientAddress": map[string]any{"number": chat}, "type": "SUCCESS"}}}, nil
}

func validStyle(style string, length int) bool {
	parts := strings.Split(style, ":")
	if len(parts) != 3 || !slices.Contains([]string{"BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE"}, parts[2]) {
		return false
	}
	from, err1 := strconv.Atoi(parts[0])
	n, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && from >= 0 && n > 0 && from+n <= length
}

// readFile reads a file as signal-cli does: a path or a data URI.
func readFile(name string) (File, bool) {
	rest, ok := strings.CutPrefix(name, "data:")
	if !ok {
		data, err := os.ReadFile(name)
		return File{Name: filepath.Base(name), Data: data}, err == nil
	}
	head, body, ok := strings.Cut(rest, ";base64,")
	data, err := base64.StdEncoding.DecodeString(body)
	mime, param, _ := strings.Cut(head, ";")
	return File{Name: strings.TrimPrefix(param, "filename="), MIME: mime, Data: data}, ok && err == nil && strings.Contains(mime, "/")
}
