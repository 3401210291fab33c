package qqtest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	ws "github.com/coder/websocket"
)

// The operations of the gateway.
const (
	opDispatch  = 0
	opHeartbeat = 1
	opIdentify  = 2
	opResume    = 6
	opReconnect = 7
	opInvalid   = 9
	opHello     = 10
	opAck       = 11
)

// session is what a bot is told, over any number of connections.
type session struct {
	id      string
	intents int
	events  []Object // the first has the number 1
	conn    *conn    // that serves it now, nil if none does
}

// conn is one connection. Its fields but ws are guarded by the server's lock.
type conn struct {
	ws      *ws.Conn
	session *session
	next    int      // event to send, from 1
	extra   []Object // other frames to send
	bye     ws.StatusCode
	frozen  bool
}

func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	c, err := ws.Accept(w, r, nil)
	if err != nil {
		return
	}

	c.SetReadLimit(1 << 20)
	defer c.CloseNow() //nolint:errcheck // over anyway
	cn := &conn{ws: c, next: 1}
	s.mu.Lock()
	cn.extra = []Object{{"op": opHello, "d": Object{"heartbeat_interval": s.beat.Milliseconds()}}}
	s.conns[cn] = true
	s.mu.Unlock()

	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.write(ctx, cn) }()
	s.read(ctx, cn)
	cancel()
	<-done
	s.locked(func() {
		delete(s.conns, cn)
		if cn.session != nil && cn.session.conn == cn {
			cn.session.conn = nil
		}
	})
}

func (s *Server) read(ctx context.Context, cn *conn) {
	for {
		_, data, err := cn.ws.Read(ctx)
		if err != nil {
			return
		}

		var f struct {
			Op *int            `json:"op"`
			D  json.RawMessage `json:"d"`
		}
		bad := json.Unmarshal(data, &f) != nil || f.Op == nil
		s.locked(func() {
			defer s.news()
			switch {
			case bad:
				cn.bye = 4002
			case *f.Op == opHeartbeat:
				cn.extra = append(cn.extra, Object{"op": opAck})
			case *f.Op == opIdentify:
				cn.bye = s.identify(cn, f.D)
			case *f.Op == opResume:
				cn.bye = s.resume(cn, f.D)
			default:
				cn.bye = 4001
			}
		})
	}
}

// identify begins a session. It returns the code to close with, 0 for none.
func (s *Server) identify(cn *conn, d json.RawMessage) ws.StatusCode {
	var f struct {
		Token   string `json:"token"`
		Intents int    `json:"intents"`
		Shard   []int  `json:"shard"`
	}
	switch {
	case json.Unmarshal(d, &f) != nil:
		return 4002
	case s.token == "" || f.Token != "QQBot "+s.token:
		return 4004
	case len(f.Shard) != 2 || f.Shard[0] != 0 || f.Shard[1] != 1:
		return 4010
	case f.Intents <= 0:
		return 4013
	case f.Intents&^s.intents != 0:
		return 4014
	}

	s.identifies++
	se := &session{id: "session-" + s.app + "-" + strconv.Itoa(s.identifies), intents: f.Intents, conn: cn}
	s.sessions[se.id], cn.session = se, se
	se.add("READY", Object{
		"version": 1, "session_id": se.id, "user": Object{"id": BotID, "username": BotName, "bot": true, "status": 1}, "shard": []int{0, 1},
	})
	return 0
}

// resume continues a session behind the number that the client has seen.
func (s *Server) resume(cn *conn, d json.RawMessage) ws.StatusCode {
	var f struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int    `json:"seq"`
	}
	if json.Unmarshal(d, &f) != nil {
		return 4002
	}
	if s.token == "" || f.Token != "QQBot "+s.token {
		return 4004
	}

	se := s.sessions[f.Session]
	if se == nil {
		cn.extra = append(cn.extra, Object{"op": opInvalid, "d": false})
		return 0
	}
	if f.Seq < 0 || f.Seq > len(se.events) {
		return 4007
	}

	s.resumes++
	cn.session, se.conn, cn.next = se, cn, f.Seq+1
	se.add("RESUMED", "")
	return 0
}

