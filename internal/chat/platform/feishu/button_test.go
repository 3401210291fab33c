package feishu

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// question is one that a turn waits on, as the manager hands it over.
func question(route bus.Route, options ...string) bus.Outbound {
	return bus.Outbound{
		Kind: bus.Ask, Route: route, Text: "May I run **make**?\n\nAnswer with a word and the code: yes k3m4, no k3m4",
		Meta:     map[string]string{"message_id": route.MessageID, "user_id": feishutest.AnnID},
		Question: &bus.Question{ID: "q1", Code: "k3m4", Options: options, Expires: time.Now().Add(time.Hour)},
	}
}

// inTown is the route of a message in the group.
func inTown(message string) bus.Route {
	return bus.Route{Channel: "feishu", ChatID: feishutest.GroupID, MessageID: message}
}

// card is a message of ours as people see it.
func (r *rig) card(id string) feishutest.Message {
	r.t.Helper()
	list := r.fake.Messages("")
	i := slices.IndexFunc(list, func(m feishutest.Message) bool { return m.ID == id })
	if i < 0 {
		r.t.Fatalf("there is no message %s", id)
	}
	return list[i]
}

// press checks what a person sees after a press.
func (r *rig) press(id, person, label, toast string, updated bool) {
	r.t.Helper()
	if got := r.fake.Press(id, person, label); !got.Answered || got.Toast != toast || got.Updated != updated {
		r.t.Errorf("%s pressed %s and sees %+v, want %q, card changed %v", person, label, got, toast, updated)
	}
}

// A button answers the question it belongs to, once, by both ways; the card
// shows the answer to all.
func TestButtons(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{modeSocket, modeWebhook} {
		r := newRig(t, map[string]any{"mode": mode, "encryptKey": feishutest.EncryptKey, "verificationToken": feishutest.VerificationToken})
		address := ""
		if mode == modeWebhook {
			mux := http.NewServeMux()
			for pattern, h := range r.Routes() {
				mux.Handle(pattern, h)
			}
			front := httptest.NewServer(mux)
			t.Cleanup(front.Close)
			r.fake.Hook(front.URL+"/feishu", true)
			address = front.URL + "/feishu"
		}
		end := r.begin()
		if address != "" {
			forged := []byte(`{"schema":"2.0","header":{"event_id":"e","event_type":"card.action.trigger"},"event":` + jsonOf(feishutest.Callback("om_x", "oc_p2p_ou_ann", feishutest.AnnID, json.RawMessage(`{"q":"q1","l":"是","t":"ou_ann"}`))) + `}`)
			if code := post(t, address, forged, http.Header{}); code != http.StatusUnauthorized {
				t.Errorf("a forged press is answered with %d", code)
			}
		}
		id := r.send(question(to("om_1"), "是", "否"))
		if m := r.card(id); !slices.Equal(m.Buttons, []string{"是", "否"}) || !strings.Contains(m.Plain, "k3m4") {
			t.Errorf("%s: people see %+v", mode, m)
		}
		r.press(id, "ou_eve", "是", "只有被询问的人才能回答。", false)
		r.press(id, feishutest.AnnID, "是", "✓ 是", true)
		in := r.receive(1)[0]
		if in.Answer == nil || in.Answer.QuestionID != "q1" || in.Answer.Option != "是" || in.Untrusted || in.SenderID != feishutest.AnnID || in.Route != to("") || in.SessionKey != "" {
			t.Errorf("%s: the agent got %+v, answer %+v", mode, in, in.Answer)
		}
		if m := r.card(id); m.Plain != "May I run **make**?\n\n✓ 是" || len(m.Buttons) > 0 {
			t.Errorf("%s: afterwards people see %+v", mode, m)
		}
		end()
		if got := r.Inbound(); len(got) != 1 {
			t.Errorf("%s: the agent got %+v", mode, got)
		}
		if wrong := r.fake.Wrong(); len(wrong) > 0 {
			t.Errorf("%s: Feishu does not understand us: %q", mode, wrong)
		}
	}
}

// In a group only the person who was asked answers, and who was not admitted
// reaches nothing. The answer belongs to the conversation that asked.
func TestButtonsInGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"allowFrom": []string{feishutest.AnnID, "ou_bob"}, "language": "en"})
	end := r.begin()
	defer end()
	ask := question(inTown("om_7"), "Yes, do it for this session", "No")
	ask.Route.ThreadID = feishutest.ThreadRoot
	ask.Meta["root_id"] = feishutest.ThreadRoot
	r.fake.Put(feishutest.Message{ID: "om_7", Chat: feishutest.GroupID, Content: feishutest.Text("go")})
	id := r.send(ask)
	r.press(id, "ou_eve", "No", "Only people whom the owner of this bot has admitted can answer.", false)
	r.press(id, "ou_bob", "No", "Only the person who was asked can answer.", false)
	r.press(id, feishutest.AnnID, "No", "✓ No", true)
	in := r.receive(1)[0]
	if in.SessionKey != "feishu:oc_town:"+feishutest.ThreadRoot || in.Route.ThreadID != feishutest.ThreadRoot || in.SenderID != feishutest.AnnID || in.Answer == nil {
		t.Errorf("the agent got %+v", in)
	}
	if n := len(r.Said()); n > 0 {
		t.Errorf("a stranger who pressed a button was told %d things", n)
	}
}

