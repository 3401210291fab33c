package matrix

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

type object = matrixtest.Object

// What people send becomes what the agent reads.
func TestInbound(t *testing.T) {
	t.Parallel()
	fake := home(t)
	fake.Say(matrixtest.Event{ID: "$ours", Room: annRoom, Sender: matrixtest.Bot}, matrixtest.Text("Shall I?\n\nAnswer with a word and the code: yes k7f2, no k7f2"))
	file := fake.Store("text/plain", []byte("content"))
	reply := func(id string, more object) object {
		c := object{"msgtype": "m.text", "m.relates_to": object{"m.in_reply_to": object{"event_id": id}}}
		maps.Copy(c, more)
		return c
	}
	for name, test := range map[string]struct {
		content object
		want    string
	}{
		"words":       {matrixtest.Text("hello\nthere"), "hello\nthere"},
		"emote":       {object{"msgtype": "m.emote", "body": "waves"}, "waves"},
		"our name":    {matrixtest.Text("nanobot: hello"), "hello"},
		"only a name": {matrixtest.Text("@nanobot:fake.example"), "[empty message]"},
		"command":     {matrixtest.Text("!help me"), "/help me"},
		"no command":  {matrixtest.Text("!important"), "!important"},
		"reply": {
			reply("$ours", object{"body": "> <@nanobot:fake.example> Shall I?\n> and so on\n\nwhy"}),
			"why\n> what this answers: [answers you: Shall I?\n\nAnswer with a word and the code: yes k7f2, no k7f2]",
		},
		"reply to what is gone": {reply("$gone", object{"body": "this"}), "this\n> what this answers: [answers a message that cannot be read]"},
		"location":              {object{"msgtype": "m.location", "body": "here", "geo_uri": "geo:52.1,13.2;u=3"}, "here\n> sent along: [location: 52.1, 13.2]"},
		"file with words":       {object{"msgtype": "m.file", "body": "look", "filename": "a.txt", "url": file}, "look\n> files: [file: FILE]"},
		"file":                  {object{"msgtype": "m.image", "body": "a.png", "url": file}, "\n> files: [image: FILE]"},
		"no such file":          {object{"msgtype": "m.file", "body": "x", "url": "mxc://fake.example/none"}, "\n> files: [attachment: x - download failed]"},
		"no address":            {object{"msgtype": "m.file", "body": "x", "url": "https://example.org/x"}, "\n> files: [attachment: x - download failed]"},
		"declared too large":    {object{"msgtype": "m.file", "body": "big", "url": file, "info": object{"size": 1 << 40}}, "\n> files: [attachment: big - too large]"},
		"hostile name":          {object{"msgtype": "m.file", "body": "../../etc/passwd\x00", "url": "mxc://fake.example/none"}, "\n> files: [attachment: _.._etc_passwd_ - download failed]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
			defer r.begin()()
			id := fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, test.content)
			var in bus.Inbound
			r.Await("the message", func() bool {
				i := slices.IndexFunc(r.Inbound(), func(in bus.Inbound) bool { return in.Route.MessageID == id })
				if i >= 0 {
					in = r.Inbound()[i]
				}
				return i >= 0
			})
			got := shown(in)
			for _, m := range in.Media {
				got = strings.ReplaceAll(got, m.Path, "FILE")
				if data, err := os.ReadFile(m.Path); err != nil || string(data) != "content" {
					t.Errorf("the file is %q, %v", data, err)
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if in.Scope != "" || in.ID != "matrix:"+id {
				t.Errorf("the message is %+v", in)
			}
		})
	}
}

// A short word as a reply to a question of ours answers it.
func TestAnswerByReply(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	q := matrixtest.Text("Shall I?\n\nAnswer with a word and the code: yes k7f2, no k7f2")
	fake.Say(matrixtest.Event{ID: "$ours", Room: annRoom, Sender: matrixtest.Bot}, q)
	fake.Say(matrixtest.Event{ID: "$hers", Room: annRoom, Sender: ann}, q)
	reply := func(to, word string) object {
		return object{"msgtype": "m.text", "body": word, "m.relates_to": object{"m.in_reply_to": object{"event_id": to}}}
	}
	r.say("1", reply("$ours", "yes"))
	r.say("2", reply("$ours", "yes, but tomorrow"))
	r.say("3", reply("$hers", "yes"))
	got := r.receive(4)[1:]
	if a := got[0].Answer; a == nil || a.QuestionID != "k7f2" || a.Option != "yes" {
		t.Errorf("the answer is %+v", a)
	}
	if got[1].Answer != nil || got[2].Answer != nil {
		t.Errorf("%+v and %+v count as answers", got[1].Answer, got[2].Answer)
	}
}

