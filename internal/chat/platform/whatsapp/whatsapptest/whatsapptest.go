// Package whatsapptest is a bridge to WhatsApp for tests, on loopback. It
// speaks the frames of nanobot-whatsapp or, with Old, only those of the bridge
// of Python nanobot. It is strict where they are: the token within five
// seconds, no browsers, ids that WhatsApp knows, texts that are not empty or
// too long, and files that can be read. Messages come again until they are
// acknowledged. Failures are scripted with Fail; what was asked is kept. All
// methods are safe for concurrent use.
package whatsapptest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	ws "github.com/coder/websocket"
)

// Token and JID are of the bridge and its account.
const (
	Token = "token-of-the-bridge-0123456789"
	JID   = "4915100000001:7@s.whatsapp.net"
)

const (
	maxText  = 65536
	authTime = 5 * time.Second
)

// Frame is a frame in either direction.
type Frame = map[string]any

// Message is one that was sent to people.
type Message struct {
	To, Text, Kind, MIME, FileName, Quote string
	Data                                  []byte
}

// Failure makes requests fail.
type Failure struct {
	Type  string // of the frame, "" is send and send_media
	Error string
	Code  string
	After int  // seconds to wait
	Drop  bool // the connection, after the request was done
}

// Server is the fake.
type Server struct {
	Old bool   // set before the first connection
	JID string // of the account; set before the first connection

	http *httptest.Server
	dir  string

	mu       sync.Mutex
	client   *ws.Conn
	status   string
	pending  []Frame // messages that were not acknowledged
	asked    []Frame
	messages []Message
	keys     map[string]string
	files    map[string][]byte
	failures []Failure
	refused  int
}

// New starts a bridge with a connected account. Files that are fetched are
// written to dir. Close ends it.
func New(dir string) *Server {
	s := &Server{JID: JID, dir: dir, status: "connected", keys: map[string]string{}, files: map[string][]byte{}}
	s.http = httptest.NewServer(s)
	return s
}

// Close ends the server.
func (s *Server) Close() {
	s.Drop()
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL is the bridgeUrl of the server.
func (s *Server) URL() string { return "ws" + strings.TrimPrefix(s.http.URL, "http") }

// Connected reports whether a client is there.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client != nil
}

// Drop cuts the connection.
func (s *Server) Drop() {
	s.mu.Lock()
	c := s.client
	s.client = nil
	s.mu.Unlock()
	if c != nil {
		_ = c.CloseNow()
	}
}

// Status changes the state of the account.
func (s *Server) Status(status, reason string) {
	s.mu.Lock()
	s.status = status
	s.mu.Unlock()
	s.tell(Frame{"type": "status", "status": status, "reason": reason, "jid": s.JID})
}

// Scan links the account, as the phone does.
func (s *Server) Scan() { s.Status("connected", "") }

// Post sends a message of a person to us.
func (s *Server) Post(f Frame) {
	f["type"] = "message"
	s.mu.Lock()
	if !s.Old {
		s.pending = append(s.pending, f)
	}
	s.mu.Unlock()
	s.tell(f)
}

// Raw sends bytes as they are.
func (s *Server) Raw(data string) {
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	if c != nil {
		_ = c.Write(context.Background(), ws.MessageText, []byte(data))
	}
}

func (s *Server) tell(f Frame) {
	data, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	s.Raw(string(data))
}

// Store keeps a file that can be fetched by its ref.
func (s *Server) Store(ref string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[ref] = data
}

// Fail scripts one failure.
func (s *Server) Fail(f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, f)
}

// Asked are the frames of a type that came in, all for "".
func (s *Server) Asked(kind string) []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Frame
	for _, f := range s.asked {
		if kind == "" || f["type"] == kind {
			out = append(out, f)
		}
	}
	return out
}

// Messages are what people see.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// Refused is how many clients had a wrong token.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" {
		http.Error(w, "Browser-originated WebSocket connections are not allowed", http.StatusForbidden)
		return
	}

	c, err := ws.Accept(w, r, nil)
	if err != nil {
		return
	}

	defer c.CloseNow() //nolint:errcheck // it ends anyway
	c.SetReadLimit(64 << 20)
	if !s.auth(r.Context(), c) {
		return
	}

	s.greet(c) //nolint:contextcheck // what tests send has no request
	for {
		_, data, err := c.Read(r.Context())
		if err != nil {
			break
		}
		s.serve(c, data) //nolint:contextcheck // what tests send has no request
	}

	s.mu.Lock()
	if s.client == c {
		s.client = nil
	}
	s.mu.Unlock()
}

func (s *Server) auth(ctx context.Context, c *ws.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, authTime)
	defer cancel()
	_, data, err := c.Read(ctx)
	if err != nil {
		_ = c.Close(4001, "Auth timeout")
		return false
	}

	var f Frame
	if json.Unmarshal(data, &f) != nil || f["type"] != "auth" || f["token"] != Token {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		_ = c.Close(4003, "Invalid token")
		return false
	}

	return true
}

