package feishu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// The form of a message suits what it says.
func TestForms(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	table := "| a | b |\n|---|---|\n| 1 | 2 |\n"
	for text, want := range map[string]string{
		"hi":                            "text hi",
		"a <at user_id=\"all\"></at> b": "text a <\u200bat user_id=\"all\"></at> b",
		"see [docs](https://x.y/z) now": "post see docs now",
		strings.Repeat("word ", 60):     "post " + strings.TrimSpace(strings.Repeat("word ", 60)),
		"line one\nline two " + strings.Repeat("x", 200): "post line one\nline two " + strings.Repeat("x", 200),
		"# Head\n\ntext":        "interactive # Head\n\ntext",
		"some **bold** and a*b": "interactive some **bold** and a*b",
		"- one\n- two":          "interactive - one\n- two",
		"1. one\n2. two":        "interactive 1. one\n2. two",
		"```go\nx < y\n```":     "interactive ```go\nx < y\n```",
		table:                   "interactive | a | b |\n| --- | --- |\n| 1 | 2 |",
		"**x** <at id=all></at> ![p](https://x.y/p.png) ![q](img_v3)": "interactive **x** <at id=all></at> [p](https://x.y/p.png) q (img_v3)",
	} {
		id := r.send(out(text))
		for _, m := range r.fake.Messages("") {
			if got := m.Type + " " + m.Plain; m.ID == id && got != want {
				t.Errorf("%q is sent as %q, want %q", text, got, want)
			}
		}
	}
	plain := out("**not bold** _x_")
	plain.Plain = true
	r.send(plain)
	all := r.fake.Messages("")
	if last := all[len(all)-1]; last.Type != "text" || last.Plain != plain.Text {
		t.Errorf("a plain text is %+v", last)
	}
	for _, c := range r.fake.Calls("POST /open-apis/im/v1/messages") {
		if strings.Contains(c.Body, "<at id=all") {
			t.Errorf("words of ours call all people: %s", c.Body)
		}
	}
}

// A card has a few tables; more are drawn, and where Feishu takes none all are.
func TestTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	five := strings.Repeat("| a | b |\n|---|---|\n| 1 | 2 |\n\nand\n\n", 5)
	r.send(out(five))
	r.fake.SetTables(0)
	r.send(out(five))
	var got []int
	for _, m := range r.fake.Messages("") {
		got = append(got, strings.Count(m.Plain, "| --- |"), strings.Count(m.Plain, "```"))
	}
	if d := cmp.Diff([]int{3, 4, 0, 10}, got); d != "" {
		t.Errorf("tables and fences (-want +got):\n%s", d)
	}
}

// What Feishu does not take as a card is sent as text, all of it.
func TestTextInstead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	r.fake.Fail(feishutest.Failure{Code: codeCard, Msg: "Failed to create card content", Times: 2})
	message := out("# Head\n\n" + strings.Repeat("word ", 1500))
	message.Key = "k"
	r.send(message)
	got := r.fake.Messages("")
	var lines []string
	for _, m := range got {
		lines = append(lines, m.Type+" "+m.Plain)
	}
	all := strings.Join(lines, "\n")
	if len(got) != 3 || strings.Count(all, "word") != 1500 || strings.Count(all, "text ") != 3 {
		t.Errorf("%d messages with %d words", len(got), strings.Count(all, "word"))
	}
}

// A 1 MB answer stays within the limits, by the manager's parts.
func TestHugeParts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	limit := r.Caps().MaxChars
	for _, text := range []string{strings.Repeat("\"", limit), strings.Repeat("\\\n", limit/2), strings.Repeat("中", limit/3), "`" + strings.Repeat("x", limit-2) + "`"} {
		r.send(out(text))
		stream := out(text)
		stream.StreamID = "s"
		r.send(stream)
	}
}

// The same key is not sent twice.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	r.fake.Fail(feishutest.Failure{After: true})
	message := out("hi")
	message.Key = "final:1/0"
	if _, err := r.Send(t.Context(), message); err == nil || chat.IsPermanent(err) {
		t.Fatalf("a lost answer: %v", err)
	}
	if id := r.send(message); id == "" || len(r.fake.Messages("")) != 1 {
		t.Errorf("%d messages", len(r.fake.Messages("")))
	}
}

