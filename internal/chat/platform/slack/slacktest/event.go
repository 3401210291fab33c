package slacktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	ws "github.com/coder/websocket"
)

const (
	pingEvery = 5 * time.Second
	hookWait  = 3 * time.Second
	hookTries = 3
)

// conn is a connection of Socket Mode.
type conn struct {
	ws   *ws.Conn
	wake chan struct{} // capacity 1
	out  []any         // frames to send
}

// envelope is an event that is not acknowledged yet.
type envelope struct {
	ID      string `json:"envelope_id"`
	Kind    string `json:"type"`
	Payload any    `json:"payload"`
	Attempt int    `json:"retry_attempt"`
	Answer  bool   `json:"accepts_response_payload"`
	sentTo  *conn
}

func (s *Server) openConnection(token string) (object, error) {
	switch {
	case token == "":
		return nil, refusal("not_authed")
	case token == BotToken:
		return nil, refusal("not_allowed_token_type")
	case token != AppToken:
		return nil, refusal("invalid_auth")
	}

	s.serial++
	ticket := fmt.Sprintf("ticket-%d", s.serial)
	s.tickets[ticket] = true
	return object{"url": "ws" + strings.TrimPrefix(s.http.URL, "http") + "/link?ticket=" + ticket + "&app_id=" + App}, nil
}

// Deaf refuses connections of Socket Mode from now on, or no more.
func (s *Server) Deaf(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = on
}

// link is a connection of Socket Mode. A ticket is good for one.
func (s *Server) link(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	ticket := r.URL.Query().Get("ticket")
	ok := s.tickets[ticket] && !s.deaf && !s.closed
	delete(s.tickets, ticket)
	s.mu.Unlock()

	if !ok {
		http.Error(w, "link_disabled", http.StatusForbidden)
		return
	}

	socket, err := ws.Accept(w, r, nil)
	if err != nil {
		return
	}

	defer socket.CloseNow() //nolint:errcheck // also where it was not served
	c := &conn{ws: socket, wake: make(chan struct{}, 1)}
	c.out = append(c.out, object{
		"type": "hello", "num_connections": 1, "connection_info": object{"app_id": App},
		"debug_info": object{"host": "fake", "approximate_connection_time": 18060},
	})
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s.mu.Lock()

	if s.closed {
		s.mu.Unlock()
		return
	}

	s.conns[c] = true
	s.work.Add(1)
	s.news()
	s.mu.Unlock()
	defer s.work.Done()
	defer s.leave(c)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer socket.CloseNow() //nolint:errcheck // ends the readers
	readers.Go(func() {
		defer cancel()
		s.acks(ctx, c)
	})
	readers.Go(func() { pings(ctx, c) })
	s.feed(ctx, c)
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.conns, c)
	for _, e := range s.envelopes {
		if e.sentTo == c {
			e.sentTo = nil
			e.Attempt++
		}
	}

	s.news()
}

// feed writes frames until the connection ends.
func (s *Server) feed(ctx context.Context, c *conn) {
	for {
		for _, f := range s.take(c) {
			if raw, ok := f.([]byte); ok {
				if c.ws.Write(ctx, ws.MessageText, raw) != nil {
					return
				}
				continue
			}

			data, err := json.Marshal(f)
			if err != nil || c.ws.Write(ctx, ws.MessageText, data) != nil {
				return
			}
			if o, ok := f.(object); ok && o["type"] == "disconnect" {
				_ = c.ws.Close(ws.StatusNormalClosure, "")
				return
			}
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
	}
}

// pings keeps clients that watch for them.
func pings(ctx context.Context, c *conn) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for c.ws.Ping(ctx) == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// take returns what a connection is to send: one connection gets each envelope.
func (s *Server) take(c *conn) []any {
	s.mu.Lock()
	defer s.mu.Unlock()

	out := c.out
	c.out = nil
	for _, e := range s.envelopes {
		if e.sentTo == nil {
			e.sentTo = c
			out = append(out, *e)
		}
	}
	return out
}

// acks reads what the client confirms.
func (s *Server) acks(ctx context.Context, c *conn) {
	for {
		_, data, err := c.ws.Read(ctx)
		if err != nil {
			return
		}

		var ack struct {
			ID string `json:"envelope_id"`
		}
		if json.Unmarshal(data, &ack) != nil || ack.ID == "" {
			_ = c.ws.Close(ws.StatusPolicyViolation, "not an acknowledgement")
			return
		}

		s.mu.Lock()
		s.envelopes = slices.DeleteFunc(s.envelopes, func(e *envelope) bool { return e.ID == ack.ID })
		s.acked = append(s.acked, ack.ID)
		s.news()
		s.mu.Unlock()
	}
}

// wakeAll lets all connections look for work. The lock is held.
func (s *Server) wakeAll() {
	for c := range s.conns {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	s.news()
}

// Connected counts the connections of Socket Mode.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Pending counts the events that are not acknowledged.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.envelopes)
}

// Frame sends something else to all connections: bytes as they are, or JSON.
func (s *Server) Frame(f any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.out = append(c.out, f)
	}
	s.wakeAll()
}

