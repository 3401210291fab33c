package slack

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
)

func reply(to bus.Route, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Final, Route: to, Text: text}
}

func question(to bus.Route, clean bool, options ...string) bus.Outbound {
	return bus.Outbound{Kind: bus.Message, Route: to, Text: "Choose", Question: &bus.Question{Options: options, Clean: clean}}
}

func ask(to bus.Route, id string, options ...string) bus.Outbound {
	return bus.Outbound{Kind: bus.Ask, Route: to, Text: "Sure?", Plain: true, Question: &bus.Question{ID: id, Options: options}}
}

// online is a rig that knows who it is without a connection.
func online(t *testing.T, changes object) *rig {
	t.Helper()
	r := newRig(t, changes)
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSend(t *testing.T) {
	t.Parallel()
	r := online(t, nil)
	id := r.send(reply(route("C0GEN", ""), "**bold** <!channel>"))
	m := r.fake.Messages("C0GEN")[0]
	want := `[{"type":"markdown","text":"**bold** \u0026lt;!channel\u003e"}]`
	if id != m.TS || m.Blocks != want || m.Text != "*bold* &lt;!channel&gt;" || m.Params["unfurl_links"] != "false" || m.Params["unfurl_media"] != "false" {
		t.Errorf("sent %+v", m)
	}
	r.send(bus.Outbound{Kind: bus.Notice, Plain: true, Route: route("C0GEN", id), Text: "*as it is* <@U0ANN>"})
	if m := r.fake.Messages("C0GEN")[1]; m.Plain != "*as it is* <@U0ANN>" || m.Params["mrkdwn"] != "false" || m.Thread != id {
		t.Errorf("a plain text is sent as %+v", m)
	}
	if id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Progress, Route: route("C0GEN", ""), Text: " \n"}); id != "" || err != nil {
		t.Errorf("an empty text: %q, %v", id, err)
	}
	r.send(reply(route("C0GEN", "1.000001"), "the thread is gone"))
	if m := r.fake.Messages("C0GEN")[2]; m.Thread != "" {
		t.Errorf("sent %+v, want no thread", m)
	}
	r.fake.Fail(slacktest.Failure{Method: "chat.postMessage", Error: "invalid_blocks"})
	r.send(reply(route("C0GEN", ""), "# Head"))
	if m := r.fake.Messages("C0GEN")[3]; m.Plain != "*Head*" || m.Blocks != "[]" {
		t.Errorf("without blocks %+v", m)
	}
	r.send(reply(route("C0GEN", ""), strings.Repeat("<@ ", 3800))) // longer than a block once it is escaped
	if m := r.fake.Messages("C0GEN")[4]; m.Blocks != "[]" {
		t.Errorf("a text that is too long for a block has one: %.100s", m.Blocks)
	}
	r.send(reply(route("C0GEN", ""), "```\n"+strings.Repeat("<", maxText-10)+"\n```")) // longer than a text once it is escaped
	if m := r.fake.Messages("C0GEN")[5]; strings.Count(m.Plain, "<") != maxText-10 {
		t.Errorf("of a text full of brackets people see %d characters", len(m.Plain))
	}
}