// Every error says how to go on.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    feishutest.Failure
		want string
	}{
		{feishutest.Failure{Code: codeChatRate}, "limited"},
		{feishutest.Failure{Code: codeAppRate}, "limited"},
		{feishutest.Failure{Status: 429}, "limited"},
		{feishutest.Failure{Code: 230002, Msg: "not in the chat"}, "permanent"},
		{feishutest.Failure{Code: codeNoBot}, "permanent"},
		{feishutest.Failure{Code: codeScope, Msg: "scopes [im:message] are required"}, "permanent"},
		{feishutest.Failure{Code: codeDeniedIP}, "permanent"},
		{feishutest.Failure{Code: 2200, Status: 500}, "again"},
		{feishutest.Failure{Garbage: true}, "again"},
		{feishutest.Failure{}, "again"},
		{feishutest.Failure{Code: codeTokenInvalid, Times: 2}, "not ready"},
	} {
		r := newRig(t, nil).ready()
		r.fake.Fail(c.f)
		_, err := r.Send(t.Context(), out("x"))
		_, limited := errors.AsType[*chat.RateLimitedError](err)
		got := "again"
		switch {
		case err == nil:
			got = "sent"
		case limited:
			got = "limited"
		case chat.IsPermanent(err):
			got = "permanent"
		case errors.Is(err, chat.ErrNotReady):
			got = "not ready"
		}
		if got != c.want {
			t.Errorf("%+v: %s (%v), want %s", c.f, got, err, c.want)
		}
		if err != nil && c.f.Msg != "" && !strings.Contains(err.Error(), c.f.Msg) {
			t.Errorf("%v does not say %q", err, c.f.Msg)
		}
	}
}

// Answers in topics are replies; elsewhere the first part is one if the settings
// say so. What is gone is not answered but said.
func TestReplies(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"replyToMessage": true}).ready()
	r.fake.Put(feishutest.Message{ID: "om_1", Chat: feishutest.GroupID})
	r.fake.Put(feishutest.Message{ID: "om_2"})
	group := bus.Route{Channel: "feishu", ChatID: feishutest.GroupID, MessageID: "om_1"}
	topic := bus.Route{Channel: "feishu", ChatID: feishutest.GroupID, ThreadID: feishutest.ThreadRoot}
	for i, c := range []struct {
		out    bus.Outbound
		parent string
		thread bool
	}{
		{bus.Outbound{Kind: bus.Final, Route: group, ReplyTo: "om_1", Text: "x"}, "om_1", true},
		{bus.Outbound{Kind: bus.Final, Route: group, Text: "x"}, "", false},
		{bus.Outbound{Kind: bus.ToolHint, Route: group, ReplyTo: "om_1", Text: "x"}, "", false},
		{bus.Outbound{Kind: bus.Final, Route: to("om_2"), ReplyTo: "om_2", Text: "x"}, "om_2", false},
		{bus.Outbound{Kind: bus.Final, Route: topic, Text: "x"}, feishutest.ThreadRoot, true},
		{bus.Outbound{Kind: bus.Notice, Route: topic, Text: "x"}, feishutest.ThreadRoot, true},
	} {
		r.send(c.out)
		all := r.fake.Messages("")
		if m := all[len(all)-1]; m.Parent != c.parent || (m.Thread != "") != c.thread {
			t.Errorf("%d: the parent is %q, the topic %q", i, m.Parent, m.Thread)
		}
	}
	r.fake.Delete("om_2")
	r.send(bus.Outbound{Kind: bus.Final, Route: to("om_2"), ReplyTo: "om_2", Text: "still"})
	r.send(bus.Outbound{Kind: bus.Final, Route: to("om_none"), ReplyTo: "om_none", Text: "unknown"})
	all := r.fake.Messages("")
	if m := all[len(all)-1]; m.Parent != "" || m.Plain != "unknown" {
		t.Errorf("in place of a reply: %+v", m)
	}
	for id, want := range map[string]string{"oc_1": "chat_id", "ou_1": "open_id", "on_1": "union_id", "a@b.c": "email", "abc": "user_id"} {
		if got := idType(id); got != want {
			t.Errorf("%s is a %s", id, got)
		}
	}
}