// A card that was passed on to another chat answers nothing there.
func TestButtonElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"language": "en"})
	end := r.begin()
	defer end()
	value := json.RawMessage(`{"q":"q1","l":"Yes","t":"oc_town","p":"ou_ann"}`)
	got := r.fake.Answered(r.fake.Emit(pressEvent, feishutest.Callback("om_x", "oc_elsewhere", feishutest.AnnID, value)))
	if got.Toast != "Only the person who was asked can answer." || len(r.Inbound()) > 0 {
		t.Errorf("people see %+v, the agent got %+v", got, r.Inbound())
	}
}

// A question whose time is over, that was settled otherwise, or that was
// answered before, says so.
func TestButtonsTooLate(t *testing.T) {
	t.Parallel()
	const late = "That question is not open any more. Nothing was done because of this answer."
	r := newRig(t, map[string]any{"domain": "lark"})
	end := r.begin()
	defer end()
	gone := func(text string) bus.Outbound {
		return bus.Outbound{Kind: bus.Gone, Route: to("om_1"), Question: &bus.Question{ID: "q1"}, Text: text}
	}

	expired := question(to("om_1"), "yes", "no")
	expired.Question.Expires = time.Now().Add(-time.Minute)
	id := r.send(expired)
	r.press(id, feishutest.AnnID, "yes", late, true)
	if m := r.card(id); m.Plain != "May I run **make**?\n\nThis question is closed." || len(m.Buttons) > 0 {
		t.Errorf("an expired question: %+v", m)
	}

	id = r.send(question(to("om_1"), "yes", "no"))
	before := r.pressing(id, "no")
	r.send(gone(""))
	if m := r.card(id); !strings.HasSuffix(m.Plain, "This question is closed.") || len(m.Buttons) > 0 {
		t.Errorf("a settled question: %+v", m)
	}
	if got := before(); got.Toast != late || !got.Updated {
		t.Errorf("pressed before the card changed: %+v", got)
	}

	id = r.send(question(to("om_1"), "yes", "no"))
	again := r.pressing(id, "no")
	r.press(id, feishutest.AnnID, "yes", "✓ yes", true)
	r.send(gone("")) // as after each answer
	if got := again(); got.Toast != late {
		t.Errorf("pressed twice: %+v", got)
	}
	if m := r.card(id); !strings.HasSuffix(m.Plain, "✓ yes") {
		t.Errorf("an answered question: %+v", m)
	}
	r.send(gone(late)) // the agent knows better
	if m := r.card(id); !strings.HasSuffix(m.Plain, "This question is closed.") {
		t.Errorf("an answer that came too late: %+v", m)
	}
	if got := r.receive(1); len(got) != 1 {
		t.Errorf("the agent got %+v", got)
	}
}

// pressing is a press of a button as the card has it now, to be done later.
func (r *rig) pressing(id, label string) func() feishutest.Pressed {
	r.t.Helper()
	value := r.fake.Value(id, label)
	if value == nil {
		r.t.Fatalf("%s has no button %s", id, label)
	}
	return func() feishutest.Pressed {
		return r.fake.Answered(r.fake.Emit(pressEvent, feishutest.Callback(id, "oc_p2p_"+feishutest.AnnID, feishutest.AnnID, value)))
	}
}

// After a restart a button still works. The card of a very long question stays
// as it is then.
func TestButtonsAfterRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"language": "en"})
	r.ready()
	short := r.send(question(to("om_1"), "yes", "no"))
	long := question(to("om_2"), "yes", "no")
	long.Text, long.Question.ID = strings.Repeat("word ", 1000), "q2"
	other := r.send(long)
	r.reopen(map[string]any{"language": "en"})
	end := r.begin()
	defer end()
	again := r.pressing(short, "yes")
	r.press(short, feishutest.AnnID, "no", "✓ no", true)
	r.press(other, feishutest.AnnID, "no", "✓ no", false)
	if m := r.card(short); m.Plain != "May I run **make**?\n\n✓ no" {
		t.Errorf("people see %.300v", m)
	}
	if got := again(); got.Kind != toastRefused {
		t.Errorf("pressed twice: %+v", got)
	}
	if got := r.receive(2); got[0].Answer.QuestionID != "q1" || got[1].Answer.QuestionID != "q2" {
		t.Errorf("the agent got %+v", got)
	}
}

// Answers that the model offers are words, which are trusted if the model had
// read no stranger's. Who presses begins a turn.
func TestOffers(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"topicIsolation": false})
	end := r.begin()
	defer end()
	offer := bus.Outbound{Kind: bus.Message, Route: inTown("om_1"), Text: "Which?", Question: &bus.Question{Options: []string{"a", "b", "c", "d", "e"}}}
	first := r.send(offer)
	offer.Question.Clean = true
	second := r.send(offer)
	r.press(first, "ou_bob", "e", "✓ e", true)
	r.press(second, "ou_bob", "a", "✓ a", true)
	got := r.receive(2)
	if one, two := got[0], got[1]; one.Text != "e" || !one.Untrusted || one.Answer != nil || one.Route != inTown(first) || two.Text != "a" || two.Untrusted || two.SessionKey != "" {
		t.Errorf("the agent got %+v", got)
	}
}

