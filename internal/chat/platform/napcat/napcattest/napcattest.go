// Package napcattest is a NapCat for tests: the WebSocket server of OneBot 11 on
// 127.0.0.1, with people, groups and files. It refuses what NapCat refuses;
// test/channels/napcat shows that a library of others works with it.
package napcattest

import (
	"context"
	"encoding/base64"
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

	ws "github.com/coder/websocket"
)

// The account, its token, a person and a group.
const (
	Self  = 10001
	Token = "t0ken-of-napcat" //nolint:gosec // of the fake
	Ann   = 20001
	Group = 30001
)

// Segment is a piece of a message.
type Segment struct {
	Type string         `json:"type"`
	Data map[string]any `json:"data"`
}

// Text is a segment with words.
func Text(s string) Segment { return Segment{"text", map[string]any{"text": s}} }

// Message is one of a chat. Without a group it is private.
type Message struct {
	ID       int64
	From     int64
	Group    int64
	To       int64 // of ours, without a group
	Segments []Segment
	CQ       string // instead of Segments: a text with codes
	Name     string // "": one made of From
	At       time.Time
	Files    []string       // names of what came along, of ours
	More     map[string]any // laid over the event
}

// Call is an action.
type Call struct {
	Action string
	Params map[string]any
}

type failure struct {
	action string
	code   int
	text   string
}

// Server is the fake.
type Server struct {
	web *httptest.Server

	mu       sync.Mutex
	reject   bool // the handshake instead of a frame
	silent   bool // actions are not answered
	strings  bool // ids are texts
	live     map[*link]bool
	waiting  []string
	messages map[int64]*Message
	ours     []*Message
	members  map[int64]bool // people and groups that can be written to
	forwards map[string][]Message
	files    map[string][]byte
	calls    []Call
	fails    []failure
	next     int64
	self     int64
}

type link struct {
	ws  *ws.Conn
	end context.CancelFunc
	out chan string
}

func (l *link) send(frame string) {
	select {
	case l.out <- frame:
	default:
		l.end()
	}
}

// New starts a fake.
func New() *Server {
	s := &Server{
		self:     Self,
		live:     map[*link]bool{},
		messages: map[int64]*Message{},
		members:  map[int64]bool{Ann: true, Group: true},
		forwards: map[string][]Message{},
		files:    map[string][]byte{},
		next:     700000,
	}

	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.socket)
	mux.HandleFunc("GET /files/{id}", s.file)
	s.web = httptest.NewServer(mux)
	return s
}

// Close ends the fake.
func (s *Server) Close() {
	s.Cut()
	s.web.Close()
}

// Socket is the address of the WebSocket.
func (s *Server) Socket() string { return "ws" + strings.TrimPrefix(s.web.URL, "http") }

// Set changes how the server behaves: whether it refuses a wrong token in the
// handshake, answers no action, or writes ids as texts.
func (s *Server) Set(reject, silent, texts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reject, s.silent, s.strings = reject, silent, texts
}

// Become logs in to another account.
func (s *Server) Become(self int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.self = self
}

// Fail refuses the next action of a name.
func (s *Server) Fail(action string, code int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = append(s.fails, failure{action, code, text})
}

// Cut ends all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		l.end()
		_ = l.ws.CloseNow()
		delete(s.live, l)
	}
}

// Connected is how many connections there are.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Raw sends any text on all connections.
func (s *Server) Raw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		l.send(text)
	}
}

// Calls are the actions of a name, "" for all.
func (s *Server) Calls(action string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Call) bool { return action != "" && c.Action != action })
}

// Sent are the messages of the account.
func (s *Server) Sent() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.ours {
		out = append(out, *m)
	}
	return out
}

// Words are the texts of a message.
func (m Message) Words() string {
	var out []string
	for _, s := range m.Segments {
		if v, ok := s.Data["text"].(string); ok {
			out = append(out, v)
		}
	}
	return strings.Join(out, "")
}

// Store keeps a file and returns its address.
func (s *Server) Store(data []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	name := strconv.FormatInt(s.next, 10)
	s.files[name] = data
	return s.web.URL + "/files/" + name + "?rkey=secret"
}

// StoreForward keeps messages that are passed on together and returns their id.
func (s *Server) StoreForward(list ...Message) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	name := strconv.FormatInt(s.next, 10)
	s.forwards[name] = list
	return name
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	data, ok := s.files[r.PathValue("id")]
	s.mu.Unlock()

	switch {
	case !ok || r.URL.Query().Get("rkey") != "secret":
		http.NotFound(w, r)
	case string(data) == "redirect":
		http.Redirect(w, r, "/", http.StatusFound)
	default:
		_, _ = w.Write(data)
	}
}

