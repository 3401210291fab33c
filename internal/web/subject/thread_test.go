package subject_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

type call struct {
	CallID    string `json:"call_id"`
	Name      string
	Arguments json.RawMessage
	Result    *string
	IsError   bool `json:"is_error"`
	Denied    bool `json:"denied"`
	Untrusted bool
}

type message struct {
	Index       int
	Role        string
	Content     string
	At          string
	Reasoning   string
	ToolCalls   []call `json:"tool_calls"`
	Media       []string
	LatencyMS   int64 `json:"latency_ms"`
	Command     bool
	Interrupted bool
}

type shown struct {
	Messages []message
	HasMore  bool `json:"has_more"`
	Before   *int
}

func calls(ids ...string) session.Record {
	r := session.Record{Message: llm.Message{Role: llm.Assistant}}
	for _, id := range ids {
		r.ToolCalls = append(r.ToolCalls, llm.ToolCall{ID: id, Name: "exec", Arguments: `{"command":"` + id + `"}`})
	}
	return r
}

func result(id, text string) session.Record {
	return session.Record{Message: llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "exec", Content: llm.Text(text)}}
}

// A conversation as people see it.
func TestThread(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	question := user("What is it? sk-hush-0123456789\n\n[Runtime]")
	question.Runtime = &session.RuntimeContext{Suffix: "\n\n[Runtime]"}
	question.Media, question.Time = []string{"/data/media/x/cat.png"}, noon()
	internal, hidden, command := user("[goal]"), user("old"), user("/model")
	internal.Internal, hidden.Hidden, command.Command = true, true, true
	work := calls("c1", "c2", "c3")
	work.Reasoning, work.HasReasoning = "I should look.", true
	bad := result("c2", "boom")
	bad.IsError, bad.Denied = true, true
	fenced := result("c3", "")
	fenced.Content = runner.Fence(llm.Text("a page\nof somebody"), "c3", "web_fetch")
	final := answer("A cat.")
	final.LatencyMS = 1200
	h.say(t, "websocket:a", hidden, question, work, bad, result("c1", "done"), fenced, internal, final, command)
	got := read[shown](t, h, "sessions/websocket:a/webui-thread?direction=latest")
	if got.HasMore || got.Before == nil || *got.Before != 1 {
		t.Errorf("has_more %v, before %v", got.HasMore, got.Before)
	}
	done, boom, page := "done", "boom", "a page\nof somebody"
	want := []message{
		{Index: 1, Role: "user", Content: "What is it? [redacted:key]", At: "2026-05-04T12:00:00Z", Media: []string{"cat.png"}},
		{Index: 2, Role: "assistant", At: "2026-05-04T12:00:00Z", Reasoning: "I should look.", ToolCalls: []call{
			{CallID: "c1", Name: "exec", Arguments: json.RawMessage(`{"command":"c1"}`), Result: &done},
			{CallID: "c2", Name: "exec", Arguments: json.RawMessage(`{"command":"c2"}`), Result: &boom, IsError: true, Denied: true},
			{CallID: "c3", Name: "exec", Arguments: json.RawMessage(`{"command":"c3"}`), Result: &page, Untrusted: true},
		}},
		{Index: 7, Role: "assistant", Content: "A cat.", At: "2026-05-04T12:00:00Z", LatencyMS: 1200},
		{Index: 8, Role: "user", Content: "/model", At: "2026-05-04T12:00:00Z", Command: true},
	}
	if diff := cmp.Diff(want, got.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// A turn that was interrupted and taken up again shows its answer, not that there
// is none; one that was not taken up says so.
func TestThreadTakenUp(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	asked := func(text, id string, internal bool) session.Record {
		r := user(text)
		r.InboundID, r.Internal, r.TurnID = id, internal, "t"
		return r
	}
	mark := session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(session.TurnCut)}, Interrupted: true}
	again := asked("[go on]", "telegram:1/7", true)
	h.say(t, "telegram:1", asked("Go.", "telegram:1/7", false), asked("Faster.", "telegram:1/8", false), mark, again, mark, again, answer("Gone."),
		asked("Stay.", "telegram:1/9", false), mark, asked("[a job]", "cron:1", true), answer("Done."))
	for _, query := range []string{"", "?before=7", "?after=0"} {
		var texts []string
		for _, m := range read[shown](t, h, "sessions/telegram:1/webui-thread"+query).Messages {
			texts = append(texts, m.Content)
		}
		want := []string{"Go.", "Faster.", "Gone.", "Stay.", "(interrupted; there is no answer)", "Done."}
		switch query {
		case "?before=7":
			want = want[:3]
		case "?after=0":
			want = want[1:]
		}
		if !slices.Equal(texts, want) {
			t.Errorf("%q gives %q, want %q", query, texts, want)
		}
	}
}

