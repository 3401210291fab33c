package slack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
)

const mention = "<@" + slacktest.BotUser + ">"

func TestReceive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event   object
		changes object
		want    []string
	}{
		"direct": {event: object{"channel": "D0ANN", "text": "hi &amp; &lt;bye&gt;"}, want: []string{"hi & <bye>"}},
		"names and links": {
			event: object{"channel": "D0ANN", "text": "ask <@U0EVE> in <#C0GEN|general> or <!here>: <https://x.test/a|page> <https://y.test> <mailto:a@b.c|a@b.c>"},
			want:  []string{"ask @Eve in #general or @here: page (https://x.test/a) https://y.test a@b.c"},
		},
		"mention":              {event: object{"channel": "C0GEN", "text": mention + " do it"}, want: []string{"Ann Lee: do it"}},
		"labelled mention":     {event: object{"channel": "C0GEN", "text": "<@" + slacktest.BotUser + "|nb> do it"}, want: []string{"Ann Lee: do it"}},
		"another's mention":    {event: object{"channel": "C0GEN", "text": "<@" + slacktest.BotUser + "X> do it"}},
		"not for us":           {event: object{"channel": "C0GEN", "text": "hello all"}},
		"only our name":        {event: object{"channel": "C0GEN", "text": mention}, want: []string{"Ann Lee: [empty message]"}},
		"command in a channel": {event: object{"channel": "C0GEN", "text": mention + " /new"}, want: []string{"/new"}},
		"open group":           {event: object{"channel": "C0GEN", "text": "hello"}, changes: object{"groupPolicy": "open"}, want: []string{"Ann Lee: hello"}},
		"listed group":         {event: object{"channel": "C0GEN", "text": "hello"}, changes: object{"groupPolicy": "allowlist", "groupAllowFrom": []string{"C0GEN"}}, want: []string{"Ann Lee: hello"}},
		"other listed group":   {event: object{"channel": "C0GEN", "text": mention + " hello"}, changes: object{"groupPolicy": "allowlist", "groupAllowFrom": []string{"G0SEC"}}},
		"listed group without mention": {
			event:   object{"channel": "C0GEN", "text": "hello"},
			changes: object{"groupPolicy": "allowlist", "groupAllowFrom": []string{"C0GEN"}, "groupRequireMention": true},
		},
		"bot":           {event: object{"channel": "D0EVE", "user": "U0EVE", "text": "hi", "bot_id": "B1"}},
		"listed bot":    {event: object{"channel": "D0ANN", "text": "hi", "bot_id": "B1"}, changes: object{"allowFrom": []string{"U0ANN"}}, want: []string{"hi"}},
		"ourselves":     {event: object{"channel": "D0ANN", "text": "hi", "user": slacktest.BotUser}},
		"service":       {event: object{"channel": "D0ANN", "text": "joined", "subtype": "channel_join"}},
		"without user":  {event: object{"channel": "C0GEN", "text": mention, "user": ""}},
		"reply to us":   {event: object{"channel": "C0GEN", "text": "and then?", "parent_user_id": slacktest.BotUser}, want: []string{"Ann Lee: and then?"}},
		"no DMs":        {event: object{"channel": "D0ANN", "text": "hi"}, changes: object{"dm": object{"enabled": false}}},
		"DM not listed": {event: object{"channel": "D0EVE", "user": "U0EVE", "text": "hi"}, changes: object{"dm": object{"policy": "allowlist", "allowFrom": []string{"U0BOB"}}}},
		"DM listed": {
			event:   object{"channel": "D0EVE", "user": "U0EVE", "text": "hi"},
			changes: object{"dm": object{"policy": "allowlist", "allowFrom": []string{"U0EVE"}}, "allowFrom": []string{}}, want: []string{"hi"},
		},
		"DM of an owner": {event: object{"channel": "D0ANN", "text": "hi"}, changes: object{"dm": object{"policy": "allowlist"}}, want: []string{"hi"}},
		"DM open, list":  {event: object{"channel": "D0EVE", "user": "U0EVE", "text": "hi"}, changes: object{"allowFrom": []string{"U0ANN"}}},
		"DM open, no list": {
			event:   object{"channel": "D0EVE", "user": "U0EVE", "text": "hi"},
			changes: object{"dm": object{"policy": "open"}, "allowFrom": []string{}, "owners": []string{}},
		},
		"shared": {
			event: object{"channel": "D0ANN", "text": "see", "attachments": []object{
				{"is_share": true, "author_name": "Eve: [x]", "text": "do <@U0EVE> evil"}, {"text": "a preview", "title": "page"},
			}},
			want: []string{"see\n> a message that was shared: [written by Eve [x]]\ndo @Eve evil"},
		},
		"edit": {event: object{"channel": "D0ANN", "subtype": "message_changed", "message": object{
			"type": "message", "user": "U0ANN", "text": "new", "ts": "1.000001", "edited": object{"ts": "2.000001"},
		}}},
		"wanted edit": {
			event: object{"channel": "D0ANN", "subtype": "message_changed", "message": object{
				"type": "message", "user": "U0ANN", "text": "new", "ts": "1.000001", "edited": object{"ts": "2.000001"},
			}, "previous_message": object{"text": "old"}},
			changes: object{"editedMessages": true}, want: []string{"new"},
		},
		"unfurl": {
			event: object{"channel": "D0ANN", "subtype": "message_changed", "message": object{
				"type": "message", "user": "U0ANN", "text": "same", "ts": "1.000001", "edited": object{"ts": "2.000001"},
			}, "previous_message": object{"text": "same"}},
			changes: object{"editedMessages": true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.changes)
			end := r.begin()
			if _, ok := c.event["user"]; !ok {
				c.event["user"] = "U0ANN"
			}
			r.fake.DM("U0ANN")
			r.fake.DM("U0EVE")
			r.fake.Post(c.event)
			r.Await("all events to be confirmed", func() bool { return r.fake.Pending() == 0 })
			r.receive(len(c.want))
			end()
			if d := cmp.Diff(append([]string{}, c.want...), r.texts()); d != "" {
				t.Errorf("the agent got (-want +got):\n%s", d)
			}
		})
	}
}

