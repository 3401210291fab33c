package wecom

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

func question(options ...string) *bus.Question {
	return &bus.Question{ID: "q1", Code: "k7f2", Text: "Shall I?", Options: options, Expires: time.Now().Add(time.Hour)}
}

// A press answers the question, in both forms of the event, and the card says
// what was chosen.
func TestPress(t *testing.T) {
	t.Parallel()
	for _, nested := range []bool{false, true} {
		r := newRig(t, nil)
		end := r.begin()
		r.send(bus.Outbound{Kind: bus.Ask, Route: bus.Route{ChatID: wecomtest.Ann}, Text: "Shall I?", Question: question("Yes", "No")})
		if err := r.fake.Press(wecomtest.Message{From: wecomtest.Ann}, "No", nested); err != nil {
			t.Fatal(err)
		}
		r.Await("the answer", func() bool { return len(r.Inbound()) == 1 && r.fake.Shown()[0].Buttons == nil })
		in := r.Inbound()[0]
		if in.Answer == nil || in.Answer.QuestionID != "q1" || in.Answer.Option != "No" || in.Untrusted || in.Route.MessageID != "" {
			t.Errorf("the agent got %+v, answer %+v", in, in.Answer)
		}
		if got := r.seen(); got[0] != "template_card: ✓ No" {
			t.Errorf("people see %q", got)
		}
		end()
	}
}

// A choice that nobody waits for is a message; only a clean one is as good as
// typed. In a group the card of a question stays.
func TestChoice(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	q := question("Red", "Blue")
	r.send(bus.Outbound{Kind: bus.Message, Route: bus.Route{ChatID: wecomtest.Ann}, Text: "Which?", Question: q})
	if err := r.fake.Press(wecomtest.Message{From: wecomtest.Ann}, "Red", false); err != nil {
		t.Fatal(err)
	}
	r.Await("the choice", func() bool { return len(r.Inbound()) == 1 })
	if in := r.Inbound()[0]; in.Answer != nil || !in.Untrusted || in.Text != "Red" {
		t.Errorf("the agent got %+v", in)
	}
	group := bus.Route{ChatID: wecomtest.Group}
	r.send(bus.Outbound{Kind: bus.Ask, Route: group, Text: "Shall I?", Question: question("Yes")})
	if err := r.fake.Press(wecomtest.Message{From: "bob", Chat: wecomtest.Group}, "Yes", false); err != nil {
		t.Fatal(err)
	}
	r.Await("the answer", func() bool { return len(r.Inbound()) == 2 })
	if n := len(r.fake.Frames(cmdUpdate)); n > 1 {
		t.Errorf("%d cards were changed", n)
	}
}

// Keys of cards that we did not make for the chat do nothing.
func TestForgedPress(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	ann := wecomtest.Message{From: wecomtest.Ann}
	for _, key := range []string{"", "done", "{}", `{"q":"q1","l":"Yes","t":"bob"}`, `{"q":"q1","t":"ann"}`, strings.Repeat("x", 1<<16)} {
		r.fake.PressKey(ann, key, "task", false)
	}
	r.say(wecomtest.Message{Text: "hi"})
	if n := len(r.Inbound()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// A long question is a message before its card, many answers are several cards,
// and a second try repeats nothing of it.
func TestLargeQuestions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	var labels []string
	for i := range 8 {
		labels = append(labels, fmt.Sprint("Option ", i))
	}
	long := strings.Repeat("word ", 60)
	out := bus.Outbound{Key: "k/0", Kind: bus.Ask, Route: bus.Route{ChatID: wecomtest.Ann}, Text: long, Question: question(labels...)}
	r.send(out)
	r.send(out)
	out.Key, out.Question = "k/1", question(strings.Repeat("x", 2000), "No")
	out.Text = "Well?"
	r.send(out)
	want := []string{"markdown: " + strings.TrimSpace(long), "template_card: 请选择", "template_card: 请选择", "markdown: Well?\n\n- " + strings.Repeat("x", 2000) + "\n- No"}
	if d := cmp.Diff(want, r.seen()); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
	if shown := r.fake.Shown(); len(shown[1].Buttons) != 6 || len(shown[2].Buttons) != 2 {
		t.Errorf("buttons %q and %q", shown[1].Buttons, shown[2].Buttons)
	}
}