// What a subagent found is on the page, without our words to the model; the page
// names the subagents that run.
func TestThreadSubagents(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	suffix := "\n[what it was to do, and its words]\n" + runner.Fence(llm.Text("sheep\nTask: Count the sheep\n\nResult:\nSeven sheep,\nsk-hush-0123456789"), "x", "quote").Text + "\n\n[Runtime]"
	found := user("[A subagent of this conversation has ended: done.]" + suffix)
	found.Runtime, found.Event, found.TaskID, found.Internal = &session.RuntimeContext{Suffix: suffix}, bus.SubagentResult, "5e1f", true
	h.say(t, "websocket:a", user("Count."), calls("c1"), result("c1", "Subagent 5e1f works"), answer("Started."), found, answer("Seven."))
	got := read[struct {
		Messages []struct {
			Role, Content, Event string
			TaskID               string `json:"task_id"`
		}
		Subagents []string
	}](t, h, "sessions/websocket:a/webui-thread")
	if len(got.Messages) != 5 || !slices.Equal(got.Subagents, []string{"5e1fwebsocket:a"}) {
		t.Fatalf("got %+v", got)
	}
	if m := got.Messages[3]; m.Role != "user" || m.Event != "subagent_result" || m.TaskID != "5e1f" || m.Content != "Seven sheep,\n[redacted:key]" {
		t.Errorf("the result is %+v", m)
	}
}

// Pages lead back to the beginning without a gap or a message twice.
func TestThreadPages(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var all []session.Record
	for i := range 30 {
		id := fmt.Sprintf("c%d", i%3) // some vendors use an id again
		all = append(all, user(fmt.Sprint(i)), calls(id), result(id, fmt.Sprint("result ", i)), answer("ok"))
	}
	h.say(t, "websocket:a", all...)
	var seen []message
	query := "?limit=7"
	for range 20 {
		p := read[shown](t, h, "sessions/websocket:a/webui-thread"+query)
		if len(p.Messages) > 7 {
			t.Fatalf("%d messages on a page of 7", len(p.Messages))
		}
		seen = append(p.Messages, seen...)
		if !p.HasMore {
			break
		}
		query = fmt.Sprintf("?limit=7&before=%d", *p.Before)
	}
	if len(seen) != 90 {
		t.Fatalf("%d messages seen, want 90", len(seen))
	}
	for i, m := range seen {
		if want := i/3*4 + i%3 + i%3/2; m.Index != want {
			t.Fatalf("message %d has index %d, want %d", i, m.Index, want)
		}
		if i%3 == 1 && (m.ToolCalls[0].Result == nil || *m.ToolCalls[0].Result != fmt.Sprint("result ", i/3)) {
			t.Errorf("call %d: %+v", i/3, m.ToolCalls[0])
		}
	}
	// The page ends between a call and its result.
	p := read[shown](t, h, "sessions/websocket:a/webui-thread?limit=1&before=2")
	if len(p.Messages) != 1 || p.Messages[0].ToolCalls[0].Result == nil {
		t.Errorf("a page that ends with a call: %+v", p.Messages)
	}
	h.say(t, "websocket:b", user("go"), calls("c1"), user("and hurry"), result("c1", "late"), answer("ok"))
	if p := read[shown](t, h, "sessions/websocket:b/webui-thread?before=2"); len(p.Messages) != 2 || p.Messages[1].ToolCalls[0].Result == nil {
		t.Errorf("somebody spoke between a call and its result: %+v", p.Messages)
	}
	if p := read[shown](t, h, "sessions/websocket:a/webui-thread?before=0"); p.Messages == nil || len(p.Messages) != 0 || p.HasMore || p.Before != nil {
		t.Errorf("before the beginning: %+v", p)
	}
}