// An answer grows in one card, whose streaming mode ends with it; after ten
// minutes Feishu ends it earlier.
func TestStreamingCard(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	delta := bus.Outbound{Kind: bus.Delta, StreamID: "s", Route: to("om_1"), Text: "It", Key: "s/0"}
	id := r.send(delta)
	edit := func(text string, final bool) {
		t.Helper()
		delta.Text = text
		if err := r.Edit(t.Context(), delta, id, final); err != nil {
			t.Fatal(err)
		}
	}
	look := func(text string, streaming bool) {
		t.Helper()
		if m := r.fake.Messages("")[0]; m.Plain != text || m.Streaming != streaming || len(r.fake.Messages("")) != 1 {
			t.Errorf("people see %q, streaming %v", m.Plain, m.Streaming)
		}
	}
	look("It", true)
	edit("It is", false)
	r.fake.CloseCard(id)
	edit("It is **f", false)
	look("It is **f", true)
	edit("It is **four**.", true)
	look("It is **four**.", false)

	// Another process goes on with the card.
	r.reopen(nil)
	r.ready()
	edit("It is **five**.", true)
	look("It is **five**.", false)
	if err := r.Erase(t.Context(), to(""), id); err != nil || len(r.fake.Messages("")) != 0 {
		t.Errorf("erase: %v", err)
	}
	if err := r.Erase(t.Context(), to(""), id); err != nil {
		t.Errorf("erase what is gone: %v", err)
	}
	if err := r.Edit(t.Context(), delta, "om_none", true); !chat.IsPermanent(err) {
		t.Errorf("edit what is gone: %v", err)
	}
}

// Feishu ends the streaming mode ten minutes after it began, by a refusal or
// without a word. An answer that takes longer loses nothing by that, neither a
// table nor its end, also when another process goes on with it.
func TestLongStreamingCard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ silent, restart bool }{
		"refused":                 {},
		"dropped":                 {silent: true},
		"refused after a restart": {restart: true},
		"dropped after a restart": {silent: true, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			var ahead atomic.Int64
			r.deps.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			r.reopen(nil)
			r.ready()
			r.fake.SetSilent(c.silent)
			text := "| a | b |\n| - | - |\n| 1 | 2 |\n"
			delta := bus.Outbound{Kind: bus.Delta, StreamID: "s", Route: to("om_1"), Text: text, Key: "s/0"}
			id := r.send(delta)
			for i := range 8 { // twenty minutes
				r.fake.Advance(150 * time.Second)
				ahead.Add(int64(150 * time.Second))
				if c.restart && i == 5 {
					r.reopen(nil)
					r.ready()
				}
				delta.Text = fmt.Sprintf("%s\nstep %d", text, i)
				if err := r.Edit(t.Context(), delta, id, i == 7); err != nil {
					t.Fatal(err)
				}
				m := r.fake.Messages("")[0]
				if !strings.Contains(m.Plain, fmt.Sprintf("step %d", i)) || !strings.Contains(m.Plain, "| 1 | 2 |") {
					t.Errorf("step %d: people see %q", i, m.Plain)
				}
				if m.Streaming != (i < 7) {
					t.Errorf("step %d: streaming %v", i, m.Streaming)
				}
			}
		})
	}
}

// Feishu lets a text be changed twenty times, and a card for fourteen days. What
// comes later is sent as a new message.
func TestEditsAreUsedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	out := bus.Outbound{Kind: bus.Final, Route: to("om_1"), Text: "It"}
	id := r.send(out)
	for i := range 21 {
		out.Text = fmt.Sprint("It is ", i)
		err := r.Edit(t.Context(), out, id, true)
		if i < 20 && err != nil || i == 20 && !chat.IsPermanent(err) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	out.Text = "# A card\n\n| a | b |\n| - | - |\n| 1 | 2 |"
	id = r.send(out)
	r.fake.Advance(15 * 24 * time.Hour)
	if err := r.Edit(t.Context(), out, id, true); !chat.IsPermanent(err) {
		t.Errorf("a card of fifteen days: %v", err)
	}
}

// The last preview of an answer is not written again at its end.
func TestStreamingCardEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	delta := bus.Outbound{Kind: bus.Delta, StreamID: "s", Route: to("om_1"), Text: "It", Key: "s/0"}
	id := r.send(delta)
	for _, final := range []bool{false, true} {
		delta.Text = "It is four."
		if err := r.Edit(t.Context(), delta, id, final); err != nil {
			t.Fatal(err)
		}
	}
	if m := r.fake.Messages("")[0]; m.Plain != "It is four." || m.Streaming || r.fake.Idle() != 0 {
		t.Errorf("people see %+v after %d edits for nothing", m, r.fake.Idle())
	}
}