// Threads are conversations of their own, and answers stay in them.
func TestThread(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	r.say("root", matrixtest.Text("a topic"))
	r.say("in", object{"msgtype": "m.text", "body": "more", "m.relates_to": object{
		"rel_type": "m.thread", "event_id": "$root", "is_falling_back": true, "m.in_reply_to": object{"event_id": "$root"},
	}})
	in := r.receive(2)[1]
	if in.SessionKey != "matrix:"+annRoom+":thread:$root" || in.Route.ThreadID != "$root" || len(in.Quoted) != 0 || in.Meta["thread_root_event_id"] != "$root" {
		t.Errorf("the message is %+v", in)
	}
	if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: in.Route, ReplyTo: in.Route.MessageID, Text: "answer"}); err != nil {
		t.Fatal(err)
	}
	want := `"m.relates_to":{"rel_type":"m.thread","event_id":"$root","m.in_reply_to":{"event_id":"$in"},"is_falling_back":true}`
	if got := fake.Messages(matrixtest.Bot)[0]; got.Thread != "$root" || !strings.Contains(string(got.Event.Content), want) {
		t.Errorf("the answer is %s", got.Event.Content)
	}
}

// In groups only what names us is for us, in all the ways that clients name
// people; an edit that names us counts, others do not.
func TestMentions(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false, "groupPolicy": "mention", "groupHistory": 5})
	defer r.begin()()
	say := func(id, sender string, c object) {
		fake.Say(matrixtest.Event{ID: "$" + id, Room: teamRoom, Sender: sender}, c)
	}
	with := func(body string, more object) object {
		c := matrixtest.Text(body)
		maps.Copy(c, more)
		return c
	}
	none := object{"m.mentions": object{}}
	say("1", ann, with("nanobot is nice", none))
	say("2", ann, with("nanobots are nice", nil))
	say("3", ann, with("all of you", object{"m.mentions": object{"room": true}}))
	say("4", mallory, with("nanobot: obey", object{"m.mentions": object{"user_ids": []string{matrixtest.Bot}}}))
	say("5", ann, object{"msgtype": "m.notice", "body": "nanobot: beep"})
	say("a", ann, with("nanobot: by mention", object{"m.mentions": object{"user_ids": []string{matrixtest.Bot}}}))
	say("b", ann, with("please, nanobot, by name", nil))
	say("c", ann, with("by pill", object{"formatted_body": `<a href="https://matrix.to/#/` + matrixtest.Bot + `">x</a> by pill`}))
	say("edit", ann, object{
		"msgtype": "m.text", "body": "* x", "m.new_content": with("nanobot: edited", object{"m.mentions": object{"user_ids": []string{matrixtest.Bot}}}),
		"m.relates_to": object{"rel_type": "m.replace", "event_id": "$1"},
	})
	say("edit2", ann, object{
		"msgtype": "m.text", "body": "* x", "m.new_content": with("nanobot: again", nil),
		"m.relates_to": object{"rel_type": "m.replace", "event_id": "$a"},
	})
	say("end", ann, with("nanobot: end", nil))
	r.Await("the last message", func() bool {
		return slices.ContainsFunc(r.Inbound(), func(in bus.Inbound) bool { return strings.HasSuffix(in.Text, ": end") })
	})
	var got []string
	for _, in := range r.Inbound() {
		got = append(got, in.Text)
		if in.Scope == "" {
			t.Errorf("%q belongs to the owner's memory", in.Text)
		}
	}
	who := "ann (" + ann + "): "
	want := []string{who + "by mention", who + "please, nanobot, by name", who + "by pill", who + "edited", who + "end"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if first := r.Inbound()[0]; len(first.Quoted) == 0 || !strings.Contains(first.Quoted[0].Text, "nanobots are nice") {
		t.Errorf("what was said before is not passed along: %+v", first.Quoted)
	}
}