// What is long is cut, and a page has an end.
func TestThreadBounds(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	long := calls("c1", "c2")
	long.ToolCalls[1].Arguments = `{"content":"` + strings.Repeat("a", 18<<10) + `"}` // not much too long
	long.ToolCalls[0].Arguments = `{"content":"` + strings.Repeat("ü", 20<<10) + `"}`
	// The credential lies across the place where it is cut.
	h.say(t, "websocket:a", long, result("c1", strings.Repeat("x", 16<<10-3)+"sk-hush-0123456789"+strings.Repeat("y", 9<<10)), user(strings.Repeat("z", 2100<<10)))
	p := read[shown](t, h, "sessions/websocket:a/webui-thread")
	c, text := p.Messages[0].ToolCalls[0], p.Messages[1].Content
	for _, c := range p.Messages[0].ToolCalls {
		var args string
		if err := json.Unmarshal(c.Arguments, &args); err != nil || len(args) > 17<<10 || !strings.Contains(args, "[cut here") {
			t.Errorf("arguments of %s: %v, %d bytes", c.CallID, err, len(args))
		}
	}
	if len(*c.Result) > 17<<10 || !strings.Contains(*c.Result, "[cut here") || strings.Contains(*c.Result, "sk-") {
		t.Errorf("result: %d bytes, %.60s", len(*c.Result), (*c.Result)[16<<10-10:])
	}
	if len(text) > 2049<<10 || !strings.HasSuffix(text, "2048 KiB are shown]") {
		t.Errorf("text: %d bytes", len(text))
	}
	for range 40 {
		h.say(t, "websocket:b", user(strings.Repeat("z", 200<<10)))
	}
	if p := read[shown](t, h, "sessions/websocket:b/webui-thread"); !p.HasMore || len(p.Messages) != 20 || *p.Before != 20 {
		t.Errorf("a heavy page: %d messages, more %v", len(p.Messages), p.HasMore)
	}
	for range 6 {
		var many []session.Record
		for range 100 {
			many = append(many, user("hi"))
		}
		h.say(t, "websocket:c", many...)
	}
	for query, want := range map[string]int{"": 100, "?limit=9999": 500, "?limit=0": 1} {
		if p := read[shown](t, h, "sessions/websocket:c/webui-thread"+query); len(p.Messages) != want {
			t.Errorf("%q: %d messages, want %d", query, len(p.Messages), want)
		}
	}
	h.refused(t, "sessions/websocket:c/webui-thread?limit=a", 400, "limit")
	h.refused(t, "sessions/websocket:c/webui-thread?before=-2", 400, "before")
	h.refused(t, "sessions/websocket:c/webui-thread?direction=oldest", 400, "direction")
	h.refused(t, "sessions/websocket:none/webui-thread", 404, "conversation")
}

// A turn has the name by which events of the socket know it.
func TestThreadTurns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	rec := func(r session.Record, turn, inbound string) session.Record {
		r.TurnID, r.InboundID = turn, inbound
		return r
	}
	h.say(t, "websocket:a",
		rec(user("one"), "aa", "websocket:a/client-1"), rec(answer("1"), "aa", ""),
		rec(user("two"), "bb", "websocket:a/~hidden"), rec(answer("2"), "bb", ""),
		rec(user("three"), "cc", "websocket:a/client-3"), rec(answer("3"), "cc", ""),
		rec(answer("a job"), "dd", ""))
	got := read[struct {
		Messages []struct {
			TurnID string `json:"turn_id"`
		}
	}](t, h, "sessions/websocket:a/webui-thread")
	var ids []string
	for _, m := range got.Messages {
		ids = append(ids, m.TurnID)
	}
	if diff := cmp.Diff([]string{"client-1", "client-1", "bb", "bb", "client-3", "client-3", "dd"}, ids); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}