// A key whose message was sent before belongs to the card of that message.
func TestStreamSentBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	delta := bus.Outbound{Kind: bus.Delta, StreamID: "s", Route: to("om_1"), Text: "It", Key: "s/0"}
	r.fake.Fail(feishutest.Failure{After: true})
	if _, err := r.Send(t.Context(), delta); err == nil {
		t.Fatal("the answer was lost")
	}
	id := r.send(delta) // the same process: the same card
	delta.Text = "It is"
	if err := r.Edit(t.Context(), delta, id, false); err != nil {
		t.Fatal(err)
	}
	r.reopen(nil)
	r.ready()
	r.fake.SetSkew(0)
	if again := r.send(delta); again != id {
		t.Fatalf("the message is %s, want %s", again, id)
	}
	if len(r.fake.Messages("")) != 1 {
		t.Errorf("people see %+v", r.fake.Messages(""))
	}
}

// What is sent with the key of an earlier message changes that one: also when
// another process sent it a moment ago, and in another form.
func TestChangeSentBefore(t *testing.T) {
	t.Parallel()
	delta := bus.Outbound{Kind: bus.Delta, StreamID: "s", Route: to("om_1"), Text: "It", Key: "s/0"}
	answer := bus.Outbound{Kind: bus.Final, Route: to("om_1"), Text: "It is four.", Key: "s/0"}
	card := answer
	card.Text = "# It\n\nis four."
	for name, c := range map[string]struct {
		first, again bus.Outbound
		restart      bool
	}{
		"a preview of a process that died":           {delta, delta, true},
		"a preview of a process that died, answered": {delta, answer, true},
		"a preview, answered":                        {delta, answer, false},
		"a preview, answered with a card":            {delta, card, false},
		"an answer of a process that died":           {answer, answer, true},
		"a card of a process that died":              {card, card, true},
		"an answer":                                  {answer, answer, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil).ready()
			r.fake.Fail(feishutest.Failure{After: true})
			if _, err := r.Send(t.Context(), c.first); err == nil {
				t.Fatal("the answer was lost")
			}
			if c.restart {
				r.reopen(nil)
				r.ready()
			}
			id := r.send(c.again)
			said := c.again
			said.Text = strings.ReplaceAll(c.again.Text, "It", "It surely")
			if err := r.Edit(t.Context(), said, id, true); err != nil {
				t.Fatal(err)
			}
			if got := r.fake.Messages(""); len(got) != 1 || !strings.Contains(got[0].Plain, "It surely") || got[0].Streaming {
				t.Errorf("people see %+v", got)
			}
		})
	}
}

