package teams

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
)

// ready is a channel that runs and knows the personal chat.
func ready(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, newFake(t), nil)
	end := r.begin()
	t.Cleanup(end)
	r.fake.AddChat(mine, teamstest.Personal)
	r.fake.AddChat(group, teamstest.Group)
	return r
}

func (r *rig) send(out bus.Outbound) string {
	r.t.Helper()
	if out.Kind == "" {
		out.Kind = bus.Final
	}
	if out.Route.ChatID == "" {
		out.Route = to(mine)
	}
	id, err := r.Send(r.t.Context(), out)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rig) edit(id string, out bus.Outbound, final bool) {
	r.t.Helper()
	if out.Route.ChatID == "" {
		out.Route = to(mine)
	}
	if err := r.Edit(r.t.Context(), out, id, final); err != nil {
		r.t.Fatal(err)
	}
}

// only is the one message of a chat.
func (r *rig) only(chatID string) teamstest.Message {
	r.t.Helper()
	list := r.fake.Messages(chatID)
	if len(list) != 1 {
		r.t.Fatalf("people see %+v, want one message", list)
	}
	return list[0]
}

func TestSendErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f    teamstest.Failure
		want string
	}{
		"too many":         {teamstest.Failure{Status: 429, RetryAfter: 7}, "limited 7s"},
		"too many, no end": {teamstest.Failure{Status: 429}, "limited 5s"},
		"blocked":          {teamstest.Failure{Status: 403, Code: "MessageWritesBlocked"}, "permanent"},
		"gone":             {teamstest.Failure{Status: 404, Code: "ConversationNotFound"}, "permanent"},
		"too large":        {teamstest.Failure{Status: 413, Code: "MessageSizeTooBig"}, "permanent"},
		"precondition":     {teamstest.Failure{Status: 412, Code: "PreconditionFailed"}, "again"},
		"bad gateway":      {teamstest.Failure{Status: 502, Garbage: true}, "again"},
		"gateway timeout":  {teamstest.Failure{Status: 504}, "again"},
		"cut":              {teamstest.Failure{}, "again"},
		"unauthorized":     {teamstest.Failure{Status: 401, Times: 2}, "again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ready(t)
			c.f.Part = "/activities"
			r.fake.Fail(c.f)
			_, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: to(mine), Text: "hi"})
			got := "again"
			if limited, ok := errors.AsType[*chat.RateLimitedError](err); ok {
				got = "limited " + limited.After.String()
			} else if chat.IsPermanent(err) {
				got = "permanent"
			}
			if err == nil || got != c.want {
				t.Errorf("the error %v counts as %q, want %q", err, got, c.want)
			}
			if n := len(r.fake.Messages("")); n != 0 {
				t.Errorf("%d messages arrived", n)
			}
		})
	}
}

// A token that is no longer good is replaced; credentials that are not end the
// channel, with the fix.
func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, newFake(t), nil)
	r.fake.AddChat(mine, teamstest.Personal)
	result := make(chan error, 1)
	go func() { result <- r.Run(t.Context(), r.Submit) }()
	r.Await("the channel to run", func() bool { return len(r.States()) > 0 })
	r.send(bus.Outbound{Text: "one"})
	r.fake.Expire()
	r.send(bus.Outbound{Text: "two"})
	if n, _ := r.fake.Issued(); n != 2 {
		t.Errorf("%d tokens were fetched, want 2", n)
	}
	r.fake.Change("another")
	_, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: to(mine), Text: "three"})
	if !errors.Is(err, chat.ErrNotReady) {
		t.Errorf("the error is %v", err)
	}
	err = <-result
	if !chat.IsFatal(err) || !strings.Contains(err.Error(), "AADSTS7000215") || !strings.Contains(err.Error(), "channels.msteams") || strings.Contains(err.Error(), teamstest.Password) {
		t.Errorf("Run ended with %v", err)
	}
}