func TestSendFails(t *testing.T) {
	t.Parallel()
	limited := func(err error) bool {
		e, ok := errors.AsType[*chat.RateLimitedError](err)
		return ok && e.After == 7*time.Second
	}
	transient := func(err error) bool {
		return err != nil && !chat.IsPermanent(err) && !errors.Is(err, chat.ErrNotReady)
	}
	for name, c := range map[string]struct {
		f     slacktest.Failure
		chat  string
		right func(err error) bool
		says  string
	}{
		"limit":     {f: slacktest.Failure{Status: http.StatusTooManyRequests, RetryAfter: 7}, right: limited},
		"server":    {f: slacktest.Failure{Status: http.StatusBadGateway}, right: transient},
		"cut":       {f: slacktest.Failure{}, right: transient},
		"garbage":   {f: slacktest.Failure{Garbage: true}, right: transient},
		"internal":  {f: slacktest.Failure{Error: "internal_error"}, right: transient},
		"refusal":   {f: slacktest.Failure{Error: "restricted_action"}, right: chat.IsPermanent},
		"scope":     {f: slacktest.Failure{Error: "missing_scope", Needed: "chat:write"}, right: chat.IsPermanent, says: "OAuth & Permissions"},
		"not there": {chat: "C0OUT", right: chat.IsPermanent, says: "/invite"},
		"unknown":   {chat: "C0NOPE", right: chat.IsPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := online(t, nil)
			if c.chat == "" {
				c.chat = "C0GEN"
				c.f.Method = "chat.postMessage"
				r.fake.Fail(c.f)
			}
			_, err := r.Send(t.Context(), reply(route(c.chat, ""), "hi"))
			if !c.right(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v", err)
			}
			if strings.Contains(err.Error(), slacktest.BotToken) || strings.Contains(err.Error(), "http://") {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	r := online(t, nil)
	to := route("C0GEN", "")
	id := r.send(bus.Outbound{Kind: bus.Delta, Route: to, Text: "begin"})
	if err := r.Edit(t.Context(), reply(to, "begin and end"), id, true); err != nil {
		t.Fatal(err)
	}
	m := r.fake.Messages("C0GEN")[0]
	if d := cmp.Diff([]string{"begin"}, m.Edits); d != "" || m.Plain != "begin and end" {
		t.Errorf("the message is %+v", m)
	}
	if err := r.Edit(t.Context(), reply(to, "x"), "1.000001", true); !chat.IsPermanent(err) {
		t.Errorf("an edit of nothing: %v", err)
	}
	if err := r.Erase(t.Context(), to, id); err != nil || len(r.fake.Messages("C0GEN")) != 0 {
		t.Errorf("erase: %v", err)
	}
	if err := r.Erase(t.Context(), to, id); err != nil {
		t.Errorf("erase again: %v", err)
	}
}

// Slack refuses a change whose text is over 4,000 characters. All parts of a
// streamed answer are shorter, also once they are escaped; beside blocks, which
// show all of it, the text is cut.
func TestEditLimit(t *testing.T) {
	t.Parallel()
	r := online(t, nil)
	to := route("C0GEN", "")
	id := r.send(bus.Outbound{Kind: bus.Delta, Route: to, Text: "begin"})
	for name, text := range map[string]string{
		"words":    strings.TrimSpace(strings.Repeat("word ", maxStreamed/5)),
		"brackets": "```\n" + strings.Repeat("<", maxStreamed-10) + "\n```",
		"calls":    strings.TrimSpace(strings.Repeat("<@ ", maxStreamed/3)),
		"emoji":    strings.Repeat("\U0001F642", maxStreamed/2),
	} {
		if err := r.Edit(t.Context(), reply(to, text), id, true); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m := r.fake.Messages("C0GEN")[0]; !strings.Contains(m.Plain, strings.Trim(text, "`\n")) {
			t.Errorf("%s: people see %d of %d characters", name, len(m.Plain), len(text))
		}
	}
	// Without blocks nothing is cut: what is too long becomes a message of its own.
	r.fake.Fail(slacktest.Failure{Method: "chat.update", Error: "invalid_blocks"})
	if err := r.Edit(t.Context(), reply(to, strings.Repeat("<> ", 1000)), id, true); !chat.IsPermanent(err) {
		t.Errorf("a text that is too long without blocks: %v", err)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	r := online(t, object{"reactEmoji": ":eyes:"})
	ts := r.fake.Write(object{"channel": "C0GEN", "user": "U0ANN", "text": "hi"})
	to := route("C0GEN", ts)
	to.MessageID = ts
	signal := func(p chat.Phase) {
		t.Helper()
		if err := r.Signal(t.Context(), to, p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	signal(chat.Seen)
	signal(chat.Seen)
	signal(chat.Working)
	if got := r.fake.Reactions("C0GEN", ts); !cmp.Equal(got, []string{"eyes"}) || r.fake.Status("C0GEN", ts) == "" {
		t.Errorf("while it works: %q, %q", got, r.fake.Status("C0GEN", ts))
	}
	signal(chat.Answered)
	if got := r.fake.Reactions("C0GEN", ts); !cmp.Equal(got, []string{"white_check_mark"}) {
		t.Errorf("after the answer: %q", got)
	}
	signal(chat.TurnFailed)
	if got := r.fake.Status("C0GEN", ts); got != "" {
		t.Errorf("after a failure: %q", got)
	}
	r.o.ReactEmoji = "no_such_emoji"
	for range 3 {
		_ = r.Signal(t.Context(), to, chat.Seen)
	}
	n := len(r.fake.Calls("reactions.add"))
	_ = r.Signal(t.Context(), to, chat.Seen)
	if len(r.fake.Calls("reactions.add")) != n {
		t.Error("a reaction that Slack does not know is tried again and again")
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	r := online(t, nil)
	path := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := bus.Outbound{Kind: bus.Final, Route: route("C0GEN", ""), Media: []bus.Media{{Path: path, Name: "../out.txt"}}}
	r.send(out)
	m := r.fake.Messages("C0GEN")[0]
	if len(m.Files) != 1 || string(m.Files[0].Data) != "content" || strings.Contains(m.Files[0].Name, "/") {
		t.Errorf("sent %+v", m)
	}
	r.fake.Fail(slacktest.Failure{Method: "files.getUploadURLExternal", Status: http.StatusTooManyRequests, RetryAfter: 2})
	if _, err := r.Send(t.Context(), out); err == nil || chat.IsPermanent(err) {
		t.Errorf("a limit: %v", err)
	}
	out.Media[0].Path = filepath.Join(t.TempDir(), "missing")
	if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) {
		t.Errorf("a missing file: %v", err)
	}
	r.fake.SetScopes("chat:write")
	out.Media[0].Path = path
	if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "files:write") {
		t.Errorf("a missing scope: %v", err)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	r := online(t, nil)
	for i := range 500 { // more than a page
		r.fake.Join([]slacktest.Person{{ID: "U1" + strings.Repeat("X", i), Handle: "p" + strings.Repeat("x", i), Name: "P"}})
	}
	r.fake.Join(nil, slacktest.Channel{ID: "C0ZZZ", Name: "zebra", Kind: "channel"})
	dm := r.fake.DM("U0ANN")
	for target, want := range map[string]string{
		"C0GEN": "C0GEN", "U0ANN": dm, "<#C0GEN|general>": "C0GEN", "<@U0ANN>": dm, "#general": "C0GEN", "#Zebra": "C0ZZZ",
		"@ann": dm, "ann": dm, "general": "C0GEN", " secret ": "G0SEC", "@p" + strings.Repeat("x", 450): "D1" + strings.Repeat("X", 450),
	} {
		got, err := r.Address(t.Context(), target)
		if err != nil || got.ChatID != want || got.Channel != "slack" {
			t.Errorf("%q is %+v, %v; want %q", target, got, err, want)
		}
	}
	for _, target := range []string{"#nope", "@nope", "nope", "", "#", "@general"} {
		if got, err := r.Address(t.Context(), target); err == nil {
			t.Errorf("%q is %+v, want an error", target, got)
		}
	}
	n := len(r.fake.Calls("users.list"))
	if _, err := r.Address(t.Context(), "@nobody2"); err == nil || len(r.fake.Calls("users.list")) != n {
		t.Errorf("the list of people was read again, or %v", err)
	}
	r.send(reply(route("#general", ""), "by name"))
	if got := r.fake.Messages("C0GEN"); len(got) != 1 {
		t.Errorf("sent %+v", got)
	}
}
