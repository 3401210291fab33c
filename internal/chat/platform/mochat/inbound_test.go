package mochat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
)

var annSession = mochattest.SessionOf(mochattest.Ann)

// Both encodings and the polls deliver the same.
func TestWays(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*mochattest.Server){
		"msgpack":         func(*mochattest.Server) {},
		"json":            func(s *mochattest.Server) { s.Plain(true) },
		"no socket":       func(s *mochattest.Server) { s.Offline(true) },
		"no subscription": func(s *mochattest.Server) { s.Deaf(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			set(r.fake)
			defer r.start()()
			in := r.say(mochattest.Message{ID: "a", Text: " hi ", At: time.Now().Truncate(time.Millisecond)})
			if in.Text != "hi" || in.Route.ChatID != annSession || in.SenderID != mochattest.Ann || in.Scope == "" || in.Untrusted || in.ID != "mochat:"+annSession+"/a" {
				t.Errorf("the agent got %+v", in)
			}
			r.fake.Post(mochattest.Panel, mochattest.Message{ID: "b", From: mochattest.Ann, Text: "<@agent1> ho"})
			r.Await("the panel's", func() bool { return len(r.Inbound()) == 2 })
			in = r.Inbound()[1]
			at := in.Meta["timestamp"]
			want := map[string]string{
				"message_id": "b", "timestamp": at, "is_group": "true", "group_id": mochattest.Group, "sender_name": "name of ann", "sender_username": "",
				"target_kind": "panel", "was_mentioned": "true", "buffered_count": "1",
			}
			if d := cmp.Diff(want, in.Meta); d != "" || in.Text != "ho" || in.Route.ChatID != mochattest.Panel || at == "" {
				t.Errorf("the panel's message is %+v; meta (-want +got):\n%s", in, d)
			}
		})
	}
}

// A socket that fails again and again is given up, if the section says so; one
// that comes back is used.
func TestSocketComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fake.Offline(true)
	defer r.start()()
	r.Await("polls", func() bool { return len(r.fake.Calls("watch")) > 0 })
	r.fake.Offline(false)
	r.Await("the socket", func() bool { return r.fake.Subscribed(annSession) > 0 })
	r.say(mochattest.Message{Text: "hi"})

	r = newRig(t, fields{"maxRetryAttempts": 1})
	r.fake.Offline(true)
	defer r.start()()
	r.Await("the end of the socket", func() bool { return strings.Contains(r.Log.String(), "is given up") })
	r.fake.Offline(false)
	r.say(mochattest.Message{Text: "hi"})
	if r.fake.Connected() != 0 {
		t.Error("the socket was tried again")
	}
}

// What is written before the first start is history, and so is what a panel has;
// what is written while we are away is read, if it is not too old; a restart
// repeats nothing.
func TestHistory(t *testing.T) {
	t.Parallel()
	for _, offline := range []bool{false, true} {
		r := newRig(t, nil)
		r.fake.Offline(offline)
		both := func(id, text string, at time.Time) {
			r.fake.Say(annSession, mochattest.Message{ID: "s" + id, From: mochattest.Ann, Text: text, At: at})
			r.fake.Post(mochattest.Panel, mochattest.Message{ID: "p" + id, From: mochattest.Ann, Text: text, At: at})
		}
		for range 150 { // more than one batch
			both("", "history", ago(time.Minute))
		}
		want := []string{}
		expect := func(text string) {
			want = append(want, text, text)
			r.Await(text, func() bool { return len(r.texts()) >= len(want) })
			if d := cmp.Diff(want, r.texts()); d != "" {
				t.Fatalf("offline %v (-want +got):\n%s", offline, d)
			}
		}
		end := r.start()
		both("1", "one", time.Time{})
		expect("one")
		end()
		both("2", "too old", ago(time.Hour))
		both("3", "while away", time.Time{})
		r.reopen(nil)
		end = r.start()
		expect("while away")
		end()
		r.reopen(nil)
		end = r.start()
		both("4", "two", time.Time{})
		expect("two")
		end()
	}
}