func TestCredentialsRefused(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]any{"appPassword": "wrong", "appId": "wrong", "tenantId": "wrong"} {
		r := newRig(t, newFake(t), map[string]any{key: value})
		if err := r.Run(t.Context(), r.Submit); !chat.IsFatal(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("with a wrong %s Run ended with %v", key, err)
		}
		if _, err := probe(t.Context(), r.deps, section(r.fake, map[string]any{key: value})); err == nil {
			t.Errorf("the probe is content with a wrong %s", key)
		}
	}
	r := newRig(t, newFake(t), nil)
	if report, err := probe(t.Context(), r.deps, section(r.fake, nil)); err != nil || report.Identity != teamstest.AppID || len(report.Checks) != 2 || !report.Checks[1].OK {
		t.Errorf("the probe says %+v, %v", report, err)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	r := ready(t)
	for _, id := range []string{"", "general", "..", "../../v3"} {
		if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: to(id), Text: "x"}); !chat.IsPermanent(err) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for address, want := range map[string]bool{
		"https://smba.trafficmanager.net/emea/":          true,
		"https://SMBA.trafficmanager.net./emea/":         true,
		"https://europe.botframework.com/":               true,
		"https://botframework.com/":                      false,
		"https://smba.trafficmanager.net.example.com/":   false,
		"https://smba.trafficmanager.net@example.com/":   false,
		"https://evilbotframework.com/":                  false,
		"http://smba.trafficmanager.net/emea/":           false,
		"http://127.0.0.1/":                              false,
		"":                                               false,
		"smba.trafficmanager.net":                        false,
		"https://example.com/?x=smba.trafficmanager.net": false,
	} {
		if got := defaults().trusted(address); got != want {
			t.Errorf("%q is trusted: %v", address, got)
		}
	}
}

// Conversations are found again after a restart; old ones are forgotten.
func TestConversationsAreKept(t *testing.T) {
	t.Parallel()
	fake := newFake(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	r.say("1", "hi", nil)
	r.receive(1)
	end()
	elsewhere := map[string]any{"serviceUrl": "https://127.0.0.1/nowhere/"}
	r.reopen(elsewhere)
	end = r.begin()
	r.send(bus.Outbound{Text: "good morning"})
	end()
	r.deps.Now = func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }
	r.reopen(elsewhere)
	if err := r.facts.record("a:other", fake.ServiceURL(), true); err != nil {
		t.Fatal(err)
	}
	if got := r.facts.where(mine); got != "https://127.0.0.1/nowhere/" {
		t.Errorf("after a month the conversation is reached at %s", got)
	}
	if m := r.only(mine); m.Text != "good morning" {
		t.Errorf("people see %+v", m)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	const table = "It is\n\n| a | b |\n|---|---|\n| 1 | 2 |"
	for name, c := range map[string]struct {
		before func(f *teamstest.Server, n int)
		texts  []string
		want   string
		pieces int // that came as a stream
	}{
		"grows":        {nil, []string{"It", "It is", "It is four."}, "It is four.", 3},
		"other end":    {nil, []string{"It", "It is", "No: it is four."}, "No: it is four.", 3},
		"other markup": {nil, []string{"It", "It is\n\n| a |", table}, "It is\n\n```\na | b\n--+--\n1 | 2\n```", 3},
		"time runs out": {func(f *teamstest.Server, n int) {
			if n == 1 {
				f.EndStreams()
			}
		}, []string{"It", "It is", "It is four", "It is four."}, "It is four.", 1},
		"stopped": {func(f *teamstest.Server, n int) {
			if n == 1 {
				f.EndStreams()
				f.Fail(teamstest.Failure{Type: "typing", Status: 403, Code: "ContentStreamNotAllowed", Text: "Content stream was canceled by user"})
			}
		}, []string{"It", "It is", "It is four", "It is four."}, "It is four.", 1},
		"not allowed": {func(f *teamstest.Server, n int) {
			if n == 0 {
				f.Fail(teamstest.Failure{Type: "typing", Status: 403, Code: "ContentStreamNotAllowed", Text: "Content stream is not allowed"})
			}
		}, []string{"It", "It is", "It is four."}, "It is four.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ready(t)
			id := ""
			for i, text := range c.texts {
				if c.before != nil {
					c.before(r.fake, i)
				}
				out := bus.Outbound{Kind: bus.Delta, Text: text, StreamID: "s"}
				if i == 0 {
					id = r.send(out)
					continue
				}
				r.edit(id, out, i == len(c.texts)-1)
			}
			m := r.only(mine)
			if m.ID != id || m.Text != c.want || m.Stream || m.Streamed != c.pieces {
				t.Errorf("people see %+v, want %q with %d pieces", m, c.want, c.pieces)
			}
			if r.streams.busy(mine, time.Now()) {
				t.Error("the stream still goes on for us")
			}
		})
	}
}

