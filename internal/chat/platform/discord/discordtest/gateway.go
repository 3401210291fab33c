package discordtest

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	ws "github.com/coder/websocket"
)

// The operations of the gateway that a server sends or gets.
const (
	opDispatch  = 0
	opHeartbeat = 1
	opIdentify  = 2
	opPresence  = 3
	opVoice     = 4
	opResume    = 6
	opReconnect = 7
	opMembers   = 8
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
	next    int      // event to send
	extra   []Object // frames without a number
	bye     ws.StatusCode
	zip     *zlib.Writer // nil: not compressed
	buffer  bytes.Buffer
	frozen  bool // says nothing any more
}

func (s *Server) serveGateway(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Get("v") != "10" || q.Get("encoding") != "json" {
		http.Error(w, "only version 10 in JSON", http.StatusBadRequest)
		return
	}

	c, err := ws.Accept(w, r, &ws.AcceptOptions{CompressionMode: ws.CompressionDisabled})
	if err != nil {
		return
	}

	defer c.CloseNow() //nolint:errcheck // it may be closed already
	c.SetReadLimit(4096 * 4)

	cn := &conn{ws: c, next: 1, extra: []Object{{"op": opHello, "d": Object{"heartbeat_interval": s.interval().Milliseconds()}, "s": nil, "t": nil}}}
	if r.URL.Query().Get("compress") == "zlib-stream" {
		cn.zip = zlib.NewWriter(&cn.buffer)
	}

	s.mu.Lock()
	s.conns[cn] = true
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		defer cancel()
		s.write(ctx, cn)
	}()
	s.read(ctx, cn)

	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, cn)
	if cn.session != nil && cn.session.conn == cn {
		cn.session.conn = nil
	}
}

// read takes frames until the connection ends. A client that leaves properly
// gives its session up.
func (s *Server) read(ctx context.Context, cn *conn) {
	for {
		_, data, err := cn.ws.Read(ctx)
		if code := ws.CloseStatus(err); code == ws.StatusNormalClosure || code == ws.StatusGoingAway {
			s.locked(func() {
				if cn.session != nil {
					delete(s.sessions, cn.session.id)
				}
			})
		}

		if err != nil {
			return
		}

		var f struct {
			Op *int            `json:"op"`
			D  json.RawMessage `json:"d"`
		}
		if err := json.Unmarshal(data, &f); err != nil || f.Op == nil {
			s.end(cn, 4002)
			continue
		}
		s.take(cn, *f.Op, f.D)
	}
}

func (s *Server) end(cn *conn, code ws.StatusCode) {
	s.locked(func() { cn.bye = code; s.news() })
}

func (s *Server) take(cn *conn, op int, d json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.news()

	switch op {
	case opHeartbeat:
		cn.extra = append(cn.extra, Object{"op": opAck, "d": nil, "s": nil, "t": nil})
	case opIdentify:
		cn.bye = s.identify(cn, d)
	case opResume:
		cn.bye = s.resume(cn, d)
	case opPresence, opVoice, opMembers:
		if cn.session == nil {
			cn.bye = 4003
		}
	default:
		cn.bye = 4001
	}
}

// identify begins a session. It returns the code to close with, 0 for none.
func (s *Server) identify(cn *conn, d json.RawMessage) ws.StatusCode {
	var f struct {
		Token      string            `json:"token"`
		Intents    *int              `json:"intents"`
		Properties map[string]string `json:"properties"`
	}
	if cn.session != nil {
		return 4005
	}
	if err := json.Unmarshal(d, &f); err != nil || f.Properties == nil {
		return 4002
	}

	switch {
	case strings.TrimPrefix(f.Token, "Bot ") != Token:
		return 4004
	case f.Intents == nil || *f.Intents < 0 || *f.Intents >= 1<<26:
		return 4013
	case *f.Intents&(1<<1|1<<8|1<<15)&^s.intents != 0: // the privileged ones
		return 4014
	}

	s.identifies++
	se := &session{id: "session-" + strconv.Itoa(s.identifies), intents: *f.Intents, conn: cn}
	s.sessions[se.id], cn.session = se, se
	se.add("READY", Object{
		"v": 10, "user": s.bot(), "session_id": se.id, "resume_gateway_url": s.gatewayURL(), "shard": []int{0, 1}, "private_channels": []Object{},
		"guilds": []Object{{"id": GuildID, "unavailable": true}}, "application": Object{"id": s.botID, "flags": 1 << 19}, "relationships": []Object{},
	})
	se.add("GUILD_CREATE", s.guild())
	return 0
}

// resume continues a session behind the number that the client has seen.
func (s *Server) resume(cn *conn, d json.RawMessage) ws.StatusCode {
	var f struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int    `json:"seq"`
	}
	if err := json.Unmarshal(d, &f); err != nil {
		return 4002
	}
	if strings.TrimPrefix(f.Token, "Bot ") != Token {
		return 4004
	}

	se := s.sessions[f.Session]
	if se == nil {
		cn.extra = append(cn.extra, Object{"op": opInvalid, "d": false, "s": nil, "t": nil})
		return 0
	}
	if f.Seq < 0 || f.Seq > len(se.events) {
		return 4007
	}

	if se.conn != nil {
		se.conn.bye = 4005
	}

	cn.session, se.conn, cn.next = se, cn, f.Seq+1
	se.add("RESUMED", Object{})
	return 0
}