// Say lets a person write. While no bot is connected, it waits.
func (s *Server) Say(m Message) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	if m.ID == 0 {
		s.next++
		m.ID = s.next
	}
	if m.At.IsZero() {
		m.At = time.Now()
	}

	s.members[m.From] = true
	s.messages[m.ID] = &m
	e := s.describe(&m)
	e["post_type"] = "message"
	s.event(e)
	return m.ID
}

// Join lets a person join a group.
func (s *Server) Join(user, group int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.event(map[string]any{"post_type": "notice", "notice_type": "group_increase", "sub_type": "approve", "user_id": s.num(user), "group_id": s.num(group), "operator_id": 0, "time": time.Now().Unix()})
}

// event sends an event. The lock is held.
func (s *Server) event(e map[string]any) {
	e["self_id"] = s.num(s.self)
	frame := encode(e)
	if len(s.live) == 0 {
		s.waiting = append(s.waiting, frame)
	}
	for l := range s.live {
		l.send(frame)
	}
}

func (s *Server) num(n int64) any {
	if s.strings {
		return strconv.FormatInt(n, 10)
	}
	return n
}

// describe is a message as events and get_msg have it. The lock is held.
func (s *Server) describe(m *Message) map[string]any {
	var content any = m.Segments
	if m.CQ != "" {
		content = m.CQ
	}

	name := m.Name
	if name == "" {
		name = fmt.Sprintf("user%d", m.From)
	}

	out := map[string]any{
		"message_id": s.num(m.ID), "user_id": s.num(m.From), "message": content, "raw_message": m.CQ, "font": 14, "message_format": "array",
		"time": m.At.Unix(), "message_type": "private", "sub_type": "friend", "sender": map[string]any{"user_id": s.num(m.From), "nickname": name},
	}
	if m.Group != 0 {
		out["message_type"], out["sub_type"], out["group_id"] = "group", "normal", s.num(m.Group)
		out["sender"] = map[string]any{"user_id": s.num(m.From), "nickname": name, "card": "card of " + name, "role": "member"}
	}

	maps.Copy(out, m.More)
	return out
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // values of this package
	}
	return string(data)
}

func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	good := r.Header.Get("Authorization") == "Bearer "+Token || r.URL.Query().Get("access_token") == Token
	s.mu.Lock()
	reject := s.reject
	s.mu.Unlock()

	if !good && reject {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}

	c, err := ws.Accept(w, r, &ws.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}

	c.SetReadLimit(64 << 20)
	if !good { // NapCat accepts every connection, and refuses then
		_ = c.Write(r.Context(), ws.MessageText, []byte(`{"status":"failed","retcode":1403,"data":null,"message":"token验证失败","wording":"token验证失败","echo":null}`))
		_ = c.Close(ws.StatusNormalClosure, "")
		return
	}

	ctx, end := context.WithCancel(r.Context())
	defer end()
	l := &link{ws: c, end: end, out: make(chan string, 4096)}
	s.mu.Lock()
	l.send(encode(map[string]any{"time": 1, "self_id": s.num(s.self), "post_type": "meta_event", "meta_event_type": "lifecycle", "sub_type": "connect"}))
	l.send(encode(map[string]any{"time": 1, "self_id": s.num(s.self), "post_type": "meta_event", "meta_event_type": "heartbeat", "interval": 30000, "status": map[string]any{"online": true, "good": true}}))
	for _, f := range s.waiting {
		l.send(f)
	}

	s.waiting = nil
	s.live[l] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.live, l)
		_ = c.CloseNow()
	}()

	go func() {
		defer end()
		for {
			select {
			case <-ctx.Done():
				return
			case frame := <-l.out:
				if c.Write(ctx, ws.MessageText, []byte(frame)) != nil {
					return
				}
			}
		}
	}()
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			return
		}
		s.action(l, data)
	}
}

