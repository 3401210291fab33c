package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
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

// awaitSocket waits for the channel, which starts beside the rest.
func awaitSocket(t *testing.T, url string) {
	t.Helper()
	for {
		_, resp, _ := websocket.Dial(t.Context(), url+"/", nil) //nolint:bodyclose // closed by Dial
		if resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
			return
		}
	}
}

// connect makes a client that has the token.
func connect(t *testing.T, url string) socket {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), url+"/?client_id=tester&token=correct-token-of-the-socket", nil) //nolint:bodyclose // closed by Dial
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	s := socket{t, conn}
	s.until("ready")
	return s
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

	awaitSocket(t, server.URL)
	for name, query := range map[string]string{"no token": "", "wrong token": "?token=wrong-token-of-somebody"} {
		_, resp, err := websocket.Dial(t.Context(), server.URL+"/"+query, nil) //nolint:bodyclose // closed by Dial
		if err == nil || resp == nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %v %v, want 401", name, resp, err)
		}
	}
	s := connect(t, server.URL)

	s.say(`{"content": #broken`) // no JSON, so it is what somebody wrote
	if m := s.until("message", "stream_end", "error"); m["event"] == "error" {
		t.Errorf("broken JSON: %v", m)
	}
	s.say(`{"type":"dance"}`)
	if m := s.until("error"); m["detail"] != "unknown type" {
		t.Errorf("unknown type: %v", m)
	}
	s.say(`{"type":"transcribe_audio","request_id":"1","data_url":"data:audio/ogg;base64,QUJD"}`)
	if m := s.until("transcription_error"); m["detail"] != "not_configured" { // no provider has a key here
		t.Errorf("a recording: %v", m)
	}
	s.say(strings.Repeat("far too long ", 1<<20/13+1)) // 1 MiB and a little
	if m := s.until("error"); m["reason"] != "text_too_large" {
		t.Errorf("1 MiB: %v", m)
	}
	s.say(`{"type":"message","chat_id":"a","content":"still #there?"}`)
	s.until("message_accepted")
	s.until("turn_end")
	h.must(s.conn.Close(websocket.StatusNormalClosure, ""))
	h.must(h.end())
}

// A message far larger than the model's window is answered all the same.
func TestHugeMessage(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t)
	model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("that was long") }
	h := running(t, model)
	h.must(h.party.write(t, "ann", "1", strings.Repeat("word ", 1<<20/5)))
	h.party.hear(t, "that was long")
	h.must(h.party.write(t, "ann", "2", "and now?"))
	h.party.hear(t, "that was long")
	h.must(h.end())
}

// What the owner has sent to another chat arrives there, and the conversation
// there knows of it.
func TestMessageToAnotherChat(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t,
		llmtest.Call("message", map[string]any{"content": "greetings #from-ann", "chat_id": "bob"}),
		llmtest.Call("message", map[string]any{"content": "lost", "channel": "nowhere", "chat_id": "bob"}),
		llmtest.Reply("done"),
	)
	h := unasking(t, model)
	h.must(h.party.write(t, "ann", "1", "greet bob"))
	for heard := map[string]bool{}; len(heard) < 2; { // two chats, in any order
		switch out := h.party.hear(t, ""); {
		case strings.Contains(out.Text, "#from-ann"):
			if heard["bob"] = true; out.Route.ChatID != "bob" {
				t.Errorf("sent to %+v", out.Route)
			}
		case out.Text == "done":
			heard["ann"] = true
		}
	}
	seen := model.Last().Messages
	if s := seen[len(seen)-1].Content.String(); !strings.Contains(s, "the channel nowhere is not switched on") {
		t.Errorf("the model was told %q", s)
	}
	h.must(h.end())
	name := base64.RawURLEncoding.EncodeToString([]byte("party:bob")) + ".jsonl"
	files, err := filepath.Glob(filepath.Join(h.dir, "sessions", "*", name))
	if err != nil || len(files) != 1 {
		t.Fatalf("conversations with bob: %v, %v", files, err)
	}
	if b, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(b), "greetings #from-ann") {
		t.Errorf("the conversation with bob is %s, %v", b, err)
	}
}
