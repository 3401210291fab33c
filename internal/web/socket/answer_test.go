package socket

import (
	"net/http"
	"strings"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// A client with the token answers by naming the question; whatever else it
// says is a message. All its connections are the same person, whatever they
// call themselves.
func TestAnswer(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	a, b := r.login(), r.dial("client_id=phone&token="+testToken)
	chat := a.modern()
	a.say(`{"type":"message","chat_id":"` + chat + `","content":"yes","turn_id":"t1","language":"zh-CN"}`)
	asker := r.inbound()
	if asker.Answer != nil || !asker.Interactive || asker.Identity != "owner" || asker.Language != "zh-CN" {
		t.Errorf("a message: %+v", asker)
	}
	b.say(`{"type":"answer","chat_id":"` + chat + `","question_id":"q-1","option":"no","remark":"use rsync","content":"yes","turn_id":"t2","language":"zh"}`)
	in := r.inbound()
	if diff := cmp.Diff(&bus.Answer{QuestionID: "q-1", Option: "no", Remark: "use rsync"}, in.Answer); diff != "" {
		t.Error(diff)
	}
	if in.Text != "" || in.Person() != asker.Person() || !in.Route.SameChat(asker.Route) || !in.Interactive || in.Language != "zh" {
		t.Errorf("an answer: %+v", in)
	}
	for name, c := range map[string]struct{ frame, want string }{
		"no question": {`"option":"yes"`, "invalid question_id"},
		"no option":   {`"question_id":"q"`, "invalid option"},
		"blank":       {`"question_id":"q","option":" "`, "invalid option"},
		"long id":     {`"question_id":"` + strings.Repeat("q", 200) + `","option":"yes"`, "invalid question_id"},
		"wrong types": {`"question_id":7,"option":true`, "invalid question_id"},
	} {
		a.say(`{"type":"answer","chat_id":"` + chat + `",` + c.frame + `}`)
		if m := a.until("error"); m["detail"] != c.want {
			t.Errorf("%s: %v", name, m)
		}
	}
	a.say(`{"type":"answer","chat_id":"temp-of-another","question_id":"q","option":"yes"}`)
	if m := a.until("error"); m["detail"] != "access_denied" {
		t.Errorf("another client's chat: %v", m)
	}
}

// What a question looks like, and how clients learn that it is closed.
func TestQuestionFrames(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chat := c.modern()
	c.say(`{"type":"message","chat_id":"` + chat + `","content":"go","turn_id":"t1"}`)
	r.inbound()
	rt := route(chat, "t1")
	r.send(bus.Outbound{ID: "1", Kind: bus.Ask, Route: rt, Text: "sure?", Question: &bus.Question{ID: "q", Code: "k7f2", Options: []string{"yes", "no"}, Expires: time.Unix(1, 0)}})
	m := c.until("message")
	if diff := cmp.Diff(map[string]any{"id": "q", "code": "k7f2", "options": []any{"yes", "no"}, "expires": "1970-01-01T00:00:01Z"}, m["question"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{[]any{"yes k7f2", "no k7f2"}}, m["buttons"]); diff != "" {
		t.Error(diff) // a client that sends the label back names the question
	}
	r.send(bus.Outbound{Kind: bus.Gone, Route: rt, Text: "too late", Question: &bus.Question{ID: "q"}})
	if m := c.until("question_gone"); m["question_id"] != "q" || m["text"] != "too late" || m["chat_id"] != chat {
		t.Errorf("gone: %v", m)
	}
	r.send(bus.Outbound{ID: "2", Kind: bus.Ask, Route: rt, Text: "sure?", Question: &bus.Question{ID: "r", Detail: &bus.Detail{Tool: "exec", Command: "ls", Sandbox: true}}})
	q, _ := c.until("message")["question"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"tool": "exec", "command": "ls", "sandbox": true}, q["detail"]); diff != "" {
		t.Error(diff)
	}
	r.send(bus.Outbound{Kind: bus.Gone, Route: rt, Question: &bus.Question{ID: "r", Outcome: &bus.Outcome{Option: "no", Remark: "later"}}})
	if m := c.until("question_answered"); m["question_id"] != "r" || m["option"] != "no" || m["remark"] != "later" {
		t.Errorf("answered: %v", m)
	}
	c.until("question_gone") // for clients that know nothing else
	r.send(bus.Outbound{Kind: bus.Gone, Route: rt, Question: &bus.Question{ID: "s", Outcome: &bus.Outcome{Expired: true}}})
	if m := c.until("question_expired"); m["question_id"] != "s" {
		t.Errorf("expired: %v", m)
	}
}

// The output of a running command grows in one event; a client that comes later
// gets what is kept of it.
func TestToolOutput(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chat := c.modern()
	c.say(`{"type":"message","chat_id":"` + chat + `","content":"go","turn_id":"t1"}`)
	r.inbound()
	c.until("message_accepted") // the turn has begun for all clients
	for _, piece := range []string{"one\n", "two\n"} {
		r.send(bus.Outbound{Kind: bus.ToolOutput, Route: route(chat, "t1"), Text: piece, Tool: &bus.Tool{CallID: "c1", Name: "exec"}})
	}
	got := ""
	for got != "one\ntwo\n" {
		m := c.until("tool_output")
		piece, _ := m["text"].(string)
		if got += piece; m["call_id"] != "c1" || len(got) > 8 {
			t.Fatalf("%v after %q", m, got)
		}
	}
	// joined returns the first event for a client that joins now.
	joined := func(client string) map[string]any {
		later := r.dial("client_id=" + client + "&token=" + testToken)
		later.say(`{"type":"attach","chat_id":"` + chat + `"}`)
		later.until("attached")
		later.until("goal_status") // a turn goes on
		return later.next()
	}
	notice := func(text string) {
		r.send(bus.Outbound{Kind: bus.Notice, Route: route(chat, "t1"), Text: text})
	}
	for range 2 { // whatever comes after it
		if m := joined("phone"); m["text"] != "one\ntwo\n" || m["call_id"] != "c1" {
			t.Errorf("a later client got %v", m)
		}
		notice("still at it")
	}
	r.send(bus.Outbound{Kind: bus.ToolEvent, Route: route(chat, "t1"), Tool: &bus.Tool{CallID: "c1", Name: "exec", Phase: "end", Result: "one\ntwo\n"}})
	last := r.dial("client_id=tablet&token=" + testToken)
	last.say(`{"type":"attach","chat_id":"` + chat + `"}`)
	last.until("attached")
	notice("done")
	if m := last.until("message"); m["text"] != "done" {
		t.Errorf("a client that joined after the call got %v", m)
	}
}

// A client that proved nothing chats, is not asked and cannot answer, with
// whatever name it takes.
func TestUnprovenCannotAnswer(t *testing.T) {
	t.Parallel()
	open := start(t, `{"websocketRequiresToken":false}`)
	c := open.dial("client_id=owner")
	c.say(`{"type":"message","chat_id":"a","content":"hi"}`)
	in := open.inbound()
	if in.Interactive || !strings.Contains(in.Unasked, "token") || in.Person() != "unproven:owner" {
		t.Errorf("a message without proof: %+v", in)
	}
	for _, frame := range []string{
		`{"type":"answer","chat_id":"a","question_id":"q","option":"yes"}`,
		`{"type":"answer","chat_id":"a","question_id":"q","option":"yes","token":"` + testToken + `"}`,
	} {
		c.say(frame)
		if m := c.until("error"); m["detail"] != "access_denied" || m["reason"] == "" {
			t.Errorf("an answer without proof: %v", m)
		}
	}
	c.say(`{"chat_id":"a","content":"yes k7f2","answer":{"question_id":"q","option":"yes"},"identity":"owner","interactive":true}`)
	if in := open.inbound(); in.Answer != nil || in.Interactive || in.Person() != "unproven:owner" {
		t.Errorf("fields that no client sets: %+v", in)
	}
}

// A proxy tells its people apart.
func TestProxyIdentity(t *testing.T) {
	t.Parallel()
	front := start(t, `{"trustedProxyAuth":{"trustedPeerCidrs":["127.0.0.0/8","::1/128"],"assertionHeader":"X-User"}}`)
	seen := map[string]bool{}
	for _, user := range []string{"ann", "bob", "ann"} {
		conn, err := dial(t.Context(), front.url+"/?client_id=same", &ws.DialOptions{HTTPHeader: http.Header{"X-User": {user}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.CloseNow() })
		c := &client{t: t, conn: conn}
		c.say(`{"type":"message","chat_id":"a","content":"hi"}`)
		in := front.inbound()
		if !in.Interactive || !strings.HasPrefix(in.Identity, "proxy:") {
			t.Errorf("%s: %+v", user, in)
		}
		seen[in.Person()] = true
	}
	if len(seen) != 2 {
		t.Errorf("%d people, want 2", len(seen))
	}
}
