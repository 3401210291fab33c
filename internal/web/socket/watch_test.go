package socket

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

func TestStopFrame(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	chatID := c.modern()
	c.say(`{"type":"stop","chat_id":"` + chatID + `"}`) // nothing runs
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"work","turn_id":"t1"}`)
	if in := r.inbound(); in.Text != "work" {
		t.Fatalf("a stop without a turn became %q", in.Text)
	}
	c.say(`{"type":"stop","chat_id":"` + chatID + `","turn_id":"t0"}`) // late
	c.say(`{"type":"stop","chat_id":"` + chatID + `","turn_id":"t1"}`)
	if in := r.inbound(); in.Text != "/stop" || in.Route.ChatID != chatID {
		t.Errorf("got %+v", in)
	}
	r.send(bus.Outbound{ID: "o", Kind: bus.Final, Route: route(chatID, "t1"), Turn: &bus.Turn{ID: "x"}})
	c.until("turn_end")
	c.say(`{"type":"stop","chat_id":"` + chatID + `","turn_id":"t1"}`)
	c.say(`{"type":"message","chat_id":"` + chatID + `","content":"next","turn_id":"t2"}`)
	if in := r.inbound(); in.Text != "next" {
		t.Errorf("a stop of a turn that is over became %q", in.Text)
	}
}

func TestOpenQuestionOfALaterDevice(t *testing.T) {
	t.Parallel()
	r := start(t, "", func(_ *chat.Deps, o *Options) {
		o.ChatState = func(context.Context, bus.Route) ChatState { return ChatState{Title: "Invoices"} }
	})
	a := r.login()
	chatID := a.modern()
	a.say(`{"type":"message","chat_id":"` + chatID + `","content":"go","turn_id":"t1"}`)
	r.inbound()
	ask := func(id string) {
		q := &bus.Question{ID: id, Code: "k7f2", Options: []string{"yes", "no"}, Expires: time.Now().Add(time.Hour)}
		r.send(bus.Outbound{ID: "ask:" + id, Kind: bus.Ask, Route: route(chatID, "t1"), Text: "sure?", Question: q})
		a.until("message")
	}
	ask("q1")
	r.send(bus.Outbound{Kind: bus.Gone, Route: route(chatID, "t1"), Question: &bus.Question{ID: "q1"}})
	a.until("question_gone")
	ask("q2")
	b := r.dial("client_id=phone&token=" + testToken)
	b.say(`{"type":"attach","chat_id":"` + chatID + `"}`)
	if m := b.until("attached"); m["title"] != "Invoices" {
		t.Errorf("attached: %v", m)
	}
	m := b.until("message")
	if q, _ := m["question"].(map[string]any); q["id"] != "q2" || m["seq"] != nil {
		t.Errorf("the later device got %v", m)
	}
	if m := b.until("goal_status"); m["status"] != "running" {
		t.Errorf("and then %v", m)
	}
}

func TestTextFromItsFirstByte(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	a := r.login()
	chatID := a.modern()
	a.say(`{"type":"message","chat_id":"` + chatID + `","content":"go","turn_id":"t1"}`)
	r.inbound()
	piece := strings.Repeat("x", 50<<10)
	for range 4 { // more than one event of the ring holds
		r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "t1"), Text: piece, StreamID: "s"})
	}
	for range 100 { // and more events than it keeps
		r.send(bus.Outbound{Kind: bus.ToolDelta, Route: route(chatID, "t1"), Tool: &bus.Tool{CallID: "c", Name: "exec", Arguments: "{}"}})
	}
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(chatID, "t1"), Text: "end", StreamID: "s"})
	b := r.dial("client_id=phone&token=" + testToken)
	b.say(`{"type":"attach","chat_id":"` + chatID + `"}`)
	b.until("attached")
	var got strings.Builder
	for !strings.HasSuffix(got.String(), "end") {
		text, _ := b.until("delta")["text"].(string)
		got.WriteString(text)
	}
	if got.Len() != 4*len(piece)+3 {
		t.Errorf("%d of %d bytes", got.Len(), 4*len(piece)+3)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	c.modern()
	c.say(`{"type":"watch","key":"websocket:x"}`)
	if m := c.until("error"); m["code"] != "invalid_key" {
		t.Errorf("a chat of our own: %v", m)
	}
	c.say(`{"type":"watch","key":"telegram:7"}`)
	if m := c.until("attached"); m["chat_id"] != "@telegram:7" || m["key"] != "telegram:7" || m["read_only"] != true {
		t.Errorf("attached: %v", m)
	}
	rt := bus.Route{Channel: "telegram", ChatID: "7", MessageID: "m1"}
	r.c.Heard("telegram:8", &bus.Inbound{Route: rt, Text: "of another"})
	r.c.Heard("telegram:7", &bus.Inbound{Route: rt, Text: "hello"})
	if m := c.until("user_message"); m["text"] != "hello" {
		t.Errorf("heard %v", m)
	}
	q := &bus.Question{ID: "q", Code: "k", Options: []string{"yes"}, Expires: time.Now().Add(time.Hour)}
	r.c.Overheard("telegram:7", bus.Outbound{ID: "1", Kind: bus.Ask, Route: rt, Text: "sure?", Question: q})
	if m := c.until("message"); m["text"] != "sure?" || m["question"] != nil || m["buttons"] != nil {
		t.Errorf("a question of another channel: %v", m)
	}
	r.c.Overheard("telegram:7", bus.Outbound{Kind: bus.Delta, Route: rt, Text: "Hi", StreamID: "s"})
	if m := c.until("delta"); m["text"] != "Hi" || m["chat_id"] != "@telegram:7" {
		t.Errorf("delta: %v", m)
	}
	r.c.Overheard("telegram:7", bus.Outbound{ID: "f", Kind: bus.Final, Route: rt, Text: "Hi", Streamed: true, Turn: &bus.Turn{ID: "t"}})
	c.until("turn_end")
	if m := c.until("goal_status"); m["status"] != "idle" {
		t.Errorf("after the end: %v", m)
	}
	r.c.Overheard("telegram:7", bus.Outbound{Kind: bus.Ended, Route: rt, Turn: &bus.Turn{StopReason: "completed"}})
	stopped := bus.Route{Channel: "telegram", ChatID: "7", MessageID: "m2"}
	r.c.Overheard("telegram:7", bus.Outbound{Kind: bus.Delta, Route: stopped, Text: "Well", StreamID: "s2"})
	if m := c.until("goal_status"); m["status"] != "running" || m["turn_id"] != "m2" {
		t.Errorf("the next turn: %v", m)
	}
	r.c.Overheard("telegram:7", bus.Outbound{Kind: bus.Ended, Route: stopped, Turn: &bus.Turn{StopReason: "stopped"}})
	if m := c.until("turn_end"); m["stop_reason"] != "stopped" || m["turn_id"] != "m2" {
		t.Errorf("a turn that was stopped: %v", m)
	}
	if m := c.until("goal_status"); m["status"] != "idle" {
		t.Errorf("and then %v", m)
	}
	c.say(`{"type":"message","chat_id":"@telegram:7","content":"from here","turn_id":"t"}`)
	if m := c.until("error"); m["detail"] != "invalid chat_id" {
		t.Errorf("a message into it: %v", m)
	}
	c.drop()
	for r.c.hub.watched("telegram:7") {
		<-time.After(time.Millisecond)
	}
	r.c.Heard("telegram:7", &bus.Inbound{Route: rt, Text: "nobody"})
	r.c.hub.mu.Lock()
	defer r.c.hub.mu.Unlock()
	if r.c.hub.chats["@telegram:7"] != nil {
		t.Error("a chat that no client watches is kept")
	}
}

func TestWatchNeedsProof(t *testing.T) {
	t.Parallel()
	r := start(t, `{"websocketRequiresToken":false}`)
	c := r.dial("client_id=stranger")
	for _, frame := range []string{`{"type":"watch","key":"telegram:7"}`, `{"type":"set_model","chat_id":"a","model":"m"}`} {
		c.say(frame)
		if m := c.until("error"); m["code"] != "access_denied" {
			t.Errorf("%s: %v", frame, m)
		}
	}
}

func TestSetModel(t *testing.T) {
	t.Parallel()
	r := start(t, "", func(_ *chat.Deps, o *Options) {
		o.SetModel = func(_ context.Context, _ bus.Route, model, preset string) (string, error) {
			if model == "bad" {
				return "", errors.New("no such model")
			}
			return model + preset, nil
		}
	})
	c := r.login()
	chatID := c.modern()
	c.say(`{"type":"set_model","chat_id":"` + chatID + `","preset":"fast"}`)
	if m := c.until("session_updated"); m["scope"] != "model" || m["model_name"] != "fast" || m["model_preset"] != "fast" {
		t.Errorf("got %v", m)
	}
	c.say(`{"type":"set_model","chat_id":"` + chatID + `","model":"bad"}`)
	if m := c.until("error"); m["code"] != "model_rejected" || m["reason"] != "no such model" {
		t.Errorf("got %v", m)
	}
	c.say(`{"type":"set_model","chat_id":"` + chatID + `","model":"a","preset":"b"}`)
	if m := c.until("error"); m["code"] != "model_rejected" {
		t.Errorf("got %v", m)
	}
}