// A message that names thousands of people does not make thousands of calls.
func TestManyMentions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "<@U%d> ", i)
	}
	r.fake.Say("U0ANN", b.String())
	if in := r.receive(1)[0]; !strings.HasSuffix(in.Text, "@U999") || len(r.fake.Calls("users.info")) > 25 {
		t.Errorf("%d calls; the agent got %.100q", len(r.fake.Calls("users.info")), in.Text)
	}
}

// Threads are sessions; an answer in a channel opens one.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		event   object
		changes object
		thread  string // "TS" is the message itself
	}{
		{"direct", object{"channel": "D0ANN", "text": "hi"}, nil, ""},
		{"direct thread", object{"channel": "D0ANN", "text": "hi", "thread_ts": "17.000001"}, nil, "17.000001"},
		{"channel", object{"channel": "C0GEN", "text": mention + " hi"}, nil, "TS"},
		{"channel thread", object{"channel": "C0GEN", "text": mention + " hi", "thread_ts": "17.000001"}, nil, "17.000001"},
		{"channel without threads", object{"channel": "C0GEN", "text": mention + " hi"}, object{"replyInThread": false}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.changes)
			r.fake.DM("U0ANN")
			defer r.begin()()
			c.event["user"] = "U0ANN"
			ts := r.fake.Post(c.event)
			in := r.receive(1)[0]
			want := c.thread
			if want == "TS" {
				want = ts
			}
			key := ""
			if want != "" {
				key = "slack:" + in.Route.ChatID + ":" + want
			}
			if in.Route.ThreadID != want || in.SessionKey != key || in.Route.MessageID != ts || !in.WantsStream {
				t.Errorf("the message is %+v, want the thread %q and the session %q", in, want, key)
			}
		})
	}
}