// Refresh asks all clients to connect again, and closes.
func (s *Server) Refresh(reason string) { s.Frame(object{"type": "disconnect", "reason": reason}) }

// Cut cuts all connections of Socket Mode.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.ws.CloseNow()
	}
}

// Hook sends events to an address instead, as the Events API does.
func (s *Server) Hook(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = address
}

// Event delivers an inner event and returns its event_id.
func (s *Server) Event(inner map[string]any) string {
	s.mu.Lock()
	s.serial++
	id := fmt.Sprintf("Ev0%d", s.serial)
	s.mu.Unlock()
	s.Deliver("events_api", object{
		"type": "event_callback", "token": "legacy", "team_id": Team, "api_app_id": App, "event_id": id, "event_time": time.Now().Unix(),
		"event": inner, "authorizations": []object{{"team_id": Team, "user_id": BotUser, "is_bot": true}},
	})
	return id
}

// Tap lets a person press a button of a message of the bot's.
func (s *Server) Tap(user, channel, ts, actionID, value string) {
	s.mu.Lock()
	s.serial++
	message := object{"ts": ts}
	if m := s.message(channel, ts); m != nil {
		message = s.shown(m)
	}

	payload := object{
		"type": "block_actions", "user": object{"id": user}, "team": object{"id": Team}, "api_app_id": App,
		"trigger_id": fmt.Sprintf("trigger.%d", s.serial), "response_url": s.http.URL + "/response",
		"channel": object{"id": channel}, "message": message, "container": object{"type": "message", "message_ts": ts, "channel_id": channel},
		"actions": []object{{"type": "button", "action_id": actionID, "block_id": "b1", "value": value, "action_ts": s.nextTS()}},
	}

	s.mu.Unlock()
	s.Deliver("interactive", payload)
}

// Slash lets a person use a slash command.
func (s *Server) Slash(user, channel, command, text string) {
	s.mu.Lock()
	s.serial++
	trigger := fmt.Sprintf("trigger.%d", s.serial)
	s.mu.Unlock()
	s.Deliver("slash_commands", object{
		"command": command, "text": text, "user_id": user, "channel_id": channel, "team_id": Team,
		"trigger_id": trigger, "response_url": s.http.URL + "/response", "api_app_id": App,
	})
}

// Deliver sends a payload: by Socket Mode until it is acknowledged, or by HTTP.
func (s *Server) Deliver(kind string, payload any) {
	s.mu.Lock()
	hook := s.hook
	if hook == "" {
		s.serial++
		s.envelopes = append(s.envelopes, &envelope{ID: fmt.Sprintf("env-%d", s.serial), Kind: kind, Payload: payload, Answer: kind != "events_api"})
		s.wakeAll()
	}

	s.mu.Unlock()
	if hook != "" {
		s.push(hook, kind, payload)
	}
}

// push posts a payload until it is accepted, three times at most.
func (s *Server) push(hook, kind string, payload any) {
	contentType, body := Body(kind, payload)
	for try := range hookTries {
		header := Sign(body, time.Now())
		header.Set("Content-Type", contentType)
		if try > 0 {
			header.Set("X-Slack-Retry-Num", strconv.Itoa(try))
			header.Set("X-Slack-Retry-Reason", "http_error")
		}

		if code, _ := Request(hook, header, body); code/100 == 2 {
			return
		}
	}
}

// Body is a payload as Slack posts it.
func Body(kind string, payload any) (contentType string, body []byte) {
	data, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}

	const form = "application/x-www-form-urlencoded"
	switch kind {
	case "interactive":
		return form, []byte(url.Values{"payload": {string(data)}}.Encode())
	case "slash_commands":
		values := url.Values{}
		if all, ok := payload.(object); ok {
			for k, v := range all {
				values.Set(k, str(v))
			}
		}
		return form, []byte(values.Encode())
	}

	return "application/json", data
}

// Sign makes the headers that prove a body.
func Sign(body []byte, at time.Time) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(SigningSecret))
	mac.Write([]byte("v0:" + stamp + ":"))
	mac.Write(body)
	h := http.Header{}
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	return h
}

// Request posts something and returns the answer. A code of 0 is none.
func Request(address string, header http.Header, body []byte) (code int, answer string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*hookWait) // Slack has three seconds, a busy test machine more
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}

	req.Header = header
	req.Close = true
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return 0, err.Error()
	}

	defer res.Body.Close() //nolint:errcheck // read only
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(data)
}
