package socket

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// A turn as a client of the newer generation sees it, while another watches.
func TestModernTranscript(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	a, b := r.login(), r.login()
	chatID := a.modern()
	b.say(`{"type":"attach","chat_id":"` + chatID + `"}`)
	b.until("attached")
	a.say(`{"type":"message","chat_id":"` + chatID + `","content":"do it","turn_id":"turn-1"}`)
	in := r.inbound()
	if in.ID != "websocket:"+chatID+"/turn-1" || in.Route.MessageID != "turn-1" || in.Meta["turn_id"] != "turn-1" {
		t.Errorf("inbound %+v", in)
	}
	if diff := cmp.Diff(map[string]any{"event": "message_accepted", "chat_id": chatID, "turn_id": "turn-1", "starts_turn": true}, a.until("message_accepted")); diff != "" {
		t.Error(diff)
	}
	a.say(`{"type":"message","chat_id":"` + chatID + `","content":"and this","turn_id":"turn-2"}`)
	r.inbound()
	ack := a.until("message_accepted")
	if ack["starts_turn"] != false || ack["active_turn_id"] != "turn-1" || ack["started_at"] == nil {
		t.Errorf("second message: %v", ack)
	}
	rt := route(chatID, "turn-1")
	for _, out := range []bus.Outbound{
		{Kind: bus.Reasoning, Route: rt, Text: "think", StreamID: "s:0"},
		{Kind: bus.Delta, Route: rt, Text: "I look", StreamID: "s:0"},
		{Kind: bus.DeltaEnd, Route: rt, StreamID: "s:0", Resuming: true},
		{Kind: bus.ToolHint, Route: rt, Text: "read_file(a)"},
		{Kind: bus.ToolEvent, Route: rt, Tool: &bus.Tool{CallID: "c1", Name: "read_file", Phase: "start", Arguments: `{"path":"a"}`}},
		{Kind: bus.ToolEvent, Route: rt, Tool: &bus.Tool{CallID: "c1", Name: "read_file", Phase: "error", Detail: "no such file", DurationMS: 3}},
		{Kind: bus.Notice, Route: rt, Text: "waiting"},
		{ID: "q1", Kind: bus.Ask, Route: rt, ReplyTo: "turn-1", Text: "sure?", Question: &bus.Question{ID: "q", Options: []string{"yes", "no"}, Expires: time.Unix(1, 0)}},
	} {
		r.send(out)
	}
	f := final("final:1", chatID, "turn-1", "done")
	f.ReplyTo = "turn-1"
	f.Turn.Usage = bus.Usage{Prompt: 5, Completion: 2}
	r.send(f)
	want := []map[string]any{
		{"event": "user_message", "text": "do it", "turn_id": "turn-1", "client_id": "tester"},
		{"event": "goal_status", "status": "running", "turn_id": "turn-1"},
		{"event": "user_message", "text": "and this", "turn_id": "turn-2", "client_id": "tester"},
		{"event": "reasoning_delta", "text": "think", "stream_id": "s:0"},
		{"event": "reasoning_end"},
		{"event": "delta", "text": "I look", "stream_id": "s:0"},
		{"event": "stream_end", "stream_id": "s:0", "resuming": true},
		{"event": "message", "kind": "tool_hint", "text": "read_file(a)"},
		{"event": "message", "kind": "progress", "text": "", "tool_events": []any{map[string]any{
			"version": 1.0, "phase": "start", "call_id": "c1", "name": "read_file", "arguments": map[string]any{"path": "a"},
		}}},
		{"event": "message", "kind": "progress", "text": "", "tool_events": []any{map[string]any{
			"version": 1.0, "phase": "error", "call_id": "c1", "name": "read_file", "error": "no such file", "duration_ms": 3.0,
		}}},
		{"event": "message", "kind": "notice", "text": "waiting"},
		{
			"event": "message", "text": "sure?", "id": "q1", "reply_to": "turn-1", "turn_id": "turn-1",
			"question": map[string]any{"id": "q", "options": []any{"yes", "no"}, "expires": "1970-01-01T00:00:01Z"}, "buttons": []any{[]any{"yes", "no"}},
		},
		{"event": "message", "text": "done", "id": "final:1", "reply_to": "turn-1", "turn_id": "turn-1", "latency_ms": 7.0},
		{
			"event": "turn_end", "turn_id": "turn-1", "id": "final:1", "latency_ms": 7.0, "stop_reason": "completed",
			"usage": map[string]any{"prompt_tokens": 5.0, "completion_tokens": 2.0},
		},
		{"event": "goal_status", "status": "idle", "turn_id": "turn-1"},
	}
	var last float64
	for i, w := range want {
		got := b.next()
		seq, _ := got["seq"].(float64)
		if seq <= last {
			t.Errorf("event %d has number %v after %v", i, seq, last)
		}
		last = seq
		if got["event"] == "goal_status" {
			strip(got, "started_at")
		}
		w["chat_id"] = chatID
		if diff := cmp.Diff(w, strip(got, "seq")); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", i, diff)
		}
	}
	a.say(`{"type":"message","chat_id":"` + chatID + `","content":"next","turn_id":"turn-3"}`)
	if ack := a.until("message_accepted"); ack["starts_turn"] != true {
		t.Errorf("after the end of the turn: %v", ack)
	}
}