// The clock of the server does not matter.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{5 * time.Hour, -5 * time.Hour} {
		r := newRig(t, fields{"catchUp": false})
		r.fake.Skew(skew)
		at := time.Now().Add(skew - time.Minute)
		r.fake.Say(annSession, mochattest.Message{From: mochattest.Ann, Text: "history", At: at})
		r.fake.Post(mochattest.Panel, mochattest.Message{From: mochattest.Ann, Text: "history", At: at})
		end := r.begin()
		r.say(mochattest.Message{Text: "hi"})
		r.fake.Post(mochattest.Panel, mochattest.Message{From: mochattest.Ann, Text: "ho"})
		r.Await("both", func() bool { return len(r.Inbound()) == 2 })
		if d := cmp.Diff([]string{"hi", "ho"}, r.texts()); d != "" {
			t.Errorf("a clock %v ahead (-want +got):\n%s", skew, d)
		}
		end()
	}
}

// A message that cannot be kept is not lost: the cursor stays before it.
func TestNotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	r.say(mochattest.Message{Text: "one"})
	r.Refuse(errors.New("no space left on device"))
	r.fake.Say(annSession, mochattest.Message{From: mochattest.Ann, Text: "two"})
	r.Await("a try", func() bool { return strings.Contains(r.Log.String(), "could not be accepted yet") })
	end()
	r.Refuse(nil)
	r.reopen(nil)
	defer r.begin()()
	r.Await("the message", func() bool { return slices.Equal(r.texts(), []string{"one", "two"}) })
}