// An end whose answer is lost is tried again without a second message.
func TestStreamEndIsLost(t *testing.T) {
	t.Parallel()
	r := ready(t)
	id := r.send(bus.Outbound{Kind: bus.Delta, Text: "It"})
	r.fake.Fail(teamstest.Failure{Type: "message", After: true})
	out := bus.Outbound{Kind: bus.Final, Route: to(mine), Text: "It is four."}
	if err := r.Edit(t.Context(), out, id, true); err == nil || chat.IsPermanent(err) {
		t.Fatalf("the error is %v", err)
	}
	r.edit(id, out, true)
	if m := r.only(mine); m.Text != "It is four." || m.Stream {
		t.Errorf("people see %+v", m)
	}
}

// In groups, and beside another stream, messages are edited instead.
func TestStreamByEdits(t *testing.T) {
	t.Parallel()
	r := ready(t)
	in := bus.Outbound{Kind: bus.Delta, Route: to(group), Text: "It <b> ![x](http://y)"}
	id := r.send(in)
	if m := r.only(group); m.Text != `It &lt;b> !\[x](http://y)` {
		t.Errorf("people see %q", m.Text)
	}
	in.Text = "It is"
	r.edit(id, in, false)
	in.Text = "It is *four*."
	r.edit(id, in, true)
	if m := r.only(group); m.Text != "It is *four*." || m.Streamed != 0 || len(m.Edits) != 2 {
		t.Errorf("people see %+v", m)
	}
	r.send(bus.Outbound{Kind: bus.Delta, Text: "first"})
	id = r.send(bus.Outbound{Kind: bus.Delta, Text: "second"})
	r.edit(id, bus.Outbound{Text: "second, done"}, true)
	if err := r.Signal(t.Context(), to(mine), chat.Working); err != nil {
		t.Fatal(err)
	}
	if list := r.fake.Messages(mine); len(list) != 2 || list[1].Text != "second, done" || list[1].Streamed != 0 {
		t.Errorf("people see %+v", list)
	}
}

