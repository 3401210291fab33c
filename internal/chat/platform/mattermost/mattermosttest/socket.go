package mattermosttest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	ws "github.com/coder/websocket"
)

// conn is what the server remembers of a connection: all events since it began,
// also those that it could not send. A client that comes back with its id and
// the number of the next event gets the ones it has missed.
type conn struct {
	id     string
	user   string
	frames []string
	link   *link // nil: lost
}

// link is a WebSocket.
type link struct {
	ws   *ws.Conn
	wake chan struct{} // capacity 1
	end  context.CancelFunc
	conn *conn // nil: not authenticated yet
	next int   // of conn.frames
	raw  []string
}

// publish tells all members of a channel of a post. The lock is held.
func (s *Server) publish(event string, p Post) {
	c := s.channels[p.ChannelID]
	if c == nil {
		return
	}

	data := map[string]any{"post": encode(public(p))} // all that the server says of an edited or a deleted post
	if event == "posted" {
		data["channel_type"], data["channel_name"], data["channel_display_name"] = c.Type, c.Name, c.DisplayName
		data["team_id"], data["set_online"] = c.TeamID, true
		if u := s.users[p.UserID]; u != nil {
			data["sender_name"] = "@" + u.Username
		}
	}

	for _, user := range c.members {
		s.event(user, event, data, map[string]any{"omit_users": nil, "user_id": "", "channel_id": c.ID, "team_id": ""})
	}
	s.news()
}

// event sends one to a user. The lock is held.
func (s *Server) event(user, event string, data, broadcast map[string]any) {
	for _, c := range s.conns {
		if c.user == user {
			c.add(event, data, broadcast)
		}
	}
}

func (c *conn) add(event string, data, broadcast map[string]any) {
	c.frames = append(c.frames, encode(map[string]any{"event": event, "data": data, "broadcast": broadcast, "seq": len(c.frames)}))
	c.link.tell()
}

func (l *link) tell() {
	if l == nil {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Event sends any event to the bot.
func (s *Server) Event(event string, data map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.event(BotID(), event, data, map[string]any{})
}

// Raw sends any text on all connections, outside of the events.
func (s *Server) Raw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		l.raw = append(l.raw, text)
		l.tell()
	}
}

// Skip makes the server lose an event of the bot: the next one has a number that
// is too high.
func (s *Server) Skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c.user == BotID() && c.link != nil {
			c.frames = append(c.frames, "")
		}
	}
}

// Cut ends all connections. What is sent meanwhile waits for their return.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.live {
		l.end()
		_ = l.ws.CloseNow()
		s.leave(l)
	}
}

// Restart ends all connections and forgets them, as a restart of the server does.
func (s *Server) Restart() {
	s.Cut()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.conns)
	clear(s.pending)
}

// Connected is how many connections of the bot there are.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for l := range s.live {
		if l.conn != nil && l.conn.user == BotID() {
			n++
		}
	}
	return n
}

// Dials are the queries of all connections so far.
func (s *Server) Dials() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dials)
}

// leave notes that a link is gone. The lock is held.
func (s *Server) leave(l *link) {
	delete(s.live, l)
	if l.conn != nil && l.conn.link == l {
		l.conn.link = nil
	}
	s.news()
}

// socket serves a WebSocket. A client without a token, or with a wrong one, is
// let in all the same and must authenticate there.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	c, err := ws.Accept(w, r, &ws.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}

	ctx, end := context.WithCancel(r.Context())
	defer end()
	l := &link{ws: c, wake: make(chan struct{}, 1), end: end}
	s.mu.Lock()
	s.dials = append(s.dials, r.URL.RawQuery)
	s.live[l] = true
	if token, found := bearer(r.Header.Get("Authorization")); found && s.tokens[token] != "" {
		s.admit(l, s.tokens[token], r.URL.Query())
	}

	s.news()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leave(l)
	}()

	go func() {
		defer end()
		s.write(ctx, l)
	}()
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			_ = c.CloseNow()
			return
		}
		s.action(l, data)
	}
}

func bearer(header string) (string, bool) {
	const scheme = "Bearer "
	if len(header) > len(scheme) {
		return header[len(scheme):], true
	}
	return "", false
}

// admit begins a connection or takes up the one that q names. The lock is held.
func (s *Server) admit(l *link, user string, q url.Values) {
	seq, err := strconv.Atoi(q.Get("sequence_number"))
	old := s.conns[q.Get("connection_id")]
	if old != nil && old.user == user && err == nil && seq > 0 && seq <= len(old.frames) {
		old.link, l.conn, l.next = l, old, seq
		l.tell()
		return
	}

	l.conn = &conn{id: s.newID("conn"), user: user, link: l}
	s.conns[l.conn.id] = l.conn
	l.conn.add("hello", map[string]any{"connection_id": l.conn.id, "server_version": "11.0.0", "server_hostname": "fake"}, map[string]any{"user_id": user})
}

// write sends what there is until ctx ends.
func (s *Server) write(ctx context.Context, l *link) {
	for {
		s.mu.Lock()
		var out []string
		if l.conn != nil && l.conn.link == l {
			out = append(out, l.conn.frames[l.next:]...)
			l.next = len(l.conn.frames)
		}

		out = append(out, l.raw...)
		l.raw = nil
		s.mu.Unlock()

		for _, f := range out {
			if f == "" { // lost
				continue
			}

			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			err := l.ws.Write(ctx, ws.MessageText, []byte(f))
			cancel()
			if err != nil {
				return
			}
		}

		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
	}
}

// action answers what a client asks on the WebSocket.
func (s *Server) action(l *link, data []byte) {
	var q struct {
		Action string         `json:"action"`
		Seq    int64          `json:"seq"`
		Data   map[string]any `json:"data"`
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	defer s.news()
	fail := func(no *refusal) {
		l.raw = append(l.raw, encode(map[string]any{"status": "FAIL", "error": no, "seq_reply": q.Seq}))
		l.tell()
	}
	word := func(key string) string { v, _ := q.Data[key].(string); return v }

	if json.Unmarshal(data, &q) != nil || q.Seq <= 0 || q.Action == "" {
		fail(&refusal{"api.websocket_handler.invalid_param.app_error", "Invalid request.", "", http.StatusBadRequest})
		return
	}

	reply := map[string]any{}
	switch {
	case q.Action == "authentication_challenge" && s.tokens[word("token")] == "":
		fail(errSession())
		return
	case q.Action == "authentication_challenge":
		if l.conn == nil {
			s.admit(l, s.tokens[word("token")], nil) // only the handshake can take one up
		}
	case l.conn == nil:
		fail(errSession())
		return
	case q.Action == "ping":
		reply["text"] = "pong"
	case q.Action == "user_typing":
		s.typing = append(s.typing, word("channel_id")+" "+word("parent_id"))
	default:
		fail(&refusal{"api.web_socket_router.bad_action.app_error", "Unknown WebSocket action.", "", http.StatusBadRequest})
		return
	}

	l.raw = append(l.raw, encode(map[string]any{"status": "OK", "data": reply, "seq_reply": q.Seq}))
	l.tell()
}