// Where cards do not fit or are refused, a question is words.
func TestQuestionInWords(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	r.fake.Fail(feishutest.Failure{Code: codeCard, Msg: "Failed to create card content, ext=ErrCode: 200861"})
	many := question(to("om_1"), strings.Split(strings.Repeat("x,", 60)+"x", ",")...)
	huge := question(to("om_1"), "yes", "no")
	huge.Text = strings.Repeat("<", 7560)
	for _, ask := range []bus.Outbound{question(to("om_1"), "yes", "no"), many, huge, question(to("om_1"), "", "no")} {
		if m := r.card(r.send(ask)); len(m.Buttons) > 0 || m.Plain == "" {
			t.Errorf("people see %.300v", m)
		}
	}
}

// In a group, where each message is a conversation, words find the one that
// asked: by the code, or by quoting the question.
func TestWordsInGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	id := r.send(question(inTown("om_7"), "yes", "no"))
	say := func(m feishutest.Message, words string) {
		m.Chat, m.Content, m.Mentions = feishutest.GroupID, feishutest.Text("@_user_1 "+words), named()
		r.fake.Say(m)
	}
	say(feishutest.Message{}, "yes k3m4")
	say(feishutest.Message{Parent: id, Root: id}, "no")
	say(feishutest.Message{ID: "om_9"}, "is k3m4 a good name?")
	got := r.receive(3)
	for i, want := range []string{"yes", "no"} {
		if in := got[i]; in.Answer == nil || in.Answer.Option != want || in.Answer.QuestionID != "q1" || in.SessionKey != "feishu:oc_town:om_7" {
			t.Errorf("the agent got %+v, answer %+v", in, in.Answer)
		}
	}
	if in := got[2]; in.Answer != nil || in.SessionKey != "feishu:oc_town:om_9" {
		t.Errorf("the agent got %+v, answer %+v", in, in.Answer)
	}
}

// Presses that are not of our buttons, of another app, or that are old or
// repeated reach nothing, and are answered.
func TestBadPresses(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"language": "en"})
	known := map[string]bool{}
	r.bot.deps.Known = func(id string) bool { return known[id] }
	end := r.begin()
	defer end()
	ours := json.RawMessage(`{"q":"q1","l":"Yes","t":"ou_ann"}`)
	press := func(value json.RawMessage) map[string]any {
		return feishutest.Callback("om_x", "oc_p2p_ou_ann", feishutest.AnnID, value)
	}
	without := press(ours)
	delete(without, "operator")
	for range 2 {
		for _, body := range []any{
			"words", without, press(nil), press(json.RawMessage(`"text"`)), press(json.RawMessage(`{"l":7}`)), press(json.RawMessage(`{}`)),
			press(json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)),
		} {
			if got := r.fake.Answered(r.fake.Emit(pressEvent, body)); got != (feishutest.Pressed{Answered: true}) {
				t.Errorf("%.80v: people see %+v", body, got)
			}
		}
	}
	raw, err := json.Marshal(press(ours))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMicro()
	old := now - (25 * time.Hour).Microseconds()
	known["feishu:press.seen"] = true
	for what, h := range map[string]head{
		"another app": {EventID: "e1", AppID: "cli_other"},
		"old":         {EventID: "e2", Created: jsonOf(old)},
		"repeated":    {EventID: "seen"},
		"no id":       {},
	} {
		if got := r.ask.pressed(t.Context(), &h, raw); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got := r.Inbound(); len(got) > 0 {
		t.Errorf("the agent got %+v", got)
	}
	if n := strings.Count(r.Log.String(), "a button that is not ours"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}

	again := r.ask.pressed(t.Context(), &head{EventID: "e3", Created: jsonOf(now)}, raw)
	same := r.ask.pressed(t.Context(), &head{EventID: "e3", Created: jsonOf(now)}, raw)
	if jsonOf(again) != jsonOf(same) || !strings.Contains(jsonOf(again), "✓ Yes") {
		t.Errorf("the same press is answered with %v and %v", again, same)
	}
	r.receive(1)
}

// An answer that cannot be kept is not shown as one.
func TestPressNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"language": "en"})
	end := r.begin()
	defer end()
	id := r.send(question(to("om_1"), "yes", "no"))
	in := r.in.Load()
	r.in.Store(nil) // as while the channel is being stopped
	r.press(id, feishutest.AnnID, "yes", "The answer could not be kept. Try again in a moment.", false)
	r.in.Store(in)
	r.Refuse(errors.New("full")) // the agent takes nothing, but the answer is on the disk
	r.press(id, feishutest.AnnID, "yes", "✓ yes", true)
	r.Refuse(nil)
	r.receive(1)
}
