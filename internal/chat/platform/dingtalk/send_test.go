package dingtalk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
)

// heardIn lets Ann write and returns the message as the agent got it.
func heardIn(r *rig, group string) bus.Inbound {
	r.t.Helper()
	n := len(r.Inbound())
	r.fake.Write("ann", group, "hi", nil)
	return r.receive(n + 1)[n]
}

// mustSend sends, which must work, and returns what people see.
func mustSend(r *rig, out bus.Outbound) dingtalktest.Message {
	r.t.Helper()
	if _, err := r.Send(r.t.Context(), out); err != nil {
		r.t.Fatalf("send %q: %v", out.Text, err)
	}
	list := r.fake.Messages()
	return list[len(list)-1]
}

// Answers go by the session webhook while it is good, and mention the person in a
// group; others go by the API.
func TestWays(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := heardIn(r, "cid1")
	out := answer(in, "**Fine.**")
	if m := mustSend(r, out); m.Way != "webhook" || m.Chat != "group:cid1" || !slices.Equal(m.At, []string{"ann"}) || m.Text() != "@ann\n\n**Fine.**" || m.Param["title"] != "Fine." {
		t.Errorf("by the webhook: %+v", m)
	}
	next := out
	next.ReplyTo = ""
	if m := mustSend(r, next); len(m.At) != 0 || m.Text() != "**Fine.**" {
		t.Errorf("the next part: %+v", m)
	}
	fake.EndWebhooks()
	if m := mustSend(r, out); m.Way != "api" || m.Key != "sampleMarkdown" || m.Text() != "# @User ann\n\n**Fine.**" {
		t.Errorf("after the webhook's end: %+v", m)
	}
	direct := answer(heardIn(r, ""), "hi")
	direct.Meta = nil // such as of a cron job
	if m := mustSend(r, direct); m.Way != "api" || m.Chat != "ann" {
		t.Errorf("unasked: %+v", m)
	}
	late := answer(heardIn(r, ""), "hi")
	late.Meta[metaExpires] = "1000"
	if m := mustSend(r, late); m.Way != "api" {
		t.Errorf("late: %+v", m)
	}
	late.Meta[metaWebhook], late.Meta[metaExpires] = "https://evil.example/x", "99999999999999"
	if m := mustSend(r, late); m.Way != "api" {
		t.Errorf("by a foreign webhook: %+v", m)
	}
}

// Errors have the classes that the manager goes by.
func TestClasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail      dingtalktest.Failure
		chat      string
		deny      bool
		permanent bool
		limited   bool
		want      string
	}{
		"cut":     {fail: dingtalktest.Failure{}},
		"proxy":   {fail: dingtalktest.Failure{Status: 502, Garbage: true}},
		"limit":   {fail: dingtalktest.Failure{Status: 429, Code: "Throttling", Text: "slow"}, limited: true},
		"server":  {fail: dingtalktest.Failure{Status: 500, Code: "ServiceUnavailable", Text: "later"}},
		"refused": {fail: dingtalktest.Failure{Status: 400, Code: "invalidParameter", Text: "no"}, permanent: true},
		"denied":  {deny: true, permanent: true, want: "qyapi_robot_sendmsg"},
		"unknown": {chat: "zoe", permanent: true, want: "does not know"},
		"no chat": {chat: groupPrefix, permanent: true, want: "not a chat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, nil)
			fake.Write("ann", "", "hi", nil) // she is known
			if c.deny {
				fake.Deny()
			} else if c.chat == "" {
				c.fail.Path = "/batchSend"
				fake.Fail(c.fail)
			}
			_, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Message, Route: bus.Route{ChatID: or(c.chat, "ann")}, Text: "hi"})
			_, limited := errors.AsType[*chat.RateLimitedError](err)
			if err == nil || chat.IsPermanent(err) != c.permanent || limited != c.limited || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A token that is over is replaced once.
func TestTokens(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	fake.Write("ann", "", "hi", nil)
	out := bus.Outbound{Kind: bus.Message, Route: bus.Route{ChatID: "ann"}, Text: "hi"}
	mustSend(r, out)
	mustSend(r, out)
	fake.Expire()
	mustSend(r, out)
	if n := fake.Tokens(); n != 2 {
		t.Errorf("%d tokens", n)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	fake.Write("ann", "", "hi", nil)
	dir := t.TempDir()
	for _, c := range []struct{ name, data, key, file, kind string }{
		{"a.png", "\x89PNG\r\n\x1a\n", "sampleImageMsg", "a.png", ""},
		{"b.txt", "text", "sampleFile", "b.txt", "txt"},
		{"c.html", "<html>", "sampleFile", "c.zip", "zip"},
		{"d", "x", "sampleFile", "d", "bin"},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		m := mustSend(r, bus.Outbound{Kind: bus.Message, Route: bus.Route{ChatID: "ann"}, Media: []bus.Media{{Path: path, Name: c.name}}})
		kind, _ := m.Param["fileType"].(string)
		if m.Key != c.key || m.File != c.file || kind != c.kind {
			t.Errorf("%s: %s %s %s", c.name, m.Key, m.File, kind)
		}
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"text\n| a | b |\n| --- | --- |\n| 1 | 2 |", "text\n\n| a | b |\n| :--- | :--- |\n| 1 | 2 |"},
		{"```\n|a|\n|---|\n```", "```\n|a|\n|---|\n```"},
		{"**x**", "**x**"},
	} {
		if plain, got := render(bus.Outbound{Text: c.in}); plain || got != c.want {
			t.Errorf("render(%q) = %q", c.in, got)
		}
	}
	if plain, got := render(bus.Outbound{Text: "![x](https://evil.example/leak)"}); !plain || strings.Contains(got, "![") {
		t.Errorf("a picture: %q", got)
	}
	for in, want := range map[string]string{"# Hello **you**\nx": "Hello **you", "": "nanobot", "- " + strings.Repeat("a", 50): strings.Repeat("a", 19) + "…"} {
		if got := title(in); got != want {
			t.Errorf("title(%q) = %q", in, got)
		}
	}
}

// A reaction is taken away also if the request that set it was given up.
func TestReactionGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), nil)
	defer r.begin()()
	in := heardIn(r, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Signal(ctx, in.Route, chat.Seen); err != nil || len(r.fake.Reactions(in.Route.MessageID)) != 1 {
		t.Errorf("seen: %v, %q", err, r.fake.Reactions(in.Route.MessageID))
	}
	if err := r.Signal(t.Context(), in.Route, chat.Answered); err != nil || len(r.fake.Reactions(in.Route.MessageID)) != 0 {
		t.Errorf("answered: %v, %q", err, r.fake.Reactions(in.Route.MessageID))
	}
}