// action answers one. The params keep their numbers as they are.
func (s *Server) action(l *link, data []byte) {
	var q struct {
		Action string         `json:"action"`
		Params map[string]any `json:"params"`
		Echo   any            `json:"echo"`
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if json.Unmarshal(data, &q) != nil {
		l.send(`{"status":"failed","retcode":1400,"data":null,"message":"json解析失败","wording":"json解析失败","echo":null}`)
		return
	}

	s.calls = append(s.calls, Call{q.Action, q.Params})
	if s.silent && q.Action != "get_login_info" {
		return
	}

	answer := map[string]any{"status": "ok", "retcode": 0, "data": nil, "message": "", "wording": "", "echo": q.Echo}
	result, code, text := s.execute(q.Action, q.Params)
	if code != 0 {
		answer["status"], answer["retcode"], answer["message"], answer["wording"] = "failed", code, text, text
	} else {
		answer["data"] = result
	}

	l.send(encode(answer))
}

// execute does what an action asks for. The lock is held.
func (s *Server) execute(action string, p map[string]any) (result any, code int, text string) {
	for i, f := range s.fails {
		if f.action == action {
			s.fails = slices.Delete(s.fails, i, i+1)
			return nil, f.code, f.text
		}
	}

	switch action {
	case "get_login_info":
		return map[string]any{"user_id": s.num(s.self), "nickname": "nano"}, 0, ""
	case "send_msg", "send_private_msg", "send_group_msg":
		return s.sendMessage(p)
	case "upload_group_file", "upload_private_file":
		return s.upload(action, p)
	case "get_msg":
		m := s.messages[whole(p["message_id"])]
		if m == nil {
			return nil, 1200, "消息不存在"
		}
		return s.describe(m), 0, ""

	case "get_forward_msg":
		list := []any{}
		for _, m := range s.forwards[fmt.Sprint(p["id"])] {
			list = append(list, s.describe(&m))
		}
		if len(list) == 0 {
			return nil, 1200, "找不到相关的聊天记录"
		}
		return map[string]any{"messages": list}, 0, ""

	case "get_record", "get_file":
		data, ok := s.files[fmt.Sprint(p["file"])]
		if !ok {
			return nil, 1200, "file not found"
		}
		return map[string]any{"file": "/root/secret/path", "file_name": "x", "base64": base64.StdEncoding.EncodeToString(data)}, 0, ""

	case "get_group_member_info":
		return map[string]any{"user_id": p["user_id"], "nickname": fmt.Sprintf("user%d", whole(p["user_id"])), "card": ""}, 0, ""
	case "set_msg_emoji_like":
		if s.messages[whole(p["message_id"])] == nil {
			return nil, 1200, "消息不存在"
		}
		return map[string]any{}, 0, ""

	case "set_input_status":
		return map[string]any{}, 0, ""
	}

	return nil, 1404, "不支持的Api " + action
}

func whole(v any) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(fmt.Sprintf("%.0f", toFloat(v)), ".0"), 10, 64)
	return n
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case string:
		f, _ := strconv.ParseFloat(v, 64)
		return f
	}
	return 0
}

func (s *Server) sendMessage(p map[string]any) (any, int, string) {
	group, user := whole(p["group_id"]), whole(p["user_id"])
	kind, _ := p["message_type"].(string)
	if kind == "group" {
		user = 0
	}

	if group == 0 && user == 0 {
		return nil, 1400, "user_id or group_id is missing"
	}
	if !s.members[group] && !s.members[user] {
		return nil, 1200, "无法获取用户信息"
	}

	var list []Segment
	data, err := json.Marshal(p["message"])
	if err == nil {
		err = json.Unmarshal(data, &list)
	}

	if err != nil || len(list) == 0 {
		return nil, 1400, "message must be a list of segments"
	}

	s.next++
	m := &Message{ID: s.next, From: s.self, Group: group, To: user, Segments: list, At: time.Now()}
	for _, seg := range list {
		file, _ := seg.Data["file"].(string)
		switch seg.Type {
		case "text", "at", "face":
		case "reply":
			if s.messages[whole(seg.Data["id"])] == nil {
				return nil, 1200, "回复的消息不存在"
			}
		case "image", "record", "video":
			if _, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(file, "base64://")); err != nil || !strings.HasPrefix(file, "base64://") {
				return nil, 1200, "文件不存在"
			}
			name, _ := seg.Data["name"].(string)
			m.Files = append(m.Files, name)

		default:
			return nil, 1400, "unknown segment " + seg.Type
		}
	}

	s.messages[m.ID] = m
	s.ours = append(s.ours, m)
	return map[string]any{"message_id": s.num(m.ID)}, 0, ""
}

func (s *Server) upload(action string, p map[string]any) (any, int, string) {
	file, _ := p["file"].(string)
	name, _ := p["name"].(string)
	group, user := whole(p["group_id"]), whole(p["user_id"])
	_, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(file, "base64://"))
	if name == "" || err != nil || !strings.HasPrefix(file, "base64://") || action == "upload_group_file" && group == 0 || action == "upload_private_file" && user == 0 {
		return nil, 1400, "invalid file"
	}
	s.ours = append(s.ours, &Message{From: s.self, Group: group, To: user, Files: []string{name}, At: time.Now()})
	return map[string]any{"file_id": "f1"}, 0, ""
}
