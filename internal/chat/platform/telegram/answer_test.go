package telegram

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// asking is a message of ours with the buttons of a question.
func asking(id int, q string) object {
	return object{
		"message_id": id, "chat": private(42), "from": us(), "text": "May I?",
		"reply_markup": object{"inline_keyboard": [][]object{{{"text": "yes", "callback_data": "?" + q + ".0"}}, {{"text": "no", "callback_data": "?" + q + ".1"}}}},
	}
}

// A tap answers the question of the message it sits on, and nothing else.
func TestTapAnswers(t *testing.T) {
	t.Parallel()
	ann := object{"id": 42, "first_name": "Ann"}
	offered := object{
		"message_id": 9, "chat": private(42), "from": us(), "text": "Tea?",
		"reply_markup": object{"inline_keyboard": [][]object{{{"text": "yes", "callback_data": "yes"}}}},
	}
	foreign := asking(5, "q1")
	foreign["from"] = object{"id": 77, "is_bot": true, "first_name": "Other"}
	bare := asking(5, "q1")
	delete(bare, "reply_markup")
	for name, c := range map[string]struct {
		tap  object
		want []*bus.Answer
	}{
		"a button of the question":            {object{"id": "1", "from": ann, "message": asking(5, "q1"), "data": "?q1.0"}, []*bus.Answer{{QuestionID: "q1", Option: "yes"}}},
		"a button of an earlier question":     {object{"id": "1", "from": ann, "message": asking(4, "q0"), "data": "?q0.0"}, []*bus.Answer{{QuestionID: "q0", Option: "yes"}}},
		"an answer the model offered":         {object{"id": "1", "from": ann, "message": offered, "data": "yes"}, []*bus.Answer{nil}},
		"forged data of another question":     {object{"id": "1", "from": ann, "message": asking(4, "q0"), "data": "?q1.0"}, nil},
		"forged data on an offer":             {object{"id": "1", "from": ann, "message": offered, "data": "?q1.0"}, nil},
		"forged data without a mark":          {object{"id": "1", "from": ann, "message": asking(5, "q1"), "data": "yes"}, nil},
		"a message that has no buttons":       {object{"id": "1", "from": ann, "message": bare, "data": "?q1.0"}, nil},
		"a message of another bot":            {object{"id": "1", "from": ann, "message": foreign, "data": "?q1.0"}, nil},
		"a message that is gone":              {object{"id": "1", "from": ann, "inline_message_id": "x", "data": "?q1.0"}, nil},
		"an option that the keyboard has not": {object{"id": "1", "from": ann, "message": asking(5, "q1"), "data": "?q1.7"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, loopback(t), map[string]any{"inlineKeyboards": true})
			r.Start(r.Run)
			r.Await("ready", func() bool { return len(r.States()) > 0 })
			r.fake.Update(object{"callback_query": c.tap})
			r.fake.Post(object{"chat": private(42), "text": "end"})
			var got []*bus.Answer
			for _, in := range r.receive(len(c.want) + 1) {
				if in.Text != "end" {
					got = append(got, in.Answer)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

// A reply to the question with a short word answers it. Words that another
// person wrote, that were changed afterwards or only spoken do not.
func TestReplyAnswers(t *testing.T) {
	t.Parallel()
	coded := object{"message_id": 6, "chat": private(42), "from": us(), "text": "May I run this?\n  | echo\n\nAnswer with a word and the code: yes k7f2, no k7f2, session k7f2"}
	fake := object{"message_id": 6, "chat": private(42), "from": us(), "text": "Answer with a word and the code: yes k7f2, no k7f2\nand more"}
	theirs := object{"message_id": 6, "chat": private(42), "from": object{"id": 77, "first_name": "Eve"}, "text": coded["text"]}
	yes := func(option string) *bus.Answer { return &bus.Answer{QuestionID: "q1", Option: option} }
	for name, c := range map[string]struct {
		m      object
		edited bool
		want   *bus.Answer
	}{
		"buttons":             {object{"text": "Yes", "reply_to_message": asking(5, "q1")}, false, yes("Yes")},
		"another language":    {object{"text": "ja", "reply_to_message": asking(5, "q1")}, false, yes("ja")},
		"code":                {object{"text": "yes", "reply_to_message": coded}, false, &bus.Answer{QuestionID: "k7f2", Option: "yes"}},
		"code, written":       {object{"text": "session k7f2", "reply_to_message": coded}, false, &bus.Answer{QuestionID: "k7f2", Option: "session"}},
		"no reply":            {object{"text": "yes"}, false, nil},
		"reply to another":    {object{"text": "yes", "reply_to_message": object{"message_id": 3, "chat": private(42), "from": us(), "text": "Shall I tidy up?"}}, false, nil},
		"code above the end":  {object{"text": "yes", "reply_to_message": fake}, false, nil},
		"question of another": {object{"text": "yes", "reply_to_message": theirs}, false, nil},
		"a sentence":          {object{"text": "yes, but why?", "reply_to_message": asking(5, "q1")}, false, nil},
		"a command":           {object{"text": "/stop", "reply_to_message": asking(5, "q1")}, false, nil},
		"edited":              {object{"text": "yes", "reply_to_message": asking(5, "q1"), "edit_date": 1700000000}, true, nil},
		"forwarded":           {object{"text": "yes", "reply_to_message": asking(5, "q1"), "forward_origin": object{"type": "user", "sender_user": object{"id": 77, "first_name": "Eve"}}}, false, nil},
		"inline bot":          {object{"text": "yes", "reply_to_message": asking(5, "q1"), "via_bot": object{"id": 78, "is_bot": true, "first_name": "gif"}}, false, nil},
		"a quote of it":       {object{"text": "yes", "reply_to_message": asking(5, "q1"), "quote": object{"text": "May"}}, false, nil},
		"a caption":           {object{"caption": "yes", "reply_to_message": asking(5, "q1"), "location": object{"latitude": 1, "longitude": 2}}, false, nil},
		"a sticker":           {object{"sticker": object{"file_id": "x", "file_unique_id": "x", "emoji": "👍"}, "reply_to_message": asking(5, "q1")}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, loopback(t), map[string]any{"inlineKeyboards": true, "editedMessages": true})
			r.Start(r.Run)
			r.Await("ready", func() bool { return len(r.States()) > 0 })
			m := object{"message_id": 70, "date": 1, "chat": private(42), "from": object{"id": 42, "first_name": "Ann"}}
			maps.Copy(m, c.m)
			kind := "message"
			if c.edited {
				kind = "edited_message"
			}
			r.fake.Update(object{kind: m})
			if diff := cmp.Diff(c.want, r.receive(1)[0].Answer); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}