func TestTyping(t *testing.T) {
	t.Parallel()
	r := ready(t)
	for _, p := range []chat.Phase{chat.Seen, chat.Working, chat.Answered} {
		if err := r.Signal(t.Context(), to(mine), p); err != nil {
			t.Fatal(err)
		}
	}
	if calls := r.fake.Calls(http.MethodPost, "/activities"); len(calls) != 1 || calls[0].Body["type"] != "typing" {
		t.Errorf("Teams was called %+v", calls)
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	r := ready(t)
	id := r.send(bus.Outbound{Text: "x"})
	for range 2 { // one that is gone already is not an error
		if err := r.Erase(t.Context(), to(mine), id); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.fake.Messages("")); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// accept says yes to an offer, whoever made it.
func (r *rig) accept(id, offer string) {
	r.t.Helper()
	r.say(id, "", teamstest.Object{"type": "invoke", "name": consentInvoke, "value": teamstest.Object{
		"action": "accept", "context": teamstest.Object{"offer": offer, "path": "/etc/passwd"}, "uploadInfo": teamstest.Object{"uploadUrl": r.fake.URL() + "/upload/1"},
	}})
}

// A file is offered, and uploaded when the person accepts it.
func TestFilesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "report.txt")
	picture := filepath.Join(dir, "p.png")
	png := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("x"), 1000)...)
	write := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, []byte("content"))
	write(picture, png)
	file := func(path string) []bus.Media { return []bus.Media{{Path: path}} }

	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		r := ready(t)
		r.say("1", "a file please", nil)
		r.send(bus.Outbound{Media: file(path)})
		r.Await("the file", func() bool { list := r.fake.Messages(mine); return len(list) == 1 && len(list[0].Files) == 1 })
		if m := r.only(mine); m.Files[0].Name != "report.txt" || string(m.Files[0].Data) != "content" || r.fake.Leaks() != 0 {
			t.Errorf("people have %+v, %d leaks", m, r.fake.Leaks())
		}
	})
	t.Run("declined", func(t *testing.T) {
		t.Parallel()
		r := ready(t)
		r.fake.Decline()
		r.say("1", "a file please", nil)
		r.send(bus.Outbound{Media: file(path)})
		r.Await("the end of the offer", func() bool { return len(r.fake.Messages(mine)) == 0 })
		if n := len(r.fake.Calls(http.MethodPut, "/upload/")); n != 0 {
			t.Errorf("%d files were uploaded", n)
		}
	})
	t.Run("changed", func(t *testing.T) {
		t.Parallel()
		r := ready(t)
		if err := r.facts.addOffer("o1", offer{Chat: mine, Path: path, Name: "report.txt", Size: 7, Hash: "of other content", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		r.accept("1", "o1")
		r.Await("an answer", func() bool { return len(r.fake.Messages(mine)) == 1 })
		if m := r.only(mine); m.Text != "[attachment: report.txt - it could not be sent; ask for it again]" || len(r.fake.Calls(http.MethodPut, "/upload/")) != 0 {
			t.Errorf("people see %+v", m)
		}
	})
	t.Run("picture", func(t *testing.T) {
		t.Parallel()
		r := ready(t)
		r.send(bus.Outbound{Route: to(group), Media: file(picture)})
		if m := r.only(group); len(m.Files) != 1 || !bytes.Equal(m.Files[0].Data, png) {
			t.Errorf("people see %+v", m)
		}
	})
	t.Run("group", func(t *testing.T) {
		t.Parallel()
		r := ready(t)
		r.send(bus.Outbound{Route: to(group), Media: file(path)})
		if m := r.only(group); m.Text != "[attachment: report.txt - Teams lets bots send files in personal chats only]" {
			t.Errorf("people see %+v", m)
		}
	})
	t.Run("forged", func(t *testing.T) {
		t.Parallel()
		r := ready(t)
		r.fake.Decline()
		r.say("1", "hi", nil)
		if err := r.facts.addOffer("known", offer{Chat: "a:other", Path: path, Name: "report.txt", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{"known", "unknown", ""} {
			r.accept("f"+string(rune('0'+i)), id)
		}
		r.say("2", "end", nil)
		r.receive(2)
		if n := len(r.fake.Calls(http.MethodPut, "/upload/")); n != 0 {
			t.Errorf("%d files were uploaded", n)
		}
	})
}

// The answers to a question are buttons; a tap answers it.
func TestButtons(t *testing.T) {
	t.Parallel()
	r := ready(t)
	tapOn := func(id, message, label string) {
		for _, m := range r.fake.Messages(mine) {
			if m.ID != message {
				continue
			}
			data, err := json.Marshal(m.Activity["attachments"])
			if err != nil || !strings.Contains(string(data), `"displayText":"`+label+`"`) {
				t.Fatalf("the card is %s, %v", data, err)
			}
			value := teamstest.Object{"nanobot": label}
			if strings.Contains(string(data), `"question":"q1"`) {
				value["question"] = "q1"
			}
			r.say(id, label, teamstest.Object{"value": value, "replyToId": message})
		}
	}
	ask := r.send(bus.Outbound{Kind: bus.Ask, Text: "Run it?", Question: &bus.Question{ID: "q1", Code: "k7f2", Options: []string{"yes", "no"}}})
	tapOn("1", ask, "yes")
	in := r.receive(1)[0]
	if in.Answer == nil || in.Answer.QuestionID != "q1" || in.Answer.Option != "yes" || in.Untrusted {
		t.Errorf("a tap is %+v", in)
	}
	r.Await("the buttons to go", func() bool { return r.fake.Messages(mine)[0].Activity["attachments"] == nil })
	if m := r.only(mine); m.Text != "Run it?" {
		t.Errorf("people see %+v", m)
	}

	options := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
	offer := r.send(bus.Outbound{Text: "Which?", Question: &bus.Question{ID: "q2", Options: options, Clean: true}})
	dirty := r.send(bus.Outbound{Text: "Which?", Question: &bus.Question{ID: "q3", Options: options}})
	tapOn("2", offer, "8")
	tapOn("3", dirty, "8")
	r.say("4", "anything", teamstest.Object{"value": teamstest.Object{"nanobot": "rm -rf /"}, "replyToId": offer})
	got := r.receive(4)
	for i, want := range []bool{false, true, true} {
		if m := got[i+1]; m.Answer != nil || m.Untrusted != want {
			t.Errorf("tap %d is %+v, want untrusted: %v", i, m, want)
		}
	}

	again := r.send(bus.Outbound{Kind: bus.Ask, Text: "Really?", Question: &bus.Question{ID: "q4", Code: "zz11", Options: []string{"yes", "no"}}})
	page := strings.Replace(replyPage, "1700000000001", again, 1)
	r.say("5", "Bob yes", teamstest.Object{"attachments": []any{pageOf(strings.Replace(page, "no, &lt;b&gt; first", "yes", 1))}})
	r.say("6", "Bob perhaps", teamstest.Object{"attachments": []any{pageOf(page)}})
	got = r.receive(6)
	if got[4].Answer == nil || got[4].Answer.QuestionID != "q4" || got[5].Answer != nil {
		t.Errorf("replies are %+v and %+v", got[4], got[5])
	}
}