func (se *session) add(kind string, d any) {
	se.events = append(se.events, Object{"op": opDispatch, "t": kind, "s": len(se.events) + 1, "d": d})
}

// dispatch tells every session of an event that it may see. The lock is held.
func (s *Server) dispatch(kind string, d any) {
	for _, se := range s.sessions {
		o, _ := d.(Object)
		direct := o["guild_id"] == nil
		switch {
		case strings.HasPrefix(kind, "MESSAGE_") && direct && se.intents&4096 == 0, strings.HasPrefix(kind, "MESSAGE_") && !direct && se.intents&512 == 0:
			continue
		case strings.HasPrefix(kind, "MESSAGE_") && !direct && se.intents&32768 == 0 && !mentions(o, s.botID):
			o = clone(o)
			o["content"], o["attachments"], o["embeds"], o["components"] = "", []Object{}, []Object{}, []Object{}
			se.add(kind, o)
		default:
			se.add(kind, json.RawMessage(encode(d)))
		}
	}
	s.news()
}

func clone(o Object) Object {
	var out Object
	if err := json.Unmarshal(encode(o), &out); err != nil {
		panic(err)
	}
	return out
}

func mentions(m Object, user string) bool {
	list, _ := m["mentions"].([]Object)
	for _, u := range list {
		if u["id"] == user {
			return true
		}
	}
	return false
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
			if cn.send(ctx, encode(f)) != nil {
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

func (cn *conn) send(ctx context.Context, data []byte) error {
	if cn.zip == nil {
		return cn.ws.Write(ctx, ws.MessageText, data)
	}

	cn.buffer.Reset()
	if _, err := cn.zip.Write(data); err != nil {
		return err
	}
	if err := cn.zip.Flush(); err != nil {
		return err
	}
	return cn.ws.Write(ctx, ws.MessageBinary, cn.buffer.Bytes())
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

func (s *Server) interval() (d time.Duration) { s.locked(func() { d = s.beat }); return d }

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
	s.each(func(cn *conn) { cn.extra = append(cn.extra, Object{"op": opReconnect, "d": nil, "s": nil, "t": nil}) })
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

// Connected is how many clients have a session now, Identified how many
// sessions there were.
func (s *Server) Connected() (n int) {
	s.each(func(cn *conn) {
		if cn.session != nil && !cn.frozen {
			n++
		}
	})
	return n
}

// Identified is how many sessions were begun.
func (s *Server) Identified() (n int) { s.locked(func() { n = s.identifies }); return n }

func (s *Server) gatewayURL() string {
	return "ws" + strings.TrimPrefix(s.http.URL, "http") + "/gateway"
}

func (s *Server) guild() Object {
	role := Object{"id": GuildID, "name": "@everyone", "color": 0, "colors": Object{"primary_color": 0, "secondary_color": nil, "tertiary_color": nil}, "hoist": false, "position": 0, "permissions": "8", "managed": false, "mentionable": false, "flags": 0}
	own := clone(role)
	own["id"], own["name"], own["managed"], own["tags"], own["position"] = BotRole, BotName, true, Object{"bot_id": s.botID}, 1
	channels, threads := []Object{}, []Object{}
	for _, c := range s.channels {
		switch {
		case c["guild_id"] == nil:
		case c["thread_metadata"] == nil:
			channels = append(channels, c)
		case threadMeta(c)["archived"] != true:
			threads = append(threads, c)
		}
	}

	return clone(Object{
		"id": GuildID, "name": "Home", "icon": nil, "splash": nil, "discovery_splash": nil, "owner_id": "42", "region": "", "afk_channel_id": nil, "afk_timeout": 300,
		"verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "roles": []Object{role, own}, "emojis": []Object{}, "features": []string{},
		"mfa_level": 0, "application_id": nil, "system_channel_id": nil, "system_channel_flags": 0, "rules_channel_id": nil, "vanity_url_code": nil, "description": nil,
		"banner": nil, "premium_tier": s.tier, "premium_subscription_count": 0, "preferred_locale": "en-US", "public_updates_channel_id": nil, "nsfw_level": 0, "nsfw": false,
		"premium_progress_bar_enabled": false, "joined_at": "2026-01-01T00:00:00.000000+00:00", "large": false, "unavailable": false, "member_count": 2, "voice_states": []Object{},
		"members":  []Object{{"user": s.bot(), "roles": []string{BotRole}, "joined_at": "2026-01-01T00:00:00.000000+00:00", "deaf": false, "mute": false, "flags": 0, "nick": nil}},
		"channels": channels, "threads": threads, "presences": []Object{}, "stage_instances": []Object{}, "guild_scheduled_events": []Object{}, "stickers": []Object{},
		"soundboard_sounds": []Object{}, "safety_alerts_channel_id": nil, "max_members": 500000, "hub_type": nil, "lazy": true,
	})
}