// What was said in a thread before the bot is named there comes along once, as
// words of others.
func TestThreadContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"threadContextLimit": 2})
	defer r.begin()()
	root := r.fake.Write(object{"channel": "C0GEN", "user": "U0EVE", "text": "root"})
	r.fake.Write(object{"channel": "C0GEN", "user": "U0EVE", "text": strings.Repeat("x", 600), "thread_ts": root})
	r.fake.Write(object{"channel": "C0GEN", "user": "U0EVE", "text": "last", "thread_ts": root})
	r.fake.Post(object{"channel": "C0GEN", "user": "U0ANN", "text": mention + " sum up", "thread_ts": root})
	got := r.receive(1)[0]
	want := "Eve: " + strings.Repeat("x", 499) + "…\nEve: last"
	if got.Text != "Ann Lee: sum up" || len(got.Quoted) != 1 || got.Quoted[0].Text != want {
		t.Errorf("the agent got %q", shown(got))
	}
	r.fake.Post(object{"channel": "C0GEN", "user": "U0ANN", "text": mention + " again", "thread_ts": root})
	if got := r.receive(2)[1]; len(got.Quoted) != 0 {
		t.Errorf("the thread came along again: %q", shown(got))
	}
	// After a restart only what follows our own words is news.
	r.send(reply(route("C0GEN", root), "answer"))
	r.sharedEarlier.Delete("C0GEN/" + root)
	r.fake.Write(object{"channel": "C0GEN", "user": "U0EVE", "text": "meanwhile", "thread_ts": root})
	r.fake.Post(object{"channel": "C0GEN", "user": "U0ANN", "text": mention + " third", "thread_ts": root})
	if got := r.receive(3)[2]; len(got.Quoted) != 1 || got.Quoted[0].Text != "Eve: meanwhile" {
		t.Errorf("after a restart the agent got %q", shown(got))
	}
}

func TestFilesIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bot.deps.Media.Max = 100
	r.bot.deps.Transcribe = func(context.Context, string) string { return "spoken words" }
	defer r.begin()()
	good := r.fake.Store("../../ev\nil]name.png", "image/png", []byte("\x89PNG\r\n\x1a\n"))
	voice := r.fake.Store("audio.m4a", "audio/mp4", []byte("sound"))
	voice["subtype"] = "slack_audio"
	large := r.fake.Store("large.bin", "application/pdf", make([]byte, 101))
	lying := r.fake.Store("liar.bin", "application/pdf", make([]byte, 101))
	lying["size"] = 5
	elsewhere := object{"id": "F1", "name": "doc", "mode": "external", "url_private": "https://drive.test/x"}
	stealing := object{"id": "F2", "name": "thief", "mode": "hosted", "url_private_download": "http://127.0.0.1:1/slack.com"}
	gone := object{"id": "F3", "name": "gone", "mode": "tombstone"}
	r.fake.Post(object{
		"channel": r.fake.DM("U0ANN"), "user": "U0ANN", "text": "look", "subtype": "file_share",
		"files": []any{good, voice, large, lying, elsewhere, stealing, gone},
	})
	in := r.receive(1)[0]
	if in.Text != "look\n[transcription: spoken words]" || len(in.Media) != 1 {
		t.Fatalf("the agent got %q with %+v", in.Text, in.Media)
	}
	dir := filepath.Dir(in.Media[0].Path)
	list, err := os.ReadDir(dir)
	if err != nil || filepath.Base(dir) != "media" || !strings.HasSuffix(in.Media[0].Path, "_.._ev_il)name.png") {
		t.Errorf("the file is kept as %q among %v, %v", in.Media[0].Path, list, err)
	}
	want := []string{
		fmt.Sprintf("[image: %s]", in.Media[0].Path), "[attachment: large.bin - too large]", "[attachment: liar.bin - too large]",
		"[attachment: doc - not a file of Slack's, only a link]", "[attachment: thief - not a file of Slack's, only a link]",
		"[attachment: gone - removed, or hidden by the workspace]",
	}
	if d := cmp.Diff(want, strings.Split(in.Quoted[0].Text, "\n")); d != "" {
		t.Errorf("marks (-want +got):\n%s", d)
	}
}

// Without files:read Slack answers with a web page, which is not the file.
func TestFilesWithoutScope(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fake.SetScopes("chat:write,im:history,users:read")
	defer r.begin()()
	f := r.fake.Store("a.pdf", "application/pdf", []byte("pdf"))
	r.fake.Post(object{"channel": r.fake.DM("U0ANN"), "user": "U0ANN", "text": "look", "subtype": "file_share", "files": []any{f}})
	in := r.receive(1)[0]
	if len(in.Media) != 0 || !strings.Contains(shown(in), "[attachment: a.pdf - download failed]") || !strings.Contains(r.Log.String(), "files:read") {
		t.Errorf("the agent got %q; log: %s", shown(in), r.Log)
	}
}

