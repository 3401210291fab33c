package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// socketConfig lets programs in with a token.
const socketConfig = `{"agents": {"defaults": {"model": "m"}}, "gateway": {"heartbeat": {"enabled": false}},
	"channels": {"websocket": {"enabled": true, "token": "correct-token-of-the-socket"}}}`

// socket is a client of the gateway's socket.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

// until reads events up to one of a kind and returns it.
func (s socket) until(kinds ...string) map[string]any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	var seen []string
	for {
		_, data, err := s.conn.Read(ctx)
		if err != nil {
			s.t.Fatalf("no %v after %q: %v", kinds, seen, err)
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			s.t.Fatal(err)
		}
		kind, _ := m["event"].(string)
		if slices.Contains(kinds, kind) {
			return m
		}
		seen = append(seen, kind)
	}
}

func (s socket) say(frame string) {
	s.t.Helper()
	if err := s.conn.Write(s.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		s.t.Fatal(err)
	}
}

// Whatever a client sends, it gets an answer, and the socket and the gateway go
// on.
func TestSocketInput(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(socketConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()

	for { // the channel starts beside the rest
		_, resp, _ := websocket.Dial(t.Context(), server.URL+"/", nil) //nolint:bodyclose // closed by Dial
		if resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
			break
		}
	}
	for name, query := range map[string]string{"no token": "", "wrong token": "?token=wrong-token-of-somebody"} {
		_, resp, err := websocket.Dial(t.Context(), server.URL+"/"+query, nil) //nolint:bodyclose // closed by Dial
		if err == nil || resp == nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %v %v, want 401", name, resp, err)
		}
	}
	conn, _, err := websocket.Dial(t.Context(), server.URL+"/?token=correct-token-of-the-socket", nil) //nolint:bodyclose // closed by Dial
	h.must(err)
	defer conn.CloseNow() // closed below already
	conn.SetReadLimit(-1)
	s := socket{t, conn}
	s.until("ready")

	s.say(`{"content": #broken`) // no JSON, so it is what somebody wrote
	if m := s.until("message", "stream_end", "error"); m["event"] == "error" {
		t.Errorf("broken JSON: %v", m)
	}
	s.say(`{"type":"dance"}`)
	if m := s.until("error"); m["detail"] != "unknown type" {
		t.Errorf("unknown type: %v", m)
	}
	s.say(strings.Repeat("far too long ", 1<<20/13+1)) // 1 MiB and a little
	if m := s.until("error"); m["reason"] != "text_too_large" {
		t.Errorf("1 MiB: %v", m)
	}
	s.say(`{"type":"message","chat_id":"a","content":"still #there?"}`)
	s.until("message_accepted")
	s.until("turn_end")
	h.must(conn.Close(websocket.StatusNormalClosure, ""))
	h.must(h.end())
}

// A message far larger than the model's window is answered all the same.
func TestHugeMessage(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t)
	model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("that was long") }
	h := newHost(t, model).start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", strings.Repeat("word ", 1<<20/5)))
	h.party.hear(t, "that was long")
	h.must(h.party.write(t, "ann", "2", "and now?"))
	h.party.hear(t, "that was long")
	h.must(h.end())
}