// Rooms that others can join or read are not direct, even with two members.
func TestDirectRooms(t *testing.T) {
	t.Parallel()
	fake := home(t)
	rooms := map[string]map[string]object{
		"!public:" + matrixtest.Server:   {"m.room.join_rules": {"join_rule": "public"}},
		"!readable:" + matrixtest.Server: {"m.room.history_visibility": {"history_visibility": "world_readable"}},
	}
	for id, state := range rooms {
		fake.Room(id, state, ann, matrixtest.Bot)
	}
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	for id := range rooms {
		fake.Say(matrixtest.Event{Room: id, Sender: ann}, matrixtest.Text("hi"))
	}
	r.say("1", matrixtest.Text("hi"))
	for _, in := range r.receive(3) {
		if direct := in.Scope == ""; direct != (in.Route.ChatID == annRoom) {
			t.Errorf("a message of %s has the scope %q", in.Route.ChatID, in.Scope)
		}
	}
	fake.Member(annRoom, ann, mallory, "invite")
	r.say("2", matrixtest.Text("now with a guest"))
	if in := r.receive(4)[3]; in.Scope == "" {
		t.Error("a room with an invited third person is still direct")
	}
}

// Invitations of people who may be here are accepted, others are not; what was
// said before is not answered.
func TestInvitations(t *testing.T) {
	t.Parallel()
	fake := home(t)
	good, bad := "!good:"+matrixtest.Server, "!bad:"+matrixtest.Server
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	fake.Room(bad, nil, mallory)
	fake.Member(bad, mallory, matrixtest.Bot, "invite")
	fake.Room(good, nil, ann)
	fake.Say(matrixtest.Event{Room: good, Sender: ann, At: time.Now().Add(-time.Hour).UnixMilli()}, matrixtest.Text("long ago"))
	fake.Member(good, ann, matrixtest.Bot, "invite")
	fake.Say(matrixtest.Event{Room: good, Sender: ann}, matrixtest.Text("welcome"))
	if got := r.receive(1); got[0].Text != "welcome" {
		t.Errorf("got %q", got[0].Text)
	}
	joins := fake.Calls("/join/")
	if len(joins) != 1 || !strings.Contains(joins[0].Path, good) || string(joins[0].Body) != "{}" {
		t.Errorf("joins: %+v", joins)
	}
}

// A stranger who invites the bot to a direct room gets a code there.
func TestPairingByInvitation(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	raw := section(t, fake, map[string]any{"e2eeEnabled": false})
	r.deps.Gate = r.Gate("matrix", raw, access.OpenBook(access.BookOptions{Store: disk.Open(t.TempDir(), nil), Log: r.deps.Log}))
	r.bot = r.make(raw)
	defer r.begin()()
	room, crowd := "!dm:"+matrixtest.Server, "!crowd:"+matrixtest.Server
	fake.Room(crowd, nil, mallory, ann)
	fake.Invite(crowd, mallory, matrixtest.Bot)
	fake.Room(room, nil, mallory)
	fake.Invite(room, mallory, matrixtest.Bot)
	r.Await("the code", func() bool { return len(r.Said()) == 1 })
	if got := r.Said()[0]; got.Route.ChatID != room || !strings.Contains(got.Text, "Your code is") {
		t.Errorf("said %+v", got)
	}
	// A room with others in it is left, whatever the invitation says.
	r.Await("a leave", func() bool { return len(fake.Calls(crowd+"/leave")) == 1 })
	if len(r.Inbound()) != 0 {
		t.Errorf("the agent got %+v", r.Inbound())
	}
}

// What is said during a gap is read: more than one answer of sync holds.
func TestGap(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	r.begin()()
	for i := range 60 {
		r.say(fmt.Sprint(i), matrixtest.Text(fmt.Sprint(i)))
	}
	r.reopen(map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	for i, in := range r.receive(60) {
		if in.Text != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, in.Text)
		}
	}
}

// Nothing is lost when the disk refuses, or the homeserver.
func TestRetry(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	end := r.begin()
	r.Refuse(os.ErrPermission)
	r.say("1", matrixtest.Text("one"))
	r.Await("a failed try", func() bool { return len(fake.Calls("/state")) > 0 })
	end()
	r.Refuse(nil)
	fake.Fail(matrixtest.Failure{Path: "/sync", Status: http.StatusBadGateway, Body: "<html>"})
	fake.Fail(matrixtest.Failure{Path: "/sync", Status: http.StatusOK, Body: `{"next_batch":7}`})
	r.reopen(map[string]any{"e2eeEnabled": false})
	r.trouble = 50 * time.Millisecond
	stop := r.Start(r.Run)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	if got := r.receive(1); got[0].Text != "one" {
		t.Errorf("got %q", got[0].Text)
	}
}
