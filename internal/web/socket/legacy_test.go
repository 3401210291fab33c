package socket

import (
	"strings"
	"testing"
	"unicode/utf8"

	ws "github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// The conversation of a client of the first generation, frame by frame.
func TestLegacyTranscript(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	if len(c.chat) != 36 {
		t.Errorf("chat_id %q is no UUID", c.chat)
	}
	c.say("  hello  ")
	in := r.inbound()
	if got, want := in.Text, "hello"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	want := bus.Route{Channel: "websocket", ChatID: c.chat, MessageID: in.Route.MessageID}
	if diff := cmp.Diff(want, in.Route); diff != "" || in.SenderID != "tester" || !in.WantsStream || in.Scope != "" {
		t.Errorf("inbound %+v\n%s", in, diff)
	}
	id := in.Route.MessageID
	r.send(bus.Outbound{Kind: bus.Reasoning, Route: route(c.chat, id), Text: "hm", StreamID: "s0"})
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(c.chat, id), Text: "Hel", StreamID: "s1"})
	first := c.next()
	r.send(bus.Outbound{Kind: bus.Delta, Route: route(c.chat, id), Text: "lo\n", StreamID: "s1"})
	second := c.next()
	r.send(bus.Outbound{Kind: bus.ToolEvent, Route: route(c.chat, id), Tool: &bus.Tool{Name: "x", Phase: "start"}})
	r.send(bus.Outbound{Kind: bus.DeltaEnd, Route: route(c.chat, id), StreamID: "s1"})
	streamed := final("f1", c.chat, id, "Hello\n")
	streamed.Streamed = true
	r.send(streamed) // returns although nothing is to be said
	r.send(bus.Outbound{ID: "m2", Kind: bus.Message, Route: route(c.chat, id), ReplyTo: id, Text: "by \"tool\""})
	got := []map[string]any{first, second, c.next(), c.next()}
	for _, m := range got {
		strip(m, "seq")
	}
	if diff := cmp.Diff([]map[string]any{
		{"event": "delta", "chat_id": c.chat, "text": "Hel", "stream_id": "s1"},
		{"event": "delta", "chat_id": c.chat, "text": "lo\n", "stream_id": "s1"},
		{"event": "stream_end", "chat_id": c.chat, "stream_id": "s1"},
		{"event": "message", "chat_id": c.chat, "text": `by "tool"`, "id": "m2"},
	}, got); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	r.send(final("f2", c.chat, id, "whole"))
	if m := c.next(); m["event"] != "message" || m["text"] != "whole" {
		t.Errorf("got %v, want the whole answer", m)
	}
}

func TestLegacyFrames(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	for _, tt := range []struct{ name, frame, want string }{
		{"plain", "hi", "hi"},
		{"content", `{"content":"a","text":"b"}`, "a"},
		{"blank content", `{"content":"  ","text":"b","message":"c"}`, "b"},
		{"message", `{"message":"c"}`, "c"},
		{"wrong type of content", `{"content":7,"text":"b"}`, "b"},
		{"broken JSON", `{"content":`, `{"content":`},
		{"list", `["x"]`, `["x"]`},
		{"number", `12`, `12`},
		{"type is no string", `{"type":5,"content":"x"}`, "x"},
		{"large", strings.Repeat("x", 200_000), strings.Repeat("x", 200_000)},
	} {
		c.say(tt.frame)
		if got := r.inbound().Text; got != tt.want {
			t.Errorf("%s: agent got %.40q, want %.40q", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct{ name, frame, detail, reason string }{
		{"empty", "  ", "missing content", ""},
		{"no text", `{"foo":1}`, "missing content", ""},
		{"not UTF-8", "a\xff", "invalid utf-8", ""},
		{"over a megabyte", strings.Repeat("x", 1<<20+1), "message_rejected", "text_too_large"},
	} {
		kind := wsBinary(tt.frame)
		if err := c.conn.Write(t.Context(), kind, []byte(tt.frame)); err != nil {
			t.Fatal(err)
		}
		m := c.next()
		reason, _ := m["reason"].(string)
		if m["event"] != "error" || m["detail"] != tt.detail || reason != tt.reason {
			t.Errorf("%s: got %v, want error %s %s", tt.name, m, tt.detail, tt.reason)
		}
	}
	c.say("still here")
	if got := r.inbound().Text; got != "still here" {
		t.Errorf("got %q after the errors", got)
	}
}

// wsBinary is the kind of frame for bytes that may be no text.
func wsBinary(s string) ws.MessageType {
	if utf8.ValidString(s) {
		return ws.MessageText
	}
	return ws.MessageBinary
}

// A client of the first generation takes every message for an answer, so it
// gets no others unless they are wanted.
func TestLegacyFilters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shown chat.Filters
		want  string
	}{
		{chat.Filters{}, ""},
		{chat.Filters{SendProgress: true, ShowReasoning: true}, "progress "},
		{chat.Filters{SendProgress: true, SendToolHints: true}, "progress tool_hint "},
	} {
		r := start(t, "", func(d *chat.Deps, _ *Options) { d.Shown = tt.shown })
		c := r.login()
		for _, k := range []bus.Kind{bus.Progress, bus.ToolHint, bus.Reasoning} {
			r.send(bus.Outbound{Kind: k, Route: route(c.chat, ""), Text: string(k)})
		}
		r.send(bus.Outbound{ID: "m", Kind: bus.Message, Route: route(c.chat, ""), Text: "end"})
		var kinds strings.Builder
		for m := c.next(); m["text"] != "end"; m = c.next() {
			kinds.WriteString(m["kind"].(string) + " ")
		}
		if got := kinds.String(); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.shown, got, tt.want)
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"true", "false"} {
		r := start(t, `{"token":"`+testToken+`","sendProgress":`+on+`,"sendToolHints":`+on+`,"showReasoning":`+on+`}`)
		c := r.login()
		c.modern()
		for _, k := range []bus.Kind{bus.Progress, bus.ToolHint, bus.Reasoning} {
			r.send(bus.Outbound{Kind: k, Route: route(c.chat, ""), Text: "x"})
		}
		r.send(bus.Outbound{ID: "m", Kind: bus.Message, Route: route(c.chat, ""), Text: "end"})
		n := 0
		for m := c.next(); m["text"] != "end"; m = c.next() {
			if m["text"] == "x" {
				n++
			}
		}
		if want := map[string]int{"true": 3, "false": 0}[on]; n != want {
			t.Errorf("switched %s: %d came through, want %d", on, n, want)
		}
	}
}
