package gateway_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

const askConfig = `{"agents": {"defaults": {"model": "m"}}, "gateway": {"heartbeat": {"enabled": false}},
	"tools": {"approval": {"mode": "ask"}, "exec": {"sandbox": "none"}}, "channels": {"websocket": {"enabled": true, SOCKET}}}`

// A question through the whole gateway: whatever says yes without naming it is a
// message or nothing, and the command runs only after the answer.
func TestSocketAnswers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a POSIX shell")
	}
	m := llmtest.NewScript(t,
		llmtest.Call("exec", map[string]any{"command": "touch first"}),
		llmtest.Call("exec", map[string]any{"command": "touch second"}),
		llmtest.Reply("done"),
	)
	h := newHost(t, m)
	h.configure(strings.Replace(askConfig, "SOCKET", `"token": "correct-token-of-the-socket"`, 1))
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	awaitSocket(t, server.URL)
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(h.dir, "workspace", name))
		return err == nil
	}
	asked := func(s socket) (id, code string) {
		for {
			if q, ok := s.until("message")["question"].(map[string]any); ok {
				id, _ = q["id"].(string)
				code, _ = q["code"].(string)
				return id, code
			}
		}
	}
	a := connect(t, server.URL)
	a.say(`{"type":"message","chat_id":"yard","content":"go","turn_id":"1"}`)
	first, _ := asked(a)
	for name, frame := range map[string]string{
		"a guessed id":      `{"type":"answer","chat_id":"yard","question_id":"0000000000000000-0000000000000000","option":"yes"}`,
		"a part of the id":  `{"type":"answer","chat_id":"yard","question_id":"` + first[:16] + `","option":"yes"}`,
		"from another chat": `{"type":"answer","chat_id":"elsewhere","question_id":"` + first + `","option":"yes"}`,
	} {
		a.say(frame)
		if gone := a.until("question_gone"); gone["text"] == nil || there("first") {
			t.Errorf("%s: %v", name, gone)
		}
	}
	a.say(`{"type":"answer","chat_id":"yard","question_id":"` + first + `","option":"no","remark":"later"}`)
	second, code := asked(a)
	a.say(`{"type":"answer","chat_id":"yard","question_id":"` + first + `","option":"yes"}`)
	if gone := a.until("question_gone"); gone["question_id"] != first && gone["question_id"] != second {
		t.Errorf("an answer to the question before: %v", gone)
	}
	if there("first") || there("second") {
		t.Error("a command ran without an answer")
	}
	a.say(`{"type":"message","chat_id":"yard","content":"yes ` + code + `","turn_id":"2"}`) // as a client that knows only buttons
	a.until("turn_end")
	if there("first") || !there("second") {
		t.Errorf("first %v, second %v; want only the second", there("first"), there("second"))
	}
	_ = a.conn.CloseNow()
	h.must(h.end())
}

// Who came without a token is not asked, and the model is told how to change it.
func TestSocketWithoutTokenIsNotAsked(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Call("exec", map[string]any{"command": "touch first"}), llmtest.Reply("done"))
	h := newHost(t, m)
	h.configure(strings.Replace(askConfig, "SOCKET", `"websocketRequiresToken": false`, 1))
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	awaitSocket(t, server.URL)
	conn, _, err := websocket.Dial(t.Context(), server.URL+"/?client_id=owner", nil) //nolint:bodyclose // closed by Dial
	if err != nil {
		t.Fatal(err)
	}
	s := socket{t: t, conn: conn}
	s.say(`{"type":"message","chat_id":"yard","content":"go","turn_id":"1"}`)
	s.until("turn_end")
	msgs := m.Last().Messages
	if got := msgs[len(msgs)-1].Content.String(); !strings.Contains(got, "no authenticated person can be asked here") || !strings.Contains(got, "token") {
		t.Errorf("the model was told %q", got)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "workspace", "first")); err == nil {
		t.Error("the command ran")
	}
	_ = conn.CloseNow()
	h.must(h.end())
}
