package dingtalktest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	ws "github.com/coder/websocket"
)

// conn is one connection. Its fields but ws are guarded by the server's lock.
type conn struct {
	ws     *ws.Conn
	extra  [][]byte // other frames to send
	bye    bool
	polite bool
	frozen bool
}

func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	ticket := r.URL.Query().Get("ticket")
	s.mu.Lock()
	ok := s.tickets[ticket]
	delete(s.tickets, ticket) // good for one connection
	s.mu.Unlock()

	if !ok {
		http.Error(w, "the ticket is not good", http.StatusUnauthorized)
		return
	}

	cn := &conn{} // it is there before the client knows that it is connected
	s.mu.Lock()
	s.conns[cn] = true
	s.opened++
	cn.extra = append(cn.extra, s.frame("SYSTEM", "CONNECTED", "system-"+s.number(), []byte("{}")))
	s.news()
	s.mu.Unlock()
	defer s.forget(cn)
	c, err := ws.Accept(w, r, nil)
	if err != nil {
		return
	}

	c.SetReadLimit(1 << 20)
	defer c.CloseNow() //nolint:errcheck // over anyway
	cn.ws = c

	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.write(ctx, cn) }()
	s.read(ctx, cn)
	cancel()
	<-done
}

// forget ends a connection.
func (s *Server) forget(cn *conn) {
	s.locked(func() {
		delete(s.conns, cn)
		for _, p := range s.pending {
			if p.sent == cn {
				p.sent = nil // it comes again
			}
		}
		s.news()
	})
}

// read takes confirmations.
func (s *Server) read(ctx context.Context, cn *conn) {
	for {
		_, data, err := cn.ws.Read(ctx)
		if err != nil {
			return
		}

		var a struct {
			Code    int `json:"code"`
			Headers struct {
				MessageID string `json:"messageId"`
			} `json:"headers"`
			Data string `json:"data"`
		}
		if json.Unmarshal(data, &a) != nil || a.Headers.MessageID == "" {
			continue
		}

		s.locked(func() {
			s.acked[a.Headers.MessageID] = a.Code
			_, id, _ := strings.Cut(strings.TrimPrefix(a.Headers.MessageID, "frame-"), "-")
			s.acked[id] = a.Code
			s.pending = slices.DeleteFunc(s.pending, func(p *pending) bool { return p.id == id })
			s.news()
		})
	}
}

// write sends what is not confirmed until the connection ends.
func (s *Server) write(ctx context.Context, cn *conn) {
	for {
		s.mu.Lock()
		changed, bye, closed, polite := s.awaited(), cn.bye, s.closed, cn.polite
		var frames [][]byte
		if !cn.frozen {
			frames, cn.extra = cn.extra, nil
			for _, p := range s.pending {
				if p.sent == nil {
					p.sent = cn
					frames = append(frames, p.data)
				}
			}
		}

		s.mu.Unlock()
		for _, f := range frames {
			if cn.ws.Write(ctx, ws.MessageText, f) != nil {
				return
			}
		}

		if polite {
			_ = cn.ws.Close(ws.StatusNormalClosure, "")
			return
		}
		if bye || closed {
			_ = cn.ws.CloseNow()
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

// Cut breaks all connections of the stream.
func (s *Server) Cut() { s.each(func(cn *conn) { cn.bye = true }) }

// Leave closes all connections in order, as DingTalk does after a disconnect.
func (s *Server) Leave() { s.each(func(cn *conn) { cn.polite = true }) }

// Hang makes the connections half open: nothing comes any more.
func (s *Server) Hang() { s.each(func(cn *conn) { cn.frozen = true }) }

// Again sends what was not confirmed another time, as DingTalk does within a
// minute.
func (s *Server) Again() {
	s.locked(func() {
		for _, p := range s.pending {
			p.sent = nil
		}
		s.news()
	})
}

// System sends a frame of the stream itself, such as ping or disconnect, and
// returns the id that it is confirmed by.
func (s *Server) System(topic, data string) (id string) {
	s.locked(func() { id = "system-" + s.number() })
	s.each(func(cn *conn) { cn.extra = append(cn.extra, s.frame("SYSTEM", topic, id, []byte(data))) })
	return id
}

// Raw sends the clients a frame as it is.
func (s *Server) Raw(frame string) {
	s.each(func(cn *conn) { cn.extra = append(cn.extra, []byte(frame)) })
}

// Connected is how many clients are connected.
func (s *Server) Connected() (n int) { s.locked(func() { n = len(s.conns) }); return n }