func (se *session) add(kind string, d any) {
	n := len(se.events) + 1
	se.events = append(se.events, Object{"op": opDispatch, "id": kind + ":" + strconv.Itoa(n), "t": kind, "s": n, "d": d})
}

// intentOf is what a bot must have asked for to be told of an event.
func intentOf(kind string) int {
	switch {
	case kind == "INTERACTION_CREATE":
		return 1 << 26
	case kind == "AT_MESSAGE_CREATE":
		return 1 << 30
	case kind == "DIRECT_MESSAGE_CREATE":
		return 1 << 12
	case strings.HasPrefix(kind, "C2C_"), strings.HasPrefix(kind, "GROUP_"), strings.HasPrefix(kind, "FRIEND_"):
		return 1 << 25
	}
	return 0
}

// dispatch tells every session of an event that it may see. The lock is held.
func (s *Server) dispatch(kind string, d any) {
	for _, se := range s.sessions {
		if need := intentOf(kind); se.intents&need == need {
			se.add(kind, json.RawMessage(encode(d)))
		}
	}
	s.news()
}

// write sends what the connection should know until it ends.
func (s *Server) write(ctx context.Context, cn *conn) {
	for {
		s.mu.Lock()
		changed, bye, closed := s.changed, cn.bye, s.closed
		var frames []Object
		if !cn.frozen {
			frames, cn.extra = cn.extra, nil
			if cn.session != nil && cn.session.conn == cn {
				frames = append(frames, cn.session.events[cn.next-1:]...)
				cn.next = len(cn.session.events) + 1
			}
		}

		s.mu.Unlock()
		for _, f := range frames {
			if cn.ws.Write(ctx, ws.MessageText, encode(f)) != nil {
				return
			}
		}

		if bye != 0 {
			_ = cn.ws.Close(bye, "")
			return
		}
		if closed {
			return
		}

		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (s *Server) each(do func(cn *conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cn := range s.conns {
		do(cn)
	}
	s.news()
}

// Beat sets the time between two heartbeats of connections to come.
func (s *Server) Beat(d time.Duration) { s.locked(func() { s.beat = d }) }

// Cut breaks all connections of the gateway; sessions can be resumed.
func (s *Server) Cut() {
	var list []*conn
	s.each(func(cn *conn) { list = append(list, cn) })
	for _, cn := range list {
		_ = cn.ws.CloseNow()
	}
}

// Hang makes the connections half open: they stay, and nothing comes any more.
func (s *Server) Hang() { s.each(func(cn *conn) { cn.frozen = true }) }

// Forget gives all sessions up, so that they cannot be resumed.
func (s *Server) Forget() { s.locked(func() { clear(s.sessions) }) }

// Reconnect asks the clients to connect again.
func (s *Server) Reconnect() {
	s.each(func(cn *conn) { cn.extra = append(cn.extra, Object{"op": opReconnect}) })
}

// CloseWith closes the connections with a code.
func (s *Server) CloseWith(code int) { s.each(func(cn *conn) { cn.bye = ws.StatusCode(code) }) }

// Raw sends the clients a frame as it is.
func (s *Server) Raw(frame string) {
	var list []*conn
	s.each(func(cn *conn) { list = append(list, cn) })
	for _, cn := range list {
		_ = cn.ws.Write(context.Background(), ws.MessageText, []byte(frame))
	}
}

// Connected is how many clients have a session now.
func (s *Server) Connected() (n int) {
	s.locked(func() {
		for cn := range s.conns {
			if cn.session != nil && !cn.frozen && cn.bye == 0 {
				n++
			}
		}
	})
	return n
}

// Identified is how many sessions were begun, Resumed how often one was resumed.
func (s *Server) Identified() (n int) { s.locked(func() { n = s.identifies }); return n }

// Resumed is how often a session was resumed.
func (s *Server) Resumed() (n int) { s.locked(func() { n = s.resumes }); return n }