// greet says hello, which must be the first frame, then what waits.
func (s *Server) greet(c *ws.Conn) {
	s.mu.Lock()
	hello := Frame{"type": "hello", "protocol": 2, "status": s.status}
	if s.status == "connected" {
		hello["jid"] = s.JID
	}
	// Whoever has read the hello may have the server say more at once.
	if data, err := json.Marshal(hello); err == nil && !s.Old {
		_ = c.Write(context.Background(), ws.MessageText, data)
	}

	s.client = c
	pending := slices.Clone(s.pending)
	s.mu.Unlock()
	for _, f := range pending {
		s.tell(f)
	}
}

// serve answers a frame.
func (s *Server) serve(c *ws.Conn, data []byte) {
	var f Frame
	if json.Unmarshal(data, &f) != nil {
		s.tell(Frame{"type": "error", "error": "SyntaxError: Unexpected token"})
		return
	}

	kind, _ := f["type"].(string)
	s.mu.Lock()
	s.asked = append(s.asked, f)
	fail := s.failing(kind)
	var answer Frame
	switch {
	case fail != nil && !fail.Drop:
		answer = Frame{"type": "error", "error": fail.Error, "code": fail.Code, "retryAfter": fail.After}
	default:
		answer = s.do(kind, f)
	}

	s.mu.Unlock()
	if fail != nil && fail.Drop {
		_ = c.CloseNow()
		return
	}
	if answer == nil {
		return
	}

	if s.Old {
		delete(answer, "code")
		delete(answer, "retryAfter")
	} else if id, ok := f["id"]; ok {
		answer["id"] = id
	}

	s.tell(answer)
}

func (s *Server) failing(kind string) *Failure {
	for i, f := range s.failures {
		if f.Type == kind || f.Type == "" && (kind == "send" || kind == "send_media") {
			s.failures = slices.Delete(s.failures, i, i+1)
			return &f
		}
	}
	return nil
}

func refuse(format string, args ...any) Frame {
	return Frame{"type": "error", "error": fmt.Sprintf(format, args...), "code": "permanent"}
}

// do does what a frame asks for. The caller holds the lock.
func (s *Server) do(kind string, f Frame) Frame {
	if s.Old && kind != "send" && kind != "send_media" {
		return Frame{"type": "sent", "to": f["to"]} // it does nothing and says so
	}

	switch kind {
	case "send", "send_media":
		if s.status != "connected" {
			return Frame{"type": "error", "error": "Error: Not connected", "code": "not_ready"}
		}
		return s.send(f)

	case "ack":
		s.pending = slices.DeleteFunc(s.pending, func(p Frame) bool { return p["id"] == f["id"] })
	case "presence", "read":
		if err := validJID(f["to"]); err != nil {
			return err
		}
	case "download":
		ref, _ := f["ref"].(string)
		data, ok := s.files[ref]
		if !ok {
			return refuse("no file %q", ref)
		}

		path := filepath.Join(s.dir, fmt.Sprintf("wa_%d", len(s.asked)))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return refuse("%v", err)
		}
		return Frame{"type": "file", "path": path}

	case "login":
		if phone, _ := f["phone"].(string); phone != "" {
			return Frame{"type": "code", "code": "ABCD-1234", "expires": 160}
		}
		return Frame{"type": "qr", "qr": "2@qr-content", "expires": 60}

	case "logout":
		s.status = "logged_out"
		return Frame{"type": "status", "status": "logged_out"}
	default:
		return refuse("unknown type %q", kind)
	}

	return nil
}

func validJID(v any) Frame {
	jid, _ := v.(string)
	user, server, ok := strings.Cut(jid, "@")
	if !ok || user == "" || !slices.Contains([]string{"s.whatsapp.net", "lid", "g.us"}, server) {
		return refuse("jidDecode: %q", jid)
	}
	return nil
}

func (s *Server) send(f Frame) Frame {
	word := func(k string) string { v, _ := f[k].(string); return v }
	if err := validJID(f["to"]); err != nil {
		return err
	}

	m := Message{To: word("to"), Text: word("text") + word("caption"), Kind: word("kind"), MIME: word("mimetype"), FileName: word("fileName")}
	if r, ok := f["replyTo"].(map[string]any); ok {
		m.Quote = fmt.Sprintf("%v/%v", r["id"], r["participant"])
	}

	if f["type"] == "send_media" {
		data, err := os.ReadFile(word("filePath"))
		if err != nil {
			return refuse("Error: ENOENT: no such file or directory")
		}
		m.Data = data
	} else if m.Text == "" {
		return refuse("empty message")
	}

	if len([]rune(m.Text)) > maxText {
		return refuse("bad-request: too long")
	}

	key := word("key")
	if id := s.keys[key]; key != "" && id != "" && !s.Old {
		return Frame{"type": "sent", "to": m.To, "messageId": id}
	}

	s.messages = append(s.messages, m)
	if s.Old {
		return Frame{"type": "sent", "to": m.To}
	}

	id := fmt.Sprintf("3EB0%06d", len(s.messages))
	s.keys[key] = id
	return Frame{"type": "sent", "to": m.To, "messageId": id}
}
