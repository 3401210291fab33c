package mochattest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	ws "github.com/coder/websocket"
)

// link is one connection. All but conn is guarded by the server's lock.
type link struct {
	conn     *ws.Conn
	plain    bool
	in       bool // logged in
	cut      bool
	sessions map[string]bool
	panels   map[string]bool
	out      []raw
}

type raw struct {
	binary bool
	data   []byte
}

// emit queues an event. The lock is held.
func (l *link) emit(name string, body any) {
	if l.in {
		l.send(2, nil, []any{name, body})
	}
}

// send queues a packet of Socket.IO. The lock is held.
func (l *link) send(kind int, id any, data any) {
	if l.plain {
		text := fmt.Sprintf("4%d", kind)
		if id != nil {
			text += fmt.Sprint(id)
		}

		body, err := json.Marshal(data)
		if err != nil {
			panic(err) // values of this package
		}

		l.out = append(l.out, raw{false, append([]byte(text), body...)})
		return
	}

	p := map[string]any{"type": kind, "nsp": "/", "data": data}
	if id != nil {
		p["id"] = id
	}
	l.out = append(l.out, raw{true, pack(nil, p)})
}

func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	offline, plain, interval, timeout := s.offline, s.plain, s.interval, s.timeout
	s.mu.Unlock()
	q := r.URL.Query()
	if offline || q.Get("EIO") != "4" || q.Get("transport") != "websocket" {
		http.Error(w, `{"code":5,"message":"Unsupported protocol version"}`, http.StatusBadRequest)
		return
	}

	c, err := ws.Accept(w, r, nil)
	if err != nil {
		return
	}

	c.SetReadLimit(1_000_000)
	defer c.CloseNow() //nolint:errcheck // over anyway
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	l := &link{conn: c, plain: plain, sessions: map[string]bool{}, panels: map[string]bool{}}
	open := fmt.Sprintf(`0{"sid":"e1","upgrades":[],"pingInterval":%d,"pingTimeout":%d,"maxPayload":1000000}`, interval.Milliseconds(), timeout.Milliseconds())
	s.change(func() {
		l.out = append(l.out, raw{false, []byte(open)})
		s.live[l] = true
	})
	done := make(chan struct{})
	go func() { defer close(done); defer cancel(); s.write(ctx, l, interval) }()

	for {
		kind, data, err := c.Read(ctx)
		if err == nil {
			err = s.read(l, kind == ws.MessageBinary, data)
		}
		if err != nil {
			break
		}
	}

	cancel()
	_ = c.CloseNow()
	<-done
	s.change(func() { delete(s.live, l) })
}

// write sends what is queued, and pings.
func (s *Server) write(ctx context.Context, l *link, interval time.Duration) {
	ping := time.NewTicker(max(interval, time.Millisecond))
	defer ping.Stop()
	for {
		s.mu.Lock()
		frames, cut, changed := l.out, l.cut, s.changed
		l.out = nil
		s.mu.Unlock()

		if cut {
			_ = l.conn.CloseNow()
			return
		}

		for _, f := range frames {
			kind := ws.MessageText
			if f.binary {
				kind = ws.MessageBinary
			}
			if l.conn.Write(ctx, kind, f.data) != nil {
				return
			}
		}

		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ping.C:
			if l.conn.Write(ctx, ws.MessageText, []byte("2")) != nil {
				return
			}
		}
	}
}

var errProtocol = errors.New("parse error")

// read takes a frame. An error ends the connection, as a packet in the other
// encoding does.
func (s *Server) read(l *link, binary bool, data []byte) error {
	if !binary && string(data) == "3" {
		return nil
	}
	if binary == l.plain {
		return errProtocol
	}

	kind, id, body, err := decode(binary, data)
	if err != nil {
		return err
	}

	s.change(func() {
		switch {
		case kind == 0:
			auth, _ := body.(map[string]any)
			if token, _ := auth["token"].(string); token != s.token {
				l.send(4, nil, map[string]any{"message": "invalid token"})
				return
			}
			l.in = true
			l.send(0, nil, map[string]any{"sid": "s1"})

		case kind == 1 || !l.in:
			l.cut = true
		case kind == 2:
			s.called(l, id, body)
		}
	})
	return nil
}

// decode reads a packet of Socket.IO.
func decode(binary bool, data []byte) (kind int, id, body any, err error) {
	if binary {
		v, rest, err := unpack(data)
		p, ok := v.(map[string]any)
		n, whole := whole(p["type"])
		if nsp, _ := p["nsp"].(string); err != nil || len(rest) > 0 || !ok || !whole || nsp != "/" {
			return 0, nil, nil, errProtocol
		}
		return n, p["id"], p["data"], nil
	}

	if len(data) < 2 || data[0] != '4' || data[1] < '0' || data[1] > '4' {
		return 0, nil, nil, errProtocol
	}

	rest := data[2:]
	end := len(rest) - len(bytes.TrimLeft(rest, "0123456789"))
	if end > 0 {
		n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
		if err != nil {
			return 0, nil, nil, err
		}
		id = n
	}

	if len(rest) > end {
		err = json.Unmarshal(rest[end:], &body)
	}
	return int(data[1] - '0'), id, body, err
}

// called answers a call. The lock is held.
func (s *Server) called(l *link, id, body any) {
	list, _ := body.([]any)
	if len(list) != 2 || id == nil {
		l.cut = true
		return
	}

	name, _ := list[0].(string)
	args, _ := list[1].(map[string]any)
	refused := map[string]any{"result": false, "message": "the request is not valid"}
	switch {
	case s.deaf:
		l.send(3, id, []any{map[string]any{"result": false, "message": "try later"}})
	case name == "com.claw.im.subscribeSessions":
		l.send(3, id, []any{s.subscribeSessions(l, args, refused)})
	case name == "com.claw.im.subscribePanels":
		ids, ok := args["panelIds"].([]any)
		if !ok {
			l.send(3, id, []any{refused})
			return
		}

		for _, v := range ids {
			if panel, _ := v.(string); s.panels[panel] != nil {
				l.panels[panel] = true
			}
		}

		l.send(3, id, []any{map[string]any{"result": true, "data": map[string]any{"panelIds": ids}}})

	default:
		l.send(3, id, []any{map[string]any{"result": false, "message": "there is no event " + name}})
	}
}

func (s *Server) subscribeSessions(l *link, args, refused map[string]any) map[string]any {
	ids, ok := args["sessionIds"].([]any)
	cursors, ok2 := args["cursors"].(map[string]any)
	limit, ok3 := whole(args["limit"])
	if !ok || !ok2 || !ok3 || limit < 1 {
		return refused
	}

	data := []any{}
	for _, v := range ids {
		name, _ := v.(string)
		t := s.sessions[name]
		if t == nil {
			return map[string]any{"result": false, "message": "there is no session " + name}
		}

		cursor := 0
		if c, has := cursors[name]; has {
			if cursor, ok = whole(c); !ok {
				return refused
			}
		}

		l.sessions[name] = true
		data = append(data, limited(t, cursor, limit))
	}

	return map[string]any{"result": true, "data": map[string]any{"sessions": data}}
}
