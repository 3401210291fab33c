package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// A question through the whole gateway: what a client learns about the call, the
// list of open questions, the answer on another device, the record of answers,
// and what an explanation says about the same call.
func TestQuestionsOfWebClients(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a POSIX shell")
	}
	const command = "touch \u00adfirst; echo correct-token-of-the-socket > /dev/null"
	m := llmtest.NewScript(t,
		llmtest.Call("exec", map[string]any{"command": "touch a\u00ad; echo printed; until test -e go; do sleep 0.05; done"}),
		llmtest.Call("write_file", map[string]any{"path": "b.txt", "content": command + "\n"}),
		llmtest.Reply("done"),
	)
	h := newHost(t, m)
	h.configure(strings.Replace(askConfig, "SOCKET", `"token": "correct-token-of-the-socket"`, 1))
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	awaitSocket(t, server.URL)
	read := func(path string, into any) {
		t.Helper()
		code, body := fetch(t, server.URL+"/api/"+path, "correct-token-of-the-socket")
		if code != 200 {
			t.Fatalf("%s = %d %s", path, code, body)
		}
		if strings.Contains(body, "correct-token") {
			t.Errorf("%s shows a credential: %s", path, body)
		}
		h.must(json.Unmarshal([]byte(body), into))
	}
	asked := func(s socket) map[string]any {
		for {
			if q, ok := s.until("message")["question"].(map[string]any); ok {
				return q
			}
		}
	}
	pc, phone := connect(t, server.URL), connect(t, server.URL)
	phone.say(`{"type":"attach","chat_id":"yard"}`)
	phone.until("attached")
	pc.say(`{"type":"message","chat_id":"yard","content":"go","turn_id":"1"}`)
	first := asked(pc)
	detail, _ := first["detail"].(map[string]any)
	if detail["tool"] != "exec" || !strings.HasPrefix(detail["command"].(string), "touch a\u00ad; echo") || detail["folder"] == "" || !strings.Contains(detail["reason"].(string), "needs a yes") {
		t.Errorf("detail = %v", detail)
	}
	var open struct{ Questions []agent.Open }
	read("questions", &open)
	if len(open.Questions) != 1 || open.Questions[0].ID != first["id"] || open.Questions[0].Key != "websocket:yard" || open.Questions[0].Detail == nil {
		t.Fatalf("open questions = %+v", open)
	}
	id, _ := first["id"].(string)
	phone.say(`{"type":"answer","chat_id":"yard","question_id":"` + id + `","option":"yes"}`)
	for _, s := range []socket{pc, phone} {
		if a := s.until("question_answered"); a["question_id"] != id || a["option"] != "yes" {
			t.Errorf("answered: %v", a)
		}
	}
	if out := pc.until("tool_output"); out["text"] != "printed\n" || out["call_id"] == nil {
		t.Errorf("output = %v", out)
	}
	h.must(os.WriteFile(filepath.Join(h.g.Workspace(), "go"), nil, 0o600)) // what is printed last is not told

	second := asked(pc)
	detail, _ = second["detail"].(map[string]any)
	diff, _ := detail["diff"].(string)
	if !strings.Contains(diff, "+touch ‹U+00AD›first") || strings.Contains(diff, "correct-token") {
		t.Errorf("diff = %q", diff)
	}
	id, _ = second["id"].(string)
	// The owner answers it from anywhere, by its id alone; not the first one again, and
	// once.
	for n, payload := range []string{
		`{"question_id":"` + first["id"].(string) + `","option":"no"}`, `{"question_id":"","option":"no"}`,
		`{"question_id":"` + id + `","option":"no","remark":"not now"}`, `{"question_id":"` + id + `","option":"yes"}`,
	} {
		pc.say(fmt.Sprintf(`{"type":"webui_request","request_id":"a%d","action":"approval.answer","payload":%s}`, n, payload))
		e, refused := pc.until("webui_response")["error"].(map[string]any)
		if refused != (n != 2) || refused && e["code"] != "question_closed" {
			t.Errorf("%s: %v", payload, e)
		}
	}
	phone.until("turn_end")
	read("questions", &open)
	if len(open.Questions) != 0 {
		t.Errorf("open questions afterwards = %+v", open)
	}

	var thread turnPage
	read("sessions/websocket:yard/webui-thread", &thread)
	for _, said := range thread.Messages {
		if said.TurnID != "1" { // also behind the answers
			t.Errorf("%q belongs to turn %q", said.Content, said.TurnID)
		}
	}

	pc.say(`{"type":"webui_request","request_id":"1","action":"approval.explain","payload":{"tool":"exec","arguments":{"command":"touch x"}}}`)
	if r := pc.until("webui_response"); !strings.Contains(r["result"].(map[string]any)["action"].(string), "ask") {
		t.Errorf("explained: %v", r)
	}
	pc.say(`{"type":"webui_request","request_id":"2","action":"approval.explain","payload":{"tool":"none","arguments":{}}}`)
	if e, _ := pc.until("webui_response")["error"].(map[string]any); e["code"] != "call_invalid" {
		t.Errorf("explained: %v", e)
	}
	_ = pc.conn.CloseNow()
	_ = phone.conn.CloseNow()
	h.must(h.end()) // the answers are on disk by then

	h.start()
	again := httptest.NewServer(h.g.Handler())
	defer again.Close()
	awaitSocket(t, again.URL)
	server.URL = again.URL
	type page struct {
		Answers []subject.Answered
		Cursor  string
	}
	var newest, older, none page
	read("approvals/history?limit=1", &newest)
	read("approvals/history?limit=1&cursor="+newest.Cursor, &older)
	if len(newest.Answers) != 1 || newest.Answers[0].Option != "no" || newest.Answers[0].Remark != "not now" || newest.Answers[0].What != "b.txt" || newest.Cursor == "" {
		t.Errorf("newest = %+v", newest)
	}
	if len(older.Answers) != 1 || older.Answers[0].Option != "yes" || older.Answers[0].Tool != "exec" || older.Cursor != "" {
		t.Errorf("older = %+v", older)
	}
	read("approvals/history?limit=9", &none)
	if len(none.Answers) != 2 || none.Cursor != "" {
		t.Errorf("all = %+v", none)
	}
	h.must(h.end())
}
