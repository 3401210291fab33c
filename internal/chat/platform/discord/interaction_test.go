package discord

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

func TestSlashCommands(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	r.Await("the commands", func() bool { return len(fake.Commands()) == 3 })
	var menu []string
	for _, c := range fake.Commands() {
		menu = append(menu, fmt.Sprint(c["name"], " ", c["options"]))
	}
	want := []string{"new <nil>", "model [map[description:[preset|model] name:preset type:3]]", "trigger [map[description:<name> name:name required:true type:3]]"}
	if diff := cmp.Diff(want, menu); diff != "" {
		t.Errorf("the menu (-want +got):\n%s", diff)
	}

	direct := fake.DM("42")
	use := fake.Slash("42", direct, "model", object{"name": "preset", "type": 3, "value": "fast one"})
	server := fake.Slash("42", discordtest.Thread, "new")
	got := r.receive(2)
	for _, in := range got {
		if in.Untrusted || in.Meta["is_slash_command"] != "true" {
			t.Errorf("a command is %+v", in)
		}
		switch in.Route.ChatID {
		case direct:
			if in.Text != "/model fast one" {
				t.Errorf("a command with an option is %q", in.Text)
			}
		case discordtest.Channel:
			if in.Text != "/new" || in.Route.ThreadID != discordtest.Thread {
				t.Errorf("a command in a thread is %q at %+v", in.Text, in.Route)
			}
		}
	}
	for _, id := range []string{use, server} {
		r.Await("the reply", func() bool { return fake.Reply(id) != nil })
		if data, _ := fake.Reply(id)["data"].(object); fmt.Sprint(data["flags"]) != "64" {
			t.Errorf("a command is answered with %v, want something only this person sees", fake.Reply(id))
		}
	}
	r.send(answerTo(direct, got[0].Route.MessageID, "done")) // there is no message to refer to
	end()

	r.reopen(nil)
	defer r.begin()()
	fake.Write("42", direct, "hi", nil)
	r.receive(3)
	if n := len(fake.Calls("PUT", "/commands")); n != 1 {
		t.Errorf("the same commands were registered %d times", n)
	}
}

// What is not answered in time is still done.
func TestLateInteraction(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	fake.Fail(discordtest.Failure{Method: "POST", Path: "/interactions", Status: 404, Code: 10062, Text: "Unknown interaction"})
	fake.Slash("42", fake.DM("42"), "new")
	if got := r.receive(1); got[0].Text != "/new" {
		t.Errorf("got %q", got[0].Text)
	}
}

func TestButtons(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	chat := fake.DM("42")
	out := answerTo(chat, "", "May I?")
	out.Kind, out.Question = bus.Ask, &bus.Question{ID: "q.1", Code: "AB12", Options: []string{"yes", "no"}}
	id := r.send(out)
	tap := fake.Press("42", chat, id, "?q.1.1")
	in := r.receive(1)[0]
	if in.Answer == nil || *in.Answer != (bus.Answer{QuestionID: "q.1", Option: "no"}) || in.Untrusted {
		t.Errorf("the answer is %+v", in)
	}
	r.Await("the reply", func() bool { return fmt.Sprint(fake.Reply(tap)["type"]) == "6" })
	r.Await("the buttons to go", func() bool { list, _ := fake.Messages(chat)[0].Body["components"].([]any); return len(list) == 0 })

	out.Kind = bus.Message
	out.Question = &bus.Question{Options: []string{"tea", strings.Repeat("coffee ", 20)}}
	long := r.send(out)
	if m := fake.Messages(chat)[1]; !strings.Contains(m.Text(), "1. tea\n2. coffee coffee") {
		t.Errorf("long answers: %q", m.Text())
	}
	fake.Press("42", chat, long, "#1")
	if in := r.receive(2)[1]; in.Text != "2" || in.Answer != nil || !in.Untrusted {
		t.Errorf("a tap on a label of the model is %+v", in)
	}

	// A reply with a word answers, too; another sentence does not.
	out.Kind, out.Question = bus.Ask, &bus.Question{ID: "q2", Options: []string{"yes", "no"}}
	r.send(out)
	asked := fake.Messages(chat)[2].Body
	reply := object{"type": 19, "message_reference": object{"message_id": asked["id"]}, "referenced_message": asked}
	fake.Write("42", chat, "yes", reply)
	if in := r.receive(3)[2]; in.Answer == nil || in.Answer.QuestionID != "q2" {
		t.Errorf("a reply is %+v", in)
	}
	fake.Write("42", chat, "tell me more first", reply)
	if in := r.receive(4)[3]; in.Answer != nil {
		t.Errorf("a sentence answered %+v", in.Answer)
	}
}

// Buttons that the message does not have, of another author or in a chat between
// other people, do nothing.
func TestForgedButtons(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	chat := fake.DM("42")
	id := r.send(answerTo(chat, "", "no buttons"))
	fake.Press("42", chat, id, "?q.1.0")
	theirs := fake.Write("42", chat, "mine", object{"components": []object{{"type": 1, "components": []object{{"type": 2, "label": "yes", "custom_id": "?q.1.0"}}}}})
	fake.Press("42", chat, theirs, "?q.1.0")
	fake.Event("INTERACTION_CREATE", object{"id": "7", "token": "t", "type": 2, "context": 2, "channel_id": "5", "user": object{"id": "42"}, "data": object{"name": "new"}})
	fake.Event("INTERACTION_CREATE", object{"id": "8", "type": 3, "channel_id": chat})
	fake.Write("42", chat, "last", nil)
	r.Await("the last one", func() bool { got := r.Inbound(); return len(got) > 0 && got[len(got)-1].Text == "last" })
	if got := r.Inbound(); len(got) != 2 {
		t.Errorf("got %d messages, want the two that were written", len(got))
	}
	if !strings.Contains(r.Log.String(), "a button that the message does not have is ignored") {
		t.Error("a forged button is not in the log")
	}
}

func TestOptionNames(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"[preset|model]": "preset", "<name>": "name", "[keep|drop ID]": "arguments", "...": "arguments", "[n]": "n"} {
		if got := optionName(args); got != want {
			t.Errorf("%s is called %q, want %q", args, got, want)
		}
	}
}