func TestButtons(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	dm := r.fake.DM("U0ANN")
	ts := r.send(question(route(dm, ""), true, "Yes", strings.Repeat("long ", 20)))
	r.fake.Tap("U0ANN", dm, ts, "option.1", strings.Repeat("long ", 20))
	in := r.receive(1)[0]
	if in.Text != strings.Repeat("long ", 20) || in.Untrusted || in.Answer != nil || in.Route.ChatID != dm {
		t.Errorf("the agent got %+v", in)
	}
	r.Await("the buttons to go", func() bool {
		m := r.fake.Messages(dm)[0]
		return !strings.Contains(m.Blocks, "actions") && strings.Contains(m.Plain, "✓ long")
	})

	asked := ask(route("C0GEN", ""), "q1", "Yes", "No")
	ts = r.send(asked)
	r.fake.Tap("U0ANN", "C0GEN", ts, "option.0", "?q1.Yes")
	in = r.receive(2)[1]
	if in.Answer == nil || in.Answer.QuestionID != "q1" || in.Answer.Option != "Yes" || in.Untrusted {
		t.Errorf("the agent got %+v", in)
	}
	if m := r.fake.Messages("C0GEN")[0]; !strings.Contains(m.Blocks, "?q1.Yes") || m.Plain != "Sure?" {
		t.Errorf("the question is %+v", m)
	}
	ts = r.send(question(route(dm, ""), false, "Yes"))
	r.fake.Tap("U0ANN", dm, ts, "option.0", "Yes")
	if in = r.receive(3)[2]; !in.Untrusted {
		t.Errorf("a label that a tainted turn wrote is trusted: %+v", in)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	r.fake.Slash("U0ANN", "C0GEN", "/new", " please ")
	r.fake.Slash("U0ANN", "C0GEN", "/nanobot", "help me")
	r.fake.Slash("U0ANN", "C0GEN", "/nanobot", "write a poem")
	r.receive(3)
	if d := cmp.Diff([]string{"/new please", "/help me", "write a poem"}, r.texts()); d != "" {
		t.Errorf("the agent got (-want +got):\n%s", d)
	}
	r.fake.Slash("U0ANN", "D0OTHERS", "/new", "")
	if got := r.receive(4); got[3].Route.ChatID != r.fake.DM("U0ANN") {
		t.Errorf("the answer goes to %q, want the conversation with the person", got[3].Route.ChatID)
	}
}

// Nothing is confirmed before it is on disk, and what is on disk is handled
// after a restart.
func TestHeldOverRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.Refuse(errors.New("disk full"))
	end := r.begin()
	r.fake.Say("U0ANN", "one")
	r.fake.Say("U0ANN", "two")
	r.Await("both to be confirmed", func() bool { return r.fake.Pending() == 0 })
	end()
	if len(r.Inbound()) != 0 {
		t.Fatal("a message was submitted although that fails")
	}
	r.Refuse(nil)
	r.reopen(nil)
	defer r.begin()()
	r.receive(2)
	if d := cmp.Diff([]string{"one", "two"}, r.texts()); d != "" {
		t.Errorf("after the restart (-want +got):\n%s", d)
	}
}

// What was written while nobody listened is read from the places that are
// known, once, unless it is too old.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	alone := object{"includeThreadContext": false}
	r := newRig(t, alone)
	dm := r.fake.DM("U0ANN")
	end := r.begin()
	r.fake.Say("U0ANN", "first")
	root := r.fake.Post(object{"channel": "C0GEN", "user": "U0ANN", "text": mention + " root"})
	r.fake.Post(object{"channel": "C0GEN", "user": "U0ANN", "text": mention + " reply", "thread_ts": root})
	r.receive(3)
	end()
	r.fake.Write(object{"channel": dm, "user": "U0ANN", "text": "meanwhile"})
	r.fake.Write(object{"channel": dm, "user": slacktest.BotUser, "text": "our own"})
	r.fake.Write(object{"channel": "C0GEN", "user": "U0ANN", "text": "not for us"})
	r.fake.Write(object{"channel": "C0GEN", "user": "U0ANN", "text": mention + " in the thread", "thread_ts": root})
	r.reopen(alone)
	end = r.begin()
	r.receive(5)
	end()
	got := r.texts()[3:]
	slices.Sort(got)
	if d := cmp.Diff([]string{"Ann Lee: in the thread", "meanwhile"}, got); d != "" {
		t.Errorf("after the restart (-want +got):\n%s", d)
	}

	r.fake.Write(object{"channel": dm, "user": "U0ANN", "text": "not wanted"})
	r.reopen(object{"catchUp": false})
	r.begin()()
	if n := len(r.Inbound()); n != 5 {
		t.Errorf("catchUp is off, but the agent got %q", r.texts()[5:])
	}
}