// The file of Python nanobot is read and written.
func TestCursorFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir, err := r.deps.Dir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "session_cursors.json")
	if err := os.WriteFile(path, []byte(`{"schemaVersion": 1, "updatedAt": "2026-02-01T00:00:00", "cursors": {"`+annSession+`": 1, "session_gone": 7, "bad": "x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"read by Python", "since then"} {
		r.fake.Say(annSession, mochattest.Message{From: mochattest.Ann, Text: text})
	}
	end := r.begin()
	r.Await("what came since", func() bool { return slices.Equal(r.texts(), []string{"since then"}) })
	end()
	var file marksFile
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &file) != nil {
		t.Fatalf("%s, %v", data, err)
	}
	if d := cmp.Diff(map[string]int64{annSession: 2, "session_gone": 7}, file.Cursors); d != "" || file.Version != 1 || file.Updated == "" {
		t.Errorf("the file is %s", data)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}

	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.reopen(nil)
	defer r.begin()()
	r.say(mochattest.Message{Text: "after damage"})
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Error(err)
	}
}

// New sessions and panels are found, also by a message.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := newRig(t, fields{"refreshIntervalMs": 3600_000})
	defer r.begin()()
	r.fake.AddSession("session_new", "bob")
	r.fake.Say("session_new", mochattest.Message{ID: "n1", From: "bob", Text: "first"})
	r.Await("the first message", func() bool { return len(r.Inbound()) == 1 })
	r.Await("a subscription", func() bool { return r.fake.Subscribed("session_new") == 1 })
	r.fake.Say("session_new", mochattest.Message{ID: "n2", From: "bob", Text: "second"})
	r.fake.AddPanel("panel_new", "group2", "new", 0)
	r.fake.Post("panel_new", mochattest.Message{From: "bob", Text: "third"})
	r.Await("all", func() bool { return len(r.Inbound()) == 3 })
	if d := cmp.Diff([]string{"first", "second", "third"}, slices.Sorted(slices.Values(r.texts()))); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	r = newRig(t, nil)
	defer r.begin()()
	r.fake.AddSession("session_later", "bob", "carol")
	r.fake.AddPanel("voice", mochattest.Group, "voice", 1)
	r.fake.AddPanel("panel_later", mochattest.Group, "later", 0)
	r.Await("subscriptions", func() bool { return r.fake.Subscribed("session_later") == 1 && r.fake.Subscribed("panel_later") == 1 })
	if r.fake.Subscribed("voice") != 0 {
		t.Error("a panel without texts is watched")
	}
	r.fake.Say("session_later", mochattest.Message{From: "bob", Text: "hi"})
	r.Await("the message", func() bool { return len(r.Inbound()) == 1 })
	if in := r.Inbound()[0]; in.Meta["is_group"] != "true" || !strings.HasSuffix(in.Scope, "/bob") {
		t.Errorf("a session of three people: %+v", in)
	}
}

// Lists without a star keep others out.
func TestLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, fields{"sessions": []string{annSession}, "panels": []string{mochattest.Panel}})
	defer r.begin()()
	r.fake.AddSession("session_bob", "bob")
	r.fake.AddPanel("panel2", mochattest.Group, "other", 0)
	r.fake.Say("session_bob", mochattest.Message{From: "bob", Text: "no"})
	r.fake.Post("panel2", mochattest.Message{From: "bob", Text: "no"})
	r.fake.Emit("claw.session.events", fields{"sessionId": "session_bob", "events": []any{said("b", "bob", "no")}})
	r.fake.Post(mochattest.Panel, mochattest.Message{From: "bob", Text: "yes"})
	r.Await("the message", func() bool { return len(r.Inbound()) == 1 })
	r.say(mochattest.Message{Text: "hi"})
	if d := cmp.Diff([]string{"yes", "hi"}, r.texts()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// said is an event of a session.
func said(id, from, text string) fields {
	return fields{"type": "message.add", "timestamp": time.Now().UTC().Format(time.RFC3339), "payload": fields{"messageId": id, "author": from, "content": text}}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meta, content string
		want          bool
	}{
		"flag":          {`{"mentioned":true}`, `"x"`, true},
		"other flag":    {`{"wasMentioned":true}`, `"x"`, true},
		"not a flag":    {`{"mentioned":"yes"}`, `"x"`, false},
		"list":          {`{"mentions":["u9"," me "]}`, `"x"`, true},
		"ids":           {`{"mentionIds":["me"]}`, `"x"`, true},
		"objects":       {`{"mentionedUserIds":[{"userId":"me"}]}`, `"x"`, true},
		"other objects": {`{"mentionedUsers":[7,{"_id":"me"}]}`, `"x"`, true},
		"others":        {`{"mentions":["you"]}`, `"x"`, false},
		"tag":           {`{}`, `"hi <@me>"`, true},
		"at":            {`null`, `"hi @me, you"`, true},
		"Chinese":       {`null`, `"@me你好"`, true},
		"a longer name": {`null`, `"@meadow @me_2"`, false},
		"none":          {`[]`, `"me"`, false},
		"not typed":     {`{}`, `{"text":"@me"}`, false},
	} {
		m := message{Meta: json.RawMessage(c.meta), Content: json.RawMessage(c.content)}
		if got := m.mentions("me"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for s, want := range map[string]string{"<@me> /new": "/new", "@me /new": "/new", "@me": "", "@meadow hi": "@meadow hi", "hi @me": "hi @me"} {
		if got := unaddressed(s, "me"); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
}

// Messages that the platform wrote are not trusted; empty ones say so.
func TestContent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	for content, want := range map[string]string{`""`: "[empty message]", `null`: "[empty message]", `{"card":"obey"}`: `(untrusted) {"card":"obey"}`, `[1]`: "(untrusted) [1]"} {
		var v any
		if err := json.Unmarshal([]byte(content), &v); err != nil {
			t.Fatal(err)
		}
		if got := told(r.say(mochattest.Message{Content: v})); got != want {
			t.Errorf("%s: the agent got %q, want %q", content, got, want)
		}
	}
}

// Without a mention rule messages of a panel are answered together: after a
// pause, or with one that mentions us. Words of others are quoted, those of
// strangers are not even kept.
func TestReplyDelay(t *testing.T) {
	t.Parallel()
	r := newRig(t, fields{"replyDelayMode": "non-mention", "replyDelayMs": 3600_000, "allowFrom": []string{mochattest.Ann, "bob"}})
	end := r.begin()
	post := func(from, text string) {
		r.fake.Post(mochattest.Panel, mochattest.Message{From: from, Name: strings.ToUpper(from), Text: text})
	}
	post("ann", "one")
	post("eve", "obey")
	post("bob", "two")
	r.Await("both to be kept", func() bool { return r.held() == 2 })
	end() // they outlive a restart
	r.reopen(fields{"replyDelayMode": "non-mention", "replyDelayMs": 3600_000, "allowFrom": []string{mochattest.Ann, "bob"}})
	end = r.begin()
	post("eve", "<@agent1> obey")
	post("ann", "<@agent1> three")
	r.Await("the answer", func() bool { return len(r.Inbound()) == 1 })
	in := r.Inbound()[0]
	if d := cmp.Diff("ANN: one\nANN: three\n> ANN: one\nBOB: two\nANN: three", told(in)); d != "" || in.Meta["buffered_count"] != "3" || in.SenderID != "ann" || in.Route.MessageID == "" {
		t.Errorf("%+v (-want +got):\n%s", in, d)
	}

	post("bob", "four")
	post("ann", "/stop") // a command waits for nothing and is not joined
	r.Await("the command", func() bool { return len(r.Inbound()) == 3 })
	if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Ask, Route: in.Route, Text: "Shall I? yes k7", Question: &bus.Question{Code: "k7"}}); err != nil {
		t.Fatal(err)
	}
	post("ann", "yes k7")
	r.Await("the answer", func() bool { return len(r.Inbound()) == 4 })
	if d := cmp.Diff([]string{"four", "/stop", "yes k7"}, r.texts()[1:]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	end()

	r = newRig(t, fields{"replyDelayMode": "non-mention", "replyDelayMs": 300})
	defer r.begin()()
	post("ann", "one")
	post("ann", "two")
	r.Await("the pause", func() bool { return strings.Contains(strings.Join(r.texts(), "\n"), "two") })
}

// held is how many messages wait.
func (r *rig) held() int {
	dir, err := r.deps.Dir()
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "mochat.held.jsonl"))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), `"event"`) - strings.Count(string(data), `"done"`)
}

// Where a mention is required, other messages are only context.
func TestRequiredMention(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"off": "three", "non-mention": "three\n> [said before in the group:\nname of bob: one]"} {
		r := newRig(t, fields{"replyDelayMode": mode, "replyDelayMs": 1, "groups": fields{mochattest.Group: fields{"requireMention": true}}, "allowFrom": []string{mochattest.Ann, "bob"}})
		end := r.begin()
		r.fake.Post(mochattest.Panel, mochattest.Message{From: "bob", Text: "one"})
		r.fake.Post(mochattest.Panel, mochattest.Message{From: "eve", Text: "obey"})
		r.fake.Post(mochattest.Panel, mochattest.Message{From: mochattest.Ann, Text: "@agent1 three"})
		r.Await("the message", func() bool { return len(r.Inbound()) == 1 })
		if d := cmp.Diff([]string{want}, r.texts()); d != "" {
			t.Errorf("%s (-want +got):\n%s", mode, d)
		}
		end()
	}
}

// Of an agent that does not know its own id the messages that come back are
// known by their text, each once.
func TestOwnMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, fields{"agentUserId": ""})
	defer r.begin()()
	out := bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: annSession}, Text: "hello"}
	if _, err := r.Send(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	r.say(mochattest.Message{Text: "hello"})
	if d := cmp.Diff([]string{"hello"}, r.texts()); d != "" || r.Inbound()[0].SenderID != mochattest.Ann {
		t.Errorf("-want +got:\n%s", d)
	}
	if !strings.Contains(r.Log.String(), "agentUserId is empty") {
		t.Error("no warning about the missing id")
	}
}

var _ chat.Channel = (*bot)(nil)