// Pages go in both directions from any message, and say what is beyond them.
func TestThreadDirections(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var all []session.Record
	for i := range 50 { // 3 messages of 4 records each
		id := fmt.Sprintf("c%d", i)
		all = append(all, user(fmt.Sprint(i)), calls(id), result(id, "ok"), answer("ok"))
	}
	h.say(t, "websocket:a", all...)
	type page struct {
		Messages []message
		HasMore  bool `json:"has_more"`
		HasNewer bool `json:"has_newer"`
		Before   *int
		After    *int
		Total    int
		Seq      *int64
	}
	for _, c := range []struct {
		query       string
		first, last int // indexes
		n           int
		more, newer bool
	}{
		{"limit=6", 192, 199, 6, true, false},
		{"limit=6&before=192", 184, 191, 6, true, true},
		{"limit=6&before=8", 0, 7, 6, false, true},
		{"limit=6&after=7", 8, 15, 6, true, true},
		{"limit=6&after=191", 192, 199, 6, true, false},
		{"limit=6&after=195", 196, 199, 3, true, false},
		{"limit=6&around=100", 96, 103, 6, true, true},
		{"limit=6&around=0", 0, 7, 6, false, true},
		{"limit=6&around=199", 196, 199, 4, true, false},
		{"limit=500&around=100", 0, 199, 150, false, false},
	} {
		p := read[page](t, h, "sessions/websocket:a/webui-thread?"+c.query)
		n := len(p.Messages)
		if n != c.n || p.HasMore != c.more || p.HasNewer != c.newer || p.Total != 200 || p.Seq != nil {
			t.Errorf("%s: %d messages, more %v, newer %v, total %d", c.query, n, p.HasMore, p.HasNewer, p.Total)
			continue
		}
		if c.query != "limit=6&around=199" && (p.Messages[0].Index != c.first || p.Messages[n-1].Index != c.last || *p.Before != c.first || *p.After != c.last) {
			t.Errorf("%s: from %d to %d", c.query, p.Messages[0].Index, p.Messages[n-1].Index)
		}
		for _, m := range p.Messages {
			if len(m.ToolCalls) > 0 && m.ToolCalls[0].Result == nil {
				t.Errorf("%s: a call at %d without its result", c.query, m.Index)
			}
		}
	}
	for _, query := range []string{"after=1&before=9", "after=1&around=2", "around=1&before=9"} {
		h.refused(t, "sessions/websocket:a/webui-thread?"+query, 400, "page_ambiguous")
	}
	for _, query := range []string{"after=199", "after=9223372036854775807", "around=9223372036854775807&limit=1"} {
		if p := read[page](t, h, "sessions/websocket:a/webui-thread?"+query); len(p.Messages) != 0 || p.HasNewer || !p.HasMore {
			t.Errorf("%s: %d messages, more %v, newer %v", query, len(p.Messages), p.HasMore, p.HasNewer)
		}
	}
	h.events["websocket:a"] = 41
	if p := read[page](t, h, "sessions/websocket:a/webui-thread?limit=1"); p.Seq == nil || *p.Seq != 41 {
		t.Errorf("seq = %v", p.Seq)
	}
}

// A document of a message is named to the model in words; people see it as a file.
func TestDocumentsOfAMessage(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	suffix := "\n[Attachment: /media/X77PESYCEKHI_notes.md (notes.md, 7 bytes)]\n[Attachment: /etc/passwd (passwd, 1 bytes)]\n"
	one, two := user("look"+suffix), user(suffix)
	for _, r := range []*session.Record{&one, &two} {
		r.Runtime = &session.RuntimeContext{Suffix: suffix}
	}
	h.say(t, "websocket:a", one, two)
	got := read[struct {
		Messages []struct {
			Content     string
			Attachments []subject.Attachment
		}
	}](t, h, "sessions/websocket:a/webui-thread")
	want := []subject.Attachment{{Name: "notes.md", Type: "text/plain; charset=utf-8", Size: 7, URL: "/api/media/x/y"}}
	if len(got.Messages) != 2 || got.Messages[0].Content != "look" || got.Messages[1].Content != "" {
		t.Fatalf("messages: %+v", got)
	}
	for _, m := range got.Messages {
		if !slices.Equal(m.Attachments, want) {
			t.Errorf("attachments: %+v", m.Attachments)
		}
	}
}
