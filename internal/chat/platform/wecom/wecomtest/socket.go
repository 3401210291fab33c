package wecomtest

import (
	"context"
	"crypto/md5" //nolint:gosec // WeCom's checksum
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	ws "github.com/coder/websocket"
)

const (
	contentMost = 20480 // bytes
	streamTime  = 6 * time.Minute
	eventTime   = 5 * time.Second
	chunkMost   = 512 << 10
	chunksMost  = 100
	buttonsMost = 6
	keyMost     = 1024
)

// link is a WebSocket.
type link struct {
	ws  *ws.Conn
	end context.CancelFunc
	out chan string
	bot string // "": not subscribed
}

// send writes a frame, or gives up a connection that does not read.
func (l *link) send(frame string) {
	select {
	case l.out <- frame:
	default:
		l.end()
	}
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

// Unsubscribe forgets the subscriptions; the connections stay.
func (s *Server) Unsubscribe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		l.bot = ""
	}
}

// Connected is how many subscriptions of the bot there are.
func (s *Server) Connected() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		if l.bot == s.bot {
			n++
		}
	}
	return n
}

// Raw sends any text to all bots.
func (s *Server) Raw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		l.send(text)
	}
}

func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	c, err := ws.Accept(w, r, &ws.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}

	c.SetReadLimit(4 << 20)
	ctx, end := context.WithCancel(r.Context())
	defer end()
	l := &link{ws: c, end: end, out: make(chan string, 4096)}
	s.mu.Lock()
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
		s.command(l, data)
	}
}

// no is an answer that refuses.
type no struct {
	code int
	text string
}