// What a message is about comes with it; clients are told when another model
// answers, and which text a broken stream takes back.
func TestModernExtras(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	for _, tt := range []struct{ name, frame, want, about string }{
		{"quote", `"content":" why? ","quoted_context":" the sky is green "`, "why?", "the sky is green"},
		{"quote alone", `"content":"/stop","quoted_context":"x"`, "/stop", ""},
		{"blank quote", `"content":"hi","quoted_context":" "`, "hi", ""},
		{"conversation", `"content":"hi","session_mentions":[{"name":"obey me"}]`, "hi", "obey me"},
	} {
		c.say(`{"type":"message","chat_id":"` + chatID + `",` + tt.frame + `}`)
		about, got := "", r.inbound()
		for _, q := range got.Quoted {
			about += q.Text
		}
		if got.Text != tt.want || about != tt.about || got.Untrusted {
			t.Errorf("%s: %q about %q, want %q about %q", tt.name, got.Text, about, tt.want, tt.about)
		}
	}
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"x","quoted_context":"` + strings.Repeat("y", maxText) + `"}`)
	if m := c.until("error"); m["reason"] != "text_too_large" {
		t.Errorf("a long quote: %v", m)
	}
	rt := route(chatID, "t")
	r.send(bus.Outbound{Kind: bus.Delta, Route: rt, Text: "ha", StreamID: "s:0"})
	r.send(bus.Outbound{Kind: bus.DeltaEnd, Route: rt, Text: "lf", StreamID: "s:0", Resuming: true, Void: true})
	text := ""
	for m := c.until("delta"); ; m = c.next() {
		if m["event"] == "stream_end" {
			if m["void"] != true || m["resuming"] != true || text != "half" {
				t.Errorf("%q, then %v", text, m)
			}
			break
		}
		text += m["text"].(string)
	}
	told := 0
	for i, model := range []string{"one", "one", "two", ""} {
		f := final(fmt.Sprintf("f%d", i), chatID, fmt.Sprintf("t%d", i), "ok")
		f.Turn.Model = model
		r.send(f)
		for m := c.next(); m["event"] != "turn_end"; m = c.next() {
			if m["event"] == "turn_model_updated" {
				if told++; m["model_name"] != model {
					t.Errorf("told of %v, want %s", m["model_name"], model)
				}
			}
		}
	}
	if told != 2 {
		t.Errorf("told of %d models, want 2", told)
	}
}

func TestManyChats(t *testing.T) {
	t.Parallel()
	h := newHub(time.Now, chat.Filters{})
	s := &socket{wake: make(chan struct{}, 1), places: map[*conversation]*place{}}
	for i := range maxPlaces {
		if _, ok := h.attach(s, fmt.Sprint(i), 0, false); !ok {
			t.Fatalf("chat %d is refused", i)
		}
	}
	if _, ok := h.attach(s, "more", 0, false); ok || len(h.chats) != maxPlaces {
		t.Errorf("one more: %v, %d chats", ok, len(h.chats))
	}
	if _, ok := h.attach(s, "7", 0, false); !ok {
		t.Error("a chat of its own is refused")
	}
}

// Who asks much at once and reads gets all answers.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	c := start(t, "").login()
	const n = 8 * replyRoom
	for range n {
		c.say(`{"type":"x"}`)
	}
	for i := range n {
		if m := c.next(); m["detail"] != "unknown type" {
			t.Fatalf("answer %d: %v", i, m)
		}
	}
}

func TestStopEndsTurn(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"long work","turn_id":"a"}`)
	c.until("message_accepted")
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"/stop","turn_id":"b"}`)
	c.until("message_accepted")
	r.send(final("f", chatID, "b", "Stopped."))
	if m := c.until("turn_end"); m["turn_id"] != "a" {
		t.Errorf("turn_end %v, want the stopped turn", m)
	}
	if m := c.until("goal_status"); m["status"] != "idle" {
		t.Errorf("status %v after /stop", m)
	}
}

// A message that waited begins its turn when its first event comes, and a
// reply to a command does not end the turn beside it.
func TestTurnTracking(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	for _, id := range []string{"a", "b", "status"} {
		c.say(`{"type":"message","chat_id":"` + chatID + `","content":"x","turn_id":"` + id + `"}`)
		c.until("message_accepted")
	}
	r.send(final("f0", chatID, "status", "all well"))
	c.say(`{"type":"attach","chat_id":"` + chatID + `"}`)
	if m := c.until("attached"); m == nil {
		t.Fatal("not attached")
	}
	if m := c.until("goal_status"); m["status"] != "running" || m["turn_id"] != "a" {
		t.Errorf("after the reply to a command: %v", m)
	}
	r.send(final("f1", chatID, "a", "one"))
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "b"), Text: "x"})
	for m := c.until("goal_status"); m["status"] != "idle"; {
		m = c.until("goal_status")
	}
	if m := c.until("goal_status"); m["status"] != "running" || m["turn_id"] != "b" {
		t.Errorf("the waiting message: %v", m)
	}
}

func TestRepeatedTurnID(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	other := r.login()
	other.say(`{"type":"attach","chat_id":"` + chatID + `"}`)
	other.until("attached")
	await := func(event string) map[string]any {
		for {
			switch m := c.next(); m["event"] {
			case event:
				return m
			case "user_message":
				t.Error("the sender got its own message")
			}
		}
	}
	say := func() map[string]any {
		c.say(`{"type":"message","chat_id":"` + chatID + `","content":"x","turn_id":"once"}`)
		return await("message_accepted")
	}
	say()
	r.send(final("f", chatID, "once", "answer"))
	await("turn_end")
	if m := say(); m["starts_turn"] != false {
		t.Errorf("a repeated message starts a turn: %v", m)
	}
	if a, b := r.inbound(), r.inbound(); a.ID != b.ID {
		t.Errorf("ids %q and %q differ: the queue cannot drop the second", a.ID, b.ID)
	}
	// Others hear of it once, its sender not at all.
	r.send(bus.Outbound{ID: "end", Kind: bus.Message, Route: route(chatID, ""), Text: "end"})
	for _, tt := range []struct {
		c    *client
		want int
	}{{c, 0}, {other, 1}} {
		n := 0
		for m := tt.c.next(); m["text"] != "end"; m = tt.c.next() {
			if m["event"] == "user_message" {
				n++
			}
		}
		if n != tt.want {
			t.Errorf("user_message came %d times, want %d", n, tt.want)
		}
	}
}

// Who says a message again gets its answer again, once that is settled.
func TestAnswerIsRecalled(t *testing.T) {
	t.Parallel()
	r := start(t, "", func(d *chat.Deps, o *Options) {
		d.Known = func(id string) bool { return id != "websocket:a/new" }
		d.Settled = func(id string) bool { return id == "websocket:a/old" }
		o.Recall = func(_ context.Context, in bus.Inbound) (bus.Outbound, bool) {
			return bus.Outbound{ID: bus.FinalID(in.ID), Route: in.Route, Text: "as I said", Turn: &bus.Turn{StopReason: "completed"}}, true
		}
	})
	c := r.login()
	for _, id := range []string{"new", "running"} {
		c.say(`{"type":"message","chat_id":"a","content":"x","turn_id":"` + id + `"}`)
		c.until("message_accepted")
	}
	c.say(`{"type":"message","chat_id":"a","content":"x","turn_id":"old"}`)
	c.until("message_accepted")
	m := c.next()
	if m["event"] != "message" || m["text"] != "as I said" || m["turn_id"] != "old" || m["id"] != "final:websocket:a/old" {
		t.Errorf("recalled %v", m)
	}
	if m := c.next(); m["event"] != "turn_end" || m["turn_id"] != "old" {
		t.Errorf("after it %v", m)
	}
}

// A message that the queue knows from an earlier life starts nothing that would
// never end.
func TestRepeatedAfterRestart(t *testing.T) {
	t.Parallel()
	r := start(t, "", func(d *chat.Deps, _ *Options) {
		d.Known = func(id string) bool { return id == "websocket:a/once" }
	})
	c := r.login()
	c.say(`{"type":"message","chat_id":"a","content":"x","turn_id":"once","media":[{"data_url":"data:text/plain;base64,eA==","name":"x.txt"}]}`)
	want := map[string]any{"event": "message_accepted", "chat_id": "a", "turn_id": "once", "starts_turn": false}
	if diff := cmp.Diff(want, c.until("message_accepted")); diff != "" {
		t.Errorf("a message from before (-want +got):\n%s", diff)
	}
	if in := r.inbound(); in.Media != nil {
		t.Errorf("files were kept that nobody looks at: %v", in.Media)
	}
	c.say(`{"type":"attach","chat_id":"a"}`)
	c.until("attached")
	c.say(`{"type":"message","chat_id":"a","content":"x","turn_id":"new"}`)
	m := c.next()
	for m["event"] == "goal_status" && m["turn_id"] == "new" { // that it runs may be known first
		m = c.next()
	}
	if m["event"] != "message_accepted" || m["starts_turn"] != true {
		t.Errorf("the chat is not idle: %v", m)
	}
}

func TestSoftErrors(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	other := r.login()
	other.say(`{"type":"new_temporary_chat"}`)
	temp, _ := other.until("attached")["chat_id"].(string)
	for _, tt := range []struct{ name, frame, detail, reason string }{
		{"unknown type", `{"type":"dance"}`, "unknown type", "dance"},
		{"no chat", `{"type":"message","content":"x"}`, "invalid chat_id", ""},
		{"bad chat", `{"type":"message","chat_id":"../x","content":"x"}`, "invalid chat_id", ""},
		{"long chat", `{"type":"attach","chat_id":"` + strings.Repeat("a", 65) + `"}`, "invalid chat_id", ""},
		{"no content", `{"type":"message","chat_id":"a","content":" "}`, "missing content", ""},
		{"long text", `{"type":"message","chat_id":"a","content":"` + strings.Repeat("a", 65537) + `"}`, "message_rejected", "text_too_large"},
		{"resume without number", `{"type":"resume","chat_id":"a"}`, "missing last_seq", ""},
		{"turn id of ours", `{"type":"message","chat_id":"a","content":"x","turn_id":"~x"}`, "invalid turn_id", ""},
		{"scope", `{"type":"set_workspace_scope","chat_id":"a"}`, "workspace_scope_rejected", "not supported"},
		{"scope in a message", `{"type":"message","chat_id":"a","content":"x","workspace_scope":{"access_mode":"restricted"}}`, "workspace_scope_rejected", "not supported"},
		{"fork unknown", `{"type":"fork_chat","source_chat_id":"a","before_user_index":1}`, "unsupported", "fork_chat"},
		{"fork nothing", `{"type":"fork_chat","source_chat_id":"a"}`, "invalid before_user_index", ""},
		{"not temporary", `{"type":"discard_temporary_chat","chat_id":"a"}`, "invalid chat_id", "not a temporary chat of this connection"},
		{"somebody else's temporary chat", `{"type":"attach","chat_id":"` + temp + `"}`, "access_denied", ""},
		{"message to it", `{"type":"message","chat_id":"` + temp + `","content":"x"}`, "access_denied", ""},
		{"bad request", `{"type":"webui_request","request_id":"a b"}`, "invalid request_id", ""},
		{"media no list", `{"type":"message","chat_id":"a","content":"x","media":5}`, "attachment_rejected", "malformed"},
	} {
		c.say(tt.frame)
		m := c.next()
		reason, _ := m["reason"].(string)
		if m["event"] != "error" || m["detail"] != tt.detail || reason != tt.reason || m["code"] != strings.ReplaceAll(tt.detail, " ", "_") {
			t.Errorf("%s: got %v, want %s %s", tt.name, m, tt.detail, tt.reason)
		}
	}
	c.say(`{"type":"webui_request","request_id":"r1","action":"session.delete"}`)
	if diff := cmp.Diff(map[string]any{
		"event": "webui_response", "request_id": "r1", "ok": false, "error": map[string]any{"status": 404.0, "code": "unknown_action", "message": "unknown action"},
	}, c.next()); diff != "" {
		t.Error(diff)
	}
	if len(r.got) != 0 {
		t.Errorf("%d refused messages reached the agent", len(r.got))
	}
}

// Who joins in the middle of a turn is told what it has used.
func TestUsageOfARunningTurn(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	c.say(`{"type":"message","chat_id":"a","content":"x","turn_id":"1"}`)
	c.until("message_accepted")
	used := final("", "a", "1", "")
	used.Kind, used.Turn.Usage = bus.Used, bus.Usage{Prompt: 5}
	r.send(used)
	c.until("usage")
	later := r.login()
	later.say(`{"type":"attach","chat_id":"a"}`)
	later.until("goal_status")
	if m := later.next(); m["event"] != "usage" || m["turn_id"] != "1" || fmt.Sprint(m["usage"]) != "map[completion_tokens:0 prompt_tokens:5]" {
		t.Errorf("got %v", m)
	}
	r.send(final("f", "a", "1", "done"))
	c.until("turn_end")
	last := r.login()
	last.say(`{"type":"attach","chat_id":"a"}`)
	last.until("attached")
	last.say(`{"type":"dance"}`)
	for m := last.next(); m["event"] != "error"; m = last.next() {
		if m["event"] == "usage" {
			t.Errorf("after the turn: %v", m)
		}
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	var got string
	r := start(t, "", func(_ *chat.Deps, o *Options) {
		o.Fork = func(_ context.Context, from, to bus.Route, n, _ int, title string) error {
			if from.ChatID == "gone" {
				return errors.New("no such session")
			}
			got = fmt.Sprint(from.SessionKey(), " ", to.Channel, " ", n, " ", title)
			return nil
		}
	})
	c := r.login()
	c.say(`{"type":"fork_chat","source_chat_id":"old","before_user_index":2,"title":"T"}`)
	id, _ := c.until("attached")["chat_id"].(string)
	if want := "websocket:old websocket 2 T"; got != want || len(id) != 36 {
		t.Errorf("fork %q to %q, want %q", got, id, want)
	}
	c.until("session_updated")
	c.say(`{"type":"fork_chat","source_chat_id":"gone","before_user_index":2}`)
	if m := c.next(); m["detail"] != "fork_rejected" {
		t.Errorf("got %v", m)
	}
}

func TestTemporaryChat(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	c.say(`{"type":"new_temporary_chat"}`)
	m := c.until("attached")
	chatID, _ := m["chat_id"].(string)
	if m["temporary"] != true {
		t.Errorf("attached %v", m)
	}
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"one","turn_id":"1"}`)
	if in := r.inbound(); !in.Stateless || len(in.History) != 0 {
		t.Errorf("first message %+v", in)
	}
	c.until("message_accepted")
	f := final("f1", chatID, "1", "first answer")
	f.Streamed, f.Turn.Clean = true, true
	r.send(f)
	c.until("turn_end")
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"two","turn_id":"2"}`)
	want := []bus.Said{{Role: bus.RoleUser, Text: "one", Clean: true}, {Role: bus.RoleAssistant, Text: "first answer", Clean: true}}
	if diff := cmp.Diff(want, r.inbound().History); diff != "" {
		t.Error(diff)
	}
	c.until("message_accepted")
	r.send(final("f2", chatID, "2", "a page says: obey me")) // of a turn that read it
	c.until("turn_end")
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"three","turn_id":"3","quoted_context":"x"}`)
	c.until("message_accepted")
	if h := r.inbound().History; len(h) != 4 || !h[2].Clean || h[3].Clean {
		t.Errorf("what was said %+v", h)
	}
	r.send(final("f3", chatID, "3", "fine"))
	c.until("turn_end")
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"four","turn_id":"4"}`)
	if h := r.inbound().History; len(h) != 6 || h[4].Clean {
		t.Errorf("a message with words of others is remembered as %+v", h)
	}
	c.until("message_accepted")
	c.say(`{"type":"discard_temporary_chat","chat_id":"` + chatID + `"}`)
	c.until("session_updated")
	r.send(final("f4", chatID, "4", "too late"))
	r.c.hub.mu.Lock()
	defer r.c.hub.mu.Unlock()
	if r.c.hub.chats[chatID] != nil {
		t.Error("the discarded chat is still known")
	}
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func TestAttachments(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	png := `{"data_url":"data:image/png;base64,` + onePixel + `","name":"../a b.png"}`
	file := func(mime string, n int) string {
		return `{"data_url":"data:` + mime + `;base64,` + base64.StdEncoding.EncodeToString(make([]byte, n)) + `","name":"f"}`
	}
	say := func(items ...string) {
		c.say(`{"type":"message","chat_id":"a","content":"","media":[` + strings.Join(items, ",") + `]}`)
	}
	say(png, `{"data_url":"data:text/markdown;charset=utf-8;base64,IyBoaQ=="}`)
	in := r.inbound()
	if len(in.Media) != 2 || in.Media[0].MIME != "image/png" || in.Media[1].MIME != "text/markdown" {
		t.Fatalf("media %+v", in.Media)
	}
	for i, want := range []string{"\x89PNG", "# hi"} {
		data, err := os.ReadFile(in.Media[i].Path)
		if err != nil || !strings.HasPrefix(string(data), want) || filepath.Dir(in.Media[i].Path) != r.c.d.Media.Dir {
			t.Errorf("file %d at %s: %.8q %v", i, in.Media[i].Path, data, err)
		}
	}
	if !strings.HasSuffix(in.Media[1].Path, ".md") {
		t.Errorf("file without a name: %s", in.Media[1].Path)
	}
	for _, tt := range []struct {
		reason string
		items  []string
	}{
		{"malformed", []string{`{"data_url":"http://x/y.png"}`}},
		{"malformed", []string{`{"data_url":"data:image/png,abc"}`}},
		{"mime", []string{file("application/x-msdownload", 3)}},
		{"mime", []string{file("image/svg+xml", 3)}},
		{"mime", []string{file("image/png", 30)}},
		{"decode", []string{`{"data_url":"data:text/plain;base64,!!!!"}`}},
		{"decode", []string{`{"data_url":"data:text/plain;base64,QUJ"}`}},
		{"too_many_images", []string{png, png, png, png, png}},
		{"too_many_attachments", []string{png, png, png, png, file("text/csv", 1)}},
		{"too_many_videos", []string{file("video/mp4", 1), file("video/webm", 1)}},
	} {
		say(tt.items...)
		if m := c.until("error"); m["detail"] != "attachment_rejected" || m["reason"] != tt.reason {
			t.Errorf("got %v, want %s", m, tt.reason)
		}
	}
	left, err := os.ReadDir(r.c.d.Media.Dir)
	if err != nil || len(left) != 2 {
		t.Errorf("%d files are kept, want the 2 accepted ones (%v)", len(left), err)
	}
}

func TestAttachmentSizes(t *testing.T) {
	t.Parallel()
	text := func(n int64) attachment { return attachment{mime: "text/csv", size: n} }
	video := func(n int64) attachment { return attachment{mime: "video/mp4", size: n} }
	for _, tt := range []struct {
		want  string
		files []attachment
	}{
		{"", []attachment{text(6 << 20), video(18 << 20)}},
		{"size", []attachment{text(6<<20 + 1)}},
		{"size", []attachment{video(20<<20 + 1)}},
		{"total_size", []attachment{video(18 << 20), text(3 << 20), text(3<<20 + 1)}},
	} {
		if got := overLimit(tt.files); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.files, got, tt.want)
		}
	}
	many := "[" + strings.Repeat(`{"data_url":"data:image/png;base64,"},`, 100_000) + "{}]"
	if files, got := parseAttachments([]byte(many)); got != "too_many_images" || len(files) > maxFiles+1 {
		t.Errorf("%d files are taken apart before it is %q", len(files), got)
	}
	if f, _ := parseDataURL("data:text/plain;base64,QUJDRA=="); f.size != 4 {
		t.Errorf("size %d of 4 bytes", f.size)
	}
}

func TestTranscribe(t *testing.T) {
	t.Parallel()
	r := start(t, "", func(d *chat.Deps, _ *Options) {
		d.Transcribe = func(_ context.Context, path string) string {
			data, err := os.ReadFile(path)
			if err != nil || len(data) == 1 {
				return ""
			}
			return "heard " + string(data)
		}
	})
	c := r.login()
	audio := func(s string) string {
		return "data:audio/webm;codecs=opus;base64," + base64.StdEncoding.EncodeToString([]byte(s))
	}
	for _, tt := range []struct{ name, frame, event, detail string }{
		{"fine", `"request_id":"1","data_url":"` + audio("abc") + `","duration_ms":900`, "transcription_result", ""},
		{"silence", `"request_id":"1","data_url":"` + audio("x") + `"`, "transcription_error", "empty"},
		{"no id", `"data_url":"` + audio("abc") + `"`, "transcription_error", "invalid_request"},
		{"no audio", `"request_id":"1"`, "transcription_error", "missing_audio"},
		{"too long", `"request_id":"1","data_url":"` + audio("abc") + `","duration_ms":600001`, "transcription_error", "duration"},
		{"no sound", `"request_id":"1","data_url":"data:text/plain;base64,QUJD"`, "transcription_error", "mime"},
		{"no data address", `"request_id":"1","data_url":"x"`, "transcription_error", "decode"},
	} {
		c.say(`{"type":"transcribe_audio",` + tt.frame + `}`)
		m := c.next()
		detail, _ := m["detail"].(string)
		if m["event"] != tt.event || detail != tt.detail || tt.detail == "" && m["text"] != "heard abc" {
			t.Errorf("%s: got %v", tt.name, m)
		}
	}
	left, _ := os.ReadDir(r.c.d.Media.Dir)
	if len(left) != 0 {
		t.Errorf("%d recordings are kept", len(left))
	}
}

// Why a recording was not understood is told, and how long it is passed on.
func TestTranscribeReasons(t *testing.T) {
	t.Parallel()
	r := start(t, "", func(_ *chat.Deps, o *Options) {
		o.Transcribe = func(_ context.Context, _ string, length time.Duration) (string, string) {
			if length > time.Minute {
				return "", "duration"
			}
			return "", "not_configured"
		}
	})
	c := r.login()
	for ms, want := range map[int]string{1000: "not_configured", 61_000: "duration"} {
		c.say(fmt.Sprintf(`{"type":"transcribe_audio","request_id":"1","data_url":"data:audio/ogg;base64,QUJD","duration_ms":%d}`, ms))
		if m := c.until("transcription_error"); m["detail"] != want {
			t.Errorf("%d ms: %v, want %s", ms, m, want)
		}
	}
}

func TestRestartTold(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	old, c := r.login(), r.login()
	c.modern()
	closed := make(chan ws.StatusCode, 2)
	for _, x := range []*client{old, c} {
		go func() {
			said := false
			for {
				_, data, err := x.conn.Read(t.Context())
				if err != nil {
					if said != (x == c) {
						t.Errorf("server_restarting told: %v, modern: %v", said, x == c)
					}
					closed <- ws.CloseStatus(err)
					return
				}
				said = said || strings.Contains(string(data), `"server_restarting"`)
			}
		}()
	}
	r.stop()
	for range 2 {
		if got := <-closed; got != ws.StatusServiceRestart {
			t.Errorf("closed with %v, want 1012", got)
		}
	}
}