// Without the scope for such cards an answer appears when it is complete.
func TestWithoutCards(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fake.SetScopes("im:message,im:resource")
	r.ready()
	delta := bus.Outbound{Kind: bus.Delta, StreamID: "s", Route: to("om_1"), Text: "It"}
	for range 2 {
		if id := r.send(delta); id != "" {
			t.Errorf("sent %s", id)
		}
	}
	delta.Kind = bus.Message
	r.send(delta)
	if got := r.fake.Messages(""); len(got) != 1 || got[0].Plain != "It" {
		t.Errorf("people see %+v", got)
	}
	if n := strings.Count(r.Log.String(), "may not use cards that grow"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
}

// Messages of other forms can be changed, too.
func TestEditForms(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	for _, text := range []string{"text", "[a](https://x.y) post", "**card**"} {
		id := r.send(out(text))
		if err := r.Edit(t.Context(), out("changed"), id, true); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, m := range r.fake.Messages("") {
		if m.Plain != "changed" {
			t.Errorf("people see %+v", m)
		}
	}
}

// Files are shown as what they are.
func TestSendFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	dir := t.TempDir()
	for name, c := range map[string]struct{ data, want string }{
		"a.png":       {"\x89PNG\r\n\x1a\n0000", "image"},
		"picture.txt": {"\x89PNG\r\n\x1a\n0000", "image"},
		"v.opus":      {"OggS" + strings.Repeat("\x00", 24) + "OpusHead", "audio"},
		"m.mp4":       {"\x00\x00\x00\x18ftypmp42" + strings.Repeat("\x00", 20), "media"},
		"d.docx":      {"PK\x03\x04", "file"},
		"n.txt":       {"words", "file"},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		message := out("")
		message.Media = []bus.Media{{Path: file}}
		id := r.send(message)
		for _, m := range r.fake.Messages("") {
			if m.ID == id && (m.Type != c.want || m.File != name) {
				t.Errorf("%s is sent as %s %q", name, m.Type, m.File)
			}
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	message := out("")
	message.Media = []bus.Media{{Path: empty}}
	if _, err := r.Send(t.Context(), message); !chat.IsPermanent(err) {
		t.Errorf("an empty file: %v", err)
	}
}

// Marks say how far a message is, also after a restart.
func TestMarks(t *testing.T) {
	t.Parallel()
	set := map[string]any{"doneEmoji": "DONE", "failEmoji": "CrossMark"}
	r := newRig(t, set).ready()
	r.fake.Put(feishutest.Message{ID: "om_1"})
	for _, c := range []struct {
		phase   chat.Phase
		restart bool
		want    string
	}{
		{chat.Seen, false, "THUMBSUP"},
		{chat.Working, false, "THUMBSUP"},
		{chat.Answered, true, "DONE"},
		{chat.Seen, false, "DONE THUMBSUP"},
		{chat.TurnFailed, false, "CrossMark DONE"},
		{chat.Seen, false, "CrossMark DONE THUMBSUP"},
		{chat.TurnStopped, false, "CrossMark DONE"},
	} {
		if c.restart {
			r.reopen(set)
			r.ready()
		}
		if err := r.Signal(t.Context(), to("om_1"), c.phase); err != nil {
			t.Errorf("%s: %v", c.phase, err)
		}
		if got := strings.Join(r.fake.Reactions("om_1"), " "); got != c.want {
			t.Errorf("after %s the marks are %q, want %q", c.phase, got, c.want)
		}
	}
	r.reopen(map[string]any{"reactEmoji": "NOPE"})
	r.ready()
	if err := r.Signal(t.Context(), to("om_1"), chat.Seen); err != nil {
		t.Errorf("an unknown reaction: %v", err)
	}
}

// A new conversation begins below a line across the chat.
func TestDivider(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	for i, fail := range []bool{false, true} {
		id := []string{"om_1", "om_2"}[i]
		r.fake.Say(feishutest.Message{ID: id, Content: feishutest.Text("/new")})
		r.receive(i + 1)
		if fail {
			r.fake.Fail(feishutest.Failure{Code: codeFormat, Msg: "msg_type"})
		}
		r.send(bus.Outbound{Kind: bus.Final, Route: to(id), Text: "A new conversation.", Turn: &bus.Turn{}})
	}
	r.send(bus.Outbound{Kind: bus.Final, Route: to("om_3"), Text: "else", Turn: &bus.Turn{}})
	var got []string
	for _, m := range r.fake.Messages("") {
		got = append(got, m.Type+" "+m.Plain)
	}
	if d := cmp.Diff([]string{"system A new conversation.", "text A new conversation.", "text else"}, got); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
}

// A probe says what is missing.
func TestProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	report, err := probe(t.Context(), r.deps, section(t, r.fake, nil))
	if err != nil || report.Identity != "nb_bot ("+feishutest.AppID+")" {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, c := range report.Checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
	r.fake.SetScopes("im:message")
	r.fake.Fail(feishutest.Failure{Name: "POST /callback/ws/endpoint", Code: 514, Status: 200, Msg: "not enabled"})
	report, err = probe(t.Context(), r.deps, section(t, r.fake, nil))
	data, _ := json.Marshal(report.Checks)
	if err != nil || !strings.Contains(string(data), "missing: im:resource, cardkit:card:write") || !strings.Contains(string(data), "not enabled") {
		t.Errorf("%s, %v", data, err)
	}
	if r.fake.Connected() != 0 {
		t.Error("a probe connects")
	}
	if _, err := probe(t.Context(), r.deps, section(t, r.fake, map[string]any{"appSecret": "wrong"})); err == nil || !strings.Contains(err.Error(), "channels.feishu.appId") {
		t.Errorf("a wrong secret: %v", err)
	}
}