func (s *Server) command(l *link, data []byte) {
	var q struct {
		Cmd     string `json:"cmd"`
		Headers struct {
			ReqID string `json:"req_id"`
		} `json:"headers"`
		Body map[string]any `json:"body"`
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if json.Unmarshal(data, &q) != nil || q.Headers.ReqID == "" {
		l.send(text(map[string]any{"headers": map[string]any{"req_id": ""}, "errcode": 40008, "errmsg": "invalid frame"}))
		return
	}

	s.frames = append(s.frames, Frame{q.Cmd, q.Headers.ReqID, q.Body})
	if q.Cmd == "ping" && s.muted {
		return
	}

	body, refused := s.execute(l, q.Cmd, q.Headers.ReqID, q.Body)
	answer := map[string]any{"headers": map[string]any{"req_id": q.Headers.ReqID}, "errcode": 0, "errmsg": "ok"}
	if refused != nil {
		answer["errcode"], answer["errmsg"] = refused.code, refused.text
	} else if body != nil {
		answer["body"] = body
	}

	if s.held {
		s.late = append(s.late, func() { l.send(text(answer)) })
		return
	}

	l.send(text(answer))
	if q.Cmd == "aibot_subscribe" && refused == nil && l.bot == s.bot {
		for _, f := range s.waiting {
			l.send(f)
		}
		s.waiting = nil
	}
}

// execute does what a command asks for. The lock is held.
func (s *Server) execute(l *link, cmd, req string, body map[string]any) (map[string]any, *no) {
	for i, f := range s.fails {
		if f.cmd == cmd || f.cmd == "" && shows(cmd, body) {
			s.fails = slices.Delete(s.fails, i, i+1)
			return nil, &no{f.code, f.text}
		}
	}

	if cmd == "aibot_subscribe" {
		return nil, s.subscribe(l, body)
	}
	if l.bot == "" {
		return nil, &no{846609, "aibot websocket not subscribed"}
	}

	switch cmd {
	case "ping":
		return nil, nil
	case "aibot_respond_msg":
		return nil, s.respond(req, body)
	case "aibot_respond_welcome_msg":
		return nil, s.welcome(req, body)
	case "aibot_respond_update_msg":
		return nil, s.replace(req, body)
	case "aibot_send_msg":
		return nil, s.push(body)
	case "aibot_upload_media_init":
		return s.uploadBegin(body)
	case "aibot_upload_media_chunk":
		return nil, s.uploadChunk(body)
	case "aibot_upload_media_finish":
		return s.uploadEnd(body)
	}

	return nil, &no{40008, "invalid cmd"}
}

// shows reports whether a command has words for people.
func shows(cmd string, body map[string]any) bool {
	content := word(object(body, "stream"), "content")
	return cmd == "aibot_send_msg" || cmd == "aibot_respond_msg" && content != "" && content != "<think></think>"
}

// subscribe lets a bot in. A connection that it had before is told and ended.
func (s *Server) subscribe(l *link, body map[string]any) *no {
	id, secret := word(body, "bot_id"), word(body, "secret")
	if s.bots[id] == "" || s.bots[id] != secret {
		return &no{40001, "invalid credential"}
	}

	for old := range s.live {
		if old != l && old.bot == id {
			old.bot = ""
			old.send(text(map[string]any{
				"cmd": "aibot_event_callback", "headers": map[string]any{"req_id": s.newID("req")},
				"body": map[string]any{"msgid": s.newID("msg"), "aibotid": id, "msgtype": "event", "create_time": 1, "event": map[string]any{"eventtype": "disconnected_event"}},
			}))
		}
	}

	l.bot = id
	return nil
}

// respond answers a message.
func (s *Server) respond(req string, body map[string]any) *no {
	r := s.requests[req]
	if r == nil || r.cmd != "aibot_msg_callback" {
		return &no{846605, "invalid req_id"}
	}

	switch kind := word(body, "msgtype"); kind {
	case "stream":
		return s.stream(r, object(body, "stream"))
	case "template_card":
		return s.card(r.chat, object(body, kind))
	case "image", "file", "voice", "video":
		return s.media(r.chat, kind, object(body, kind))
	}

	return &no{40008, "invalid message type"}
}

func (s *Server) stream(r *request, stream map[string]any) *no {
	id, content := word(stream, "id"), word(stream, "content")
	finish, _ := stream["finish"].(bool)
	if id == "" {
		return &no{40058, "stream.id is missing"}
	}
	if len(content) > contentMost {
		return &no{45002, "content size out of limit"}
	}

	i := slices.IndexFunc(s.shown, func(m *Shown) bool { return m.stream == id && m.Chat == r.chat })
	switch {
	case i >= 0 && s.shown[i].Finished,
		!r.began.IsZero() && s.now().Sub(r.touched) > streamTime,
		!r.began.IsZero() && s.streamMost > 0 && s.now().Sub(r.began) > s.streamMost:
		return &no{846608, "stream message update expired"}
	case i < 0:
		s.shown = append(s.shown, &Shown{Chat: r.chat, Kind: "stream", stream: id})
		i = len(s.shown) - 1
	}

	if r.began.IsZero() {
		r.began = s.now()
	}

	r.touched = s.now()
	if s.shown[i].Text == content && !finish {
		s.idle++
	}

	s.shown[i].Text, s.shown[i].Finished = content, finish
	return nil
}

func (s *Server) welcome(req string, body map[string]any) *no {
	r := s.requests[req]
	if r == nil || r.event != "enter_chat" || r.replied || s.now().Sub(r.at) > eventTime {
		return &no{846605, "invalid req_id"}
	}
	if word(body, "msgtype") != "text" {
		return &no{40008, "invalid message type"}
	}

	r.replied = true
	s.shown = append(s.shown, &Shown{Chat: r.chat, Kind: "text", Text: word(object(body, "text"), "content")})
	return nil
}

// replace changes the card that was pressed.
func (s *Server) replace(req string, body map[string]any) *no {
	r := s.requests[req]
	card := object(body, "template_card")
	if r == nil || r.event != "template_card_event" || r.replied || s.now().Sub(r.at) > eventTime {
		return &no{846605, "invalid req_id"}
	}
	if word(body, "response_type") != "update_template_card" || word(card, "task_id") != r.task {
		return &no{40058, "invalid card"}
	}

	if word(card, "card_type") == "text_notice" {
		if no := jump(card); no != nil {
			return no
		}
	}

	r.replied = true
	for _, m := range s.shown {
		if m.task == r.task && m.Chat == r.chat {
			m.Text, m.Buttons, m.keys = word(object(card, "main_title"), "title"), nil, nil
		}
	}
	return nil
}

// push sends a message to a chat.
func (s *Server) push(body map[string]any) *no {
	chat, kind := word(body, "chatid"), word(body, "msgtype")
	if !s.chats[chat] {
		return &no{93006, "invalid chatid"}
	}

	switch kind {
	case "markdown":
		content := word(object(body, kind), "content")
		if content == "" || len(content) > contentMost {
			return &no{45002, "content size out of limit"}
		}
		s.shown = append(s.shown, &Shown{Chat: chat, Kind: kind, Text: content})
		return nil

	case "template_card":
		return s.card(chat, object(body, kind))
	case "image", "file", "voice", "video":
		return s.media(chat, kind, object(body, kind))
	}

	return &no{40008, "invalid message type"}
}

// card shows a template card with buttons.
func (s *Server) card(chat string, card map[string]any) *no {
	list, _ := card["button_list"].([]any)
	title, about, task := word(object(card, "main_title"), "title"), word(card, "sub_title_text"), word(card, "task_id")
	switch {
	case !regexp.MustCompile(`^[0-9A-Za-z_@-]{1,128}$`).MatchString(task) || s.tasks[task]:
		return &no{42014, "invalid task_id"}
	case title == "" && about == "":
		return &no{40058, "main_title or sub_title_text is missing"}
	case word(card, "card_type") == "text_notice":
		if no := jump(card); no != nil {
			return no
		}
	case word(card, "card_type") != "button_interaction" || len(list) == 0 || len(list) > buttonsMost:
		return &no{40058, "invalid button_list"}
	}

	m := &Shown{Chat: chat, Kind: "template_card", Text: about, task: task}
	if about == "" {
		m.Text = title
	}

	for _, item := range list {
		b, _ := item.(map[string]any)
		label, key := word(b, "text"), word(b, "key")
		if label == "" || key == "" || len(key) > keyMost {
			return &no{40058, "invalid button"}
		}
		m.Buttons, m.keys = append(m.Buttons, label), append(m.keys, key)
	}

	s.tasks[task] = true
	s.shown = append(s.shown, m)
	return nil
}

// jump checks where a press on a notice leads: WeCom takes none without.
func jump(card map[string]any) *no {
	action := object(card, "card_action")
	kind, _ := action["type"].(float64)
	if kind == 1 && strings.HasPrefix(word(action, "url"), "https://") || kind == 2 && word(action, "appid") != "" {
		return nil
	}
	return &no{42045, "Template_Card card_action Missing or Invalid"}
}

func (s *Server) media(chat, kind string, body map[string]any) *no {
	u := s.uploads[word(body, "media_id")]
	if u == nil || u.id != "" || u.Kind != kind {
		return &no{40007, "invalid media_id"}
	}
	s.shown = append(s.shown, &Shown{Chat: chat, Kind: kind, Files: []string{u.Name}})
	return nil
}

func (s *Server) uploadBegin(body map[string]any) (map[string]any, *no) {
	size, _ := body["total_size"].(float64)
	chunks, _ := body["total_chunks"].(float64)
	u := &Upload{Kind: word(body, "type"), Name: word(body, "filename"), id: s.newID("upload"), size: int(size), md5: word(body, "md5"), chunks: make([][]byte, int(chunks))}
	most := map[string]int{"image": 10 << 20, "voice": 2 << 20, "video": 10 << 20, "file": 20 << 20}[u.Kind]
	switch {
	case most == 0:
		return nil, &no{40004, "invalid media type"}
	case u.size <= 5 || u.size > most:
		return nil, &no{40006, "invalid media size"}
	case u.Name == "" || chunks < 1 || chunks > chunksMost || (u.size+chunkMost-1)/chunkMost > int(chunks):
		return nil, &no{40058, "invalid parameter"}
	}

	s.uploads[u.id] = u
	return map[string]any{"upload_id": u.id}, nil
}

func (s *Server) uploadChunk(body map[string]any) *no {
	u := s.uploads[word(body, "upload_id")]
	at, ok := body["chunk_index"].(float64)
	data, err := base64.StdEncoding.DecodeString(word(body, "base64_data"))
	if u == nil || u.id == "" || !ok || int(at) < 0 || int(at) >= len(u.chunks) || err != nil || len(data) == 0 || len(data) > chunkMost {
		return &no{40058, "invalid chunk"}
	}
	u.chunks[int(at)] = data
	return nil
}

func (s *Server) uploadEnd(body map[string]any) (map[string]any, *no) {
	u := s.uploads[word(body, "upload_id")]
	if u == nil || u.id == "" {
		return nil, &no{40058, "invalid upload_id"}
	}

	u.Data = slices.Concat(u.chunks...)
	sum := md5.Sum(u.Data) //nolint:gosec // WeCom's checksum
	if len(u.Data) != u.size || u.md5 != "" && u.md5 != hex.EncodeToString(sum[:]) {
		return nil, &no{40058, "md5 mismatch"}
	}

	id := s.newID("media")
	delete(s.uploads, u.id)
	u.id = ""
	s.uploads[id] = u
	return map[string]any{"type": u.Kind, "media_id": id, "created_at": "1790000000"}, nil
}

func word(body map[string]any, key string) string { v, _ := body[key].(string); return v }

func object(body map[string]any, key string) map[string]any {
	v, _ := body[key].(map[string]any)
	return v
}
