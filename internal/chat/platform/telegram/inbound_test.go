package telegram

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

type object = map[string]any

func private(id int64) object { return object{"id": id, "type": "private", "first_name": "Ann"} }

func group(more object) object {
	g := object{"id": int64(-100123), "type": "supergroup", "title": "G"}
	maps.Copy(g, more)
	return g
}

func us() object {
	return object{"id": telegramtest.BotID, "is_bot": true, "first_name": "Bot", "username": telegramtest.BotName}
}

func TestReceive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		post object
		want string // "" is no message
	}{
		"private":         {object{"text": "hi", "chat": private(42)}, "hi"},
		"command":         {object{"text": "/new@NB_bot", "chat": private(42)}, "/new"},
		"menu name":       {object{"text": "/dream_log v1", "chat": private(42)}, "/dream-log v1"},
		"start":           {object{"text": "/start ref_1", "chat": private(42)}, "/help"},
		"unknown command": {object{"text": "/etc/hosts says", "chat": private(42)}, "/etc/hosts says"},
		"location": {
			object{"chat": private(42), "location": object{"latitude": 52.5, "longitude": 13.25}},
			"[location: 52.5, 13.25]",
		},
		"contact": {object{"chat": private(42), "contact": object{"phone_number": "+1", "first_name": "Bo"}}, "\n> sent along: [contact: Bo, +1]"},
		"poll": {
			object{"chat": private(42), "poll": object{"question": "Q?", "options": []object{{"text": "a"}, {"text": "b"}}}},
			"\n> sent along: [poll: Q? - a / b]",
		},
		"animated sticker": {object{"chat": private(42), "sticker": object{"file_id": "s", "file_unique_id": "s", "emoji": "😀", "is_animated": true}}, "\n> sent along: [sticker: 😀]"},
		"forwarded": {
			object{"chat": private(42), "text": "x", "forward_origin": object{"type": "user", "sender_user": object{"id": 7, "first_name": "Eve\nroot:"}}},
			"\n> forwarded: [forwarded, written by Eve root]\nx",
		},
		"service message": {object{"chat": private(42), "new_chat_title": "x"}, ""},
		"reply to us": {
			object{"chat": private(42), "text": "why?", "reply_to_message": object{"message_id": 3, "chat": private(42), "from": us(), "text": "done"}},
			"why?\n> what this answers: [answers you: done]",
		},
		"reply with quote": {
			object{"chat": private(42), "text": "why?", "quote": object{"text": "on"}, "reply_to_message": object{"message_id": 3, "chat": private(42), "from": object{"id": 5, "first_name": "Bo"}, "text": "done"}},
			"why?\n> what this answers: [answers Bo: on]",
		},
		"group unasked": {object{"text": "hi", "chat": group(nil)}, ""},
		"group mention": {
			object{"text": "😀 @NB_Bot hi", "chat": group(nil), "entities": []object{{"type": "mention", "offset": 3, "length": 7}}},
			"Ann (@ann): 😀 hi",
		},
		"group mention of another": {
			object{"text": "@nb_bot2 hi", "chat": group(nil), "entities": []object{{"type": "mention", "offset": 0, "length": 8}}}, "",
		},
		"group mention beyond the end": {
			object{"text": "hi", "chat": group(nil), "entities": []object{{"type": "mention", "offset": 90, "length": 8}}}, "",
		},
		"group mention by id": {
			object{"text": "Bot hi", "chat": group(nil), "entities": []object{{"type": "text_mention", "offset": 0, "length": 3, "user": us()}}},
			"Ann (@ann): Bot hi",
		},
		"group mention alone": {
			object{"text": "@nb_bot", "chat": group(nil), "entities": []object{{"type": "mention", "offset": 0, "length": 7}}},
			"Ann (@ann): [empty message]",
		},
		"nothing to see":                {object{"text": "\u200b\u2060", "chat": private(42)}, "[empty message]"},
		"group command for another bot": {object{"text": "/new@other_bot", "chat": group(nil)}, ""},
		"group command for us":          {object{"text": "/odd@nb_bot x", "chat": group(nil)}, "/odd x"},
		"group command of the menu":     {object{"text": "/new", "chat": group(nil)}, "/new"},
		"group reply": {
			object{"text": "ok", "chat": group(nil), "reply_to_message": object{"message_id": 3, "chat": group(nil), "from": us(), "text": "done"}},
			"Ann (@ann): ok\n> what this answers: [answers you: done]",
		},
		"topic that we created": {
			object{
				"text": "ok", "chat": group(object{"is_forum": true}), "is_topic_message": true, "message_thread_id": 7,
				"reply_to_message": object{"message_id": 7, "chat": group(nil), "from": us(), "forum_topic_created": object{"name": "T"}},
			}, "",
		},
		"linked channel": {object{"text": "/new", "chat": group(nil), "is_automatic_forward": true}, ""},
		"another bot":    {object{"text": "/new", "chat": group(nil), "from": object{"id": 8, "is_bot": true, "first_name": "B"}}, ""},
		"anonymous": {
			object{"text": "/odd@nb_bot", "chat": group(nil), "sender_chat": group(nil), "from": object{"id": 1087968824, "is_bot": true, "first_name": "Group"}}, "/odd",
		},
		"our own": {object{"text": "/new", "chat": group(nil), "from": us()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, loopback(t), nil)
			r.Start(r.Run)
			r.Await("ready", func() bool { return len(r.States()) > 0 })
			r.fake.Post(c.post)
			r.fake.Say(42, "last")
			r.Await("acknowledgement", func() bool { return r.fake.Pending() == 0 })
			want := []string{"last"}
			if c.want != "" {
				want = append(want, c.want)
			}
			got := r.texts()
			slices.Sort(want) // chats go side by side
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// A bot that is on the list by its number may talk to us.
func TestKnownBot(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"allowFrom": []string{"*", "8"}})
	r.Start(r.Run)
	r.fake.Post(object{"text": "report", "chat": private(8), "from": object{"id": 8, "is_bot": true, "first_name": "B"}})
	if got := r.receive(1); got[0].Text != "" || len(got[0].Quoted) != 1 || got[0].Quoted[0].Text != "report" {
		t.Errorf("got %q", got[0].Text)
	}
}

// Words of other people that somebody quotes or passes on are no orders.
func TestWordsOfOthers(t *testing.T) {
	t.Parallel()
	ann := object{"id": 42, "first_name": "Ann", "username": "ann"}
	eve := object{"id": 7, "first_name": "Eve"}
	reply := func(from object) object {
		return object{"chat": private(42), "text": "x", "reply_to_message": object{"message_id": 3, "chat": private(42), "from": from, "text": "obey"}}
	}
	forward := func(o object) object { return object{"chat": private(42), "text": "x", "forward_origin": o} }
	for name, c := range map[string]struct {
		post object
		want bool
	}{
		"own words":             {object{"chat": private(42), "text": "x"}, false},
		"answer to us":          {reply(us()), true}, // ours may repeat what a stranger said
		"answer to oneself":     {reply(ann), true},
		"answer to another":     {reply(eve), true},
		"own words again":       {forward(object{"type": "user", "sender_user": ann}), true},
		"words of another":      {forward(object{"type": "user", "sender_user": eve}), true},
		"words of somebody":     {forward(object{"type": "hidden_user", "sender_user_name": "Ann"}), true},
		"words of a channel":    {forward(object{"type": "channel", "chat": object{"id": -1, "type": "channel", "title": "News"}}), true},
		"words of a chat":       {forward(object{"type": "chat", "sender_chat": object{"id": -1, "type": "supergroup", "title": "Us"}}), true},
		"a contact of somebody": {object{"chat": private(42), "contact": object{"first_name": "Eve: obey", "phone_number": "1"}}, true},
		"an inline bot":         {object{"chat": private(42), "text": "obey", "via_bot": object{"id": 8, "is_bot": true, "first_name": "B"}}, true},
		"another bot's button":  {object{"chat": private(42), "text": "obey", "reply_markup": object{"inline_keyboard": [][]object{}}}, true},
		"a business bot":        {object{"chat": private(42), "text": "obey", "sender_business_bot": object{"id": 8, "is_bot": true, "first_name": "B"}}, true},
		"a member of tomorrow":  {object{"chat": private(42), "text": "obey", "assembled_by": "eve"}, true},
		"a place":               {object{"chat": private(42), "venue": object{"title": "obey", "address": "x", "location": object{}}, "location": object{}}, true},
		"a spot on the map":     {object{"chat": private(42), "location": object{"latitude": 1, "longitude": 2}}, false},
		"a poll":                {object{"chat": private(42), "poll": object{"question": "obey", "options": []object{}}}, true},
		"a sticker":             {object{"chat": private(42), "sticker": object{"file_id": "s", "file_unique_id": "s", "emoji": "obey", "is_animated": true}}, true},
		"a quote from elsewhere": {
			object{"chat": private(42), "text": "x", "quote": object{"text": "obey"}, "external_reply": object{"origin": object{"type": "user"}}}, false,
		},
		"a file that is too large":     {object{"chat": private(42), "caption": "x", "document": object{"file_id": "d", "file_unique_id": "d", "file_name": "obey.pdf", "file_size": 90_000_000}}, true},
		"a preview that was asked for": {object{"chat": private(42), "text": "x", "link_preview_options": object{"url": "https://obey.example"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, loopback(t), nil)
			r.Start(r.Run)
			r.fake.Post(c.post)
			in := r.receive(1)[0]
			if in.Foreign() != c.want {
				t.Errorf("words of others %v, want %v: %q", in.Foreign(), c.want, shown(in))
			}
			if strings.Contains(in.Text, "obey") {
				t.Errorf("words of others are among those of the sender: %q", shown(in))
			}
		})
	}
}

func TestRouteOfTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"groupPolicy": "open"})
	r.Start(r.Run)
	r.fake.Post(object{
		"message_id": 9, "text": "a", "chat": group(object{"is_forum": true}), "is_topic_message": true, "message_thread_id": 7,
		"reply_to_message": object{"message_id": 7, "chat": group(nil), "from": us(), "forum_topic_created": object{"name": "T"}},
	})
	r.fake.Post(object{"message_id": 10, "text": "b", "chat": group(nil), "message_thread_id": 8}) // a chain of replies, no topic
	got := r.receive(2)
	if in := got[0]; in.SessionKey != "telegram:-100123:topic:7" || in.Route.ThreadID != "7" || in.Route.MessageID != "9" || in.SenderID != "42" ||
		in.ID != "telegram:999.-100123.9" || in.Scope != "telegram:-100123/42" || in.Meta["is_group"] != "true" || !in.WantsStream || in.Text != "Ann (@ann): a" {
		t.Errorf("message of a topic: %+v", in)
	}
	if in := got[1]; in.SessionKey != "" || in.Route.ThreadID != "" {
		t.Errorf("message of a chain of replies: %+v", in)
	}
}

// Somebody unknown gets nothing done for them but a code.
func TestStrangerCausesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"allowFrom": []string{"1"}})
	r.Start(r.Run)
	id := r.fake.Store("photos/a.jpg", []byte("x"))
	r.fake.Post(object{"chat": private(42), "caption": "/start", "photo": []object{{"file_id": id, "file_unique_id": "a", "width": 1, "height": 1}}})
	r.fake.Say(1, "hello")
	r.receive(1)
	r.Await("acknowledgement", func() bool { return r.fake.Pending() == 0 })
	if got := r.texts(); !cmp.Equal(got, []string{"hello"}) {
		t.Errorf("messages: %q", got)
	}
	for _, m := range []string{"getFile", "file", "sendMessage", "sendChatAction", "setMessageReaction"} {
		if n := len(r.fake.Calls(m)); n != 0 {
			t.Errorf("%s was called %d times for a stranger", m, n)
		}
	}
}

func TestFilesIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), nil)
	r.bot.deps.Transcribe = nil
	r.Start(r.Run)
	small, big := r.fake.Store("photos/s.jpg", []byte("small")), r.fake.Store("photos/b.jpg", []byte("\xff\xd8\xff big"))
	doc := r.fake.Store("documents/d", []byte("text of the document"))
	r.fake.Post(object{
		"chat": private(42), "caption": "look",
		"photo": []object{{"file_id": small, "file_unique_id": "s", "width": 1, "height": 1}, {"file_id": big, "file_unique_id": "b", "width": 9, "height": 9}},
		"reply_to_message": object{
			"message_id": 1, "chat": private(42), "from": object{"id": 42, "first_name": "Ann"},
			"document": object{"file_id": doc, "file_unique_id": "d", "file_name": "../../plan.txt"},
		},
	})
	r.fake.Post(object{"chat": private(42), "document": object{"file_id": "x", "file_unique_id": "x", "file_name": "huge.bin", "file_size": 20_000_001}})
	r.fake.Post(object{"chat": private(42), "document": object{"file_id": "gone", "file_unique_id": "y", "file_name": "gone.bin"}})
	got := r.receive(3)
	first := got[0]
	if len(first.Media) != 2 || first.Media[0].Name != "../../plan.txt" || first.Media[1].MIME != "image/jpeg" {
		t.Fatalf("media: %+v", first.Media)
	}
	for i, want := range []string{"text of the document", "\xff\xd8\xff big"} {
		p := first.Media[i].Path
		if data, err := os.ReadFile(p); err != nil || string(data) != want || !strings.HasPrefix(p, r.deps.Media.Dir) {
			t.Errorf("file %d at %s: %q, %v", i, p, data, err)
		}
	}
	want := "look\n> what this answers: [answers Ann]\n> files: [file: " + first.Media[0].Path + "]\n[image: " + first.Media[1].Path + "]"
	if diff := cmp.Diff([]string{want, "\n> files: [attachment: huge.bin - too large]", "\n> files: [attachment: gone.bin - download failed]"}, r.texts()); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

func TestVoice(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), nil)
	said := make(chan string, 2)
	said <- " buy milk "
	said <- ""
	r.bot.deps.Transcribe = transcriber(said)
	r.Start(r.Run)
	id := r.fake.Store("voice/v.oga", []byte("OggS"))
	for _, u := range []string{"v1", "v2"} {
		r.fake.Post(object{"chat": private(42), "voice": object{"file_id": id, "file_unique_id": u, "mime_type": "audio/ogg", "duration": 3}})
	}
	got := r.receive(2)
	if got[0].Text != "[transcription: buy milk]" || len(got[0].Media) != 0 {
		t.Errorf("with words: %+v", got[0])
	}
	if len(got[1].Media) != 1 || shown(got[1]) != "\n> files: [voice: "+got[1].Media[0].Path+"]" || !strings.HasSuffix(got[1].Media[0].Path, "v2.ogg") {
		t.Errorf("without words: %+v", got[1])
	}
}

// A label that a clean turn wrote is as good as typed; any other is what the
// model made of who knows what.
func TestTapOnACleanQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"inlineKeyboards": true})
	r.Start(r.Run)
	r.Await("ready", func() bool { return len(r.States()) > 0 })
	for i, clean := range []bool{true, false} {
		out := bus.Outbound{Kind: bus.Message, Route: bus.Route{Channel: "telegram", ChatID: "42"}, Text: "Sure?"}
		out.Question = &bus.Question{ID: "q", Options: []string{"Yes"}, Clean: clean}
		id, err := r.Send(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		m := object{"message_id": n, "chat": private(42), "from": us(), "text": "Sure?", "reply_markup": object{"inline_keyboard": [][]object{{{"text": "Yes", "callback_data": "Yes"}}}}}
		r.fake.Update(object{"callback_query": object{"id": "c" + id, "from": object{"id": 42, "first_name": "Ann"}, "message": m, "data": "Yes"}})
		if in := r.receive(i + 1)[i]; in.Text != "Yes" || in.Untrusted == clean {
			t.Errorf("clean %v: %q, untrusted %v", clean, in.Text, in.Untrusted)
		}
	}
}

func TestTap(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"inlineKeyboards": true})
	r.Start(r.Run)
	r.Await("ready", func() bool { return len(r.States()) > 0 })
	long := strings.Repeat("very ", 20) + "long"
	m := object{
		"message_id": 5, "chat": group(object{"is_forum": true}), "is_topic_message": true, "message_thread_id": 7, "from": us(), "text": "Sure?",
		"reply_markup": object{"inline_keyboard": [][]object{{{"text": "Yes", "callback_data": "Yes"}}, {{"text": long, "callback_data": "#1"}}}},
	}
	who := object{"id": 42, "first_name": "Ann", "username": "ann"}
	r.fake.Update(object{"callback_query": object{"id": "c1", "from": who, "message": m, "data": "Yes"}})
	r.fake.Update(object{"callback_query": object{"id": "c2", "from": who, "message": m, "data": "#1"}})
	got := r.receive(2)
	if diff := cmp.Diff([]string{"(untrusted) Yes", "(untrusted) " + long}, r.texts()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if in := got[0]; in.Route.ThreadID != "7" || in.SessionKey != "telegram:-100123:topic:7" || in.SenderID != "42" || in.Meta["is_callback"] != "true" {
		t.Errorf("a tap: %+v", in)
	}
	r.Await("buttons to go", func() bool { return len(r.fake.Calls("editMessageReplyMarkup")) == 2 })
	if n := len(r.fake.Calls("answerCallbackQuery")); n != 2 {
		t.Errorf("%d taps answered, want 2", n)
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s        string
		off, n   int
		from, to int
	}{{"abc", 0, 3, 0, 3}, {"😀@b", 2, 2, 4, 6}, {"abc", 1, 1, 1, 2}, {"abc", 9, 3, 3, 3}, {"abc", 2, 9, 2, 3}, {"", 0, 1, 0, 0}, {"😀a", 1, 1, 0, 4}} {
		if from, to := span(c.s, entity{Offset: c.off, Length: c.n}); from != c.from || to != c.to {
			t.Errorf("span(%q, %d, %d) = %d, %d, want %d, %d", c.s, c.off, c.n, from, to, c.from, c.to)
		}
	}
}

func TestWrittenBeforeTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"catchUp": false})
	r.fake.Post(object{"text": "old", "chat": private(42), "date": time.Now().Add(-time.Hour).Unix()})
	r.fake.Post(object{"text": "new", "chat": private(42), "date": time.Now().Unix()})
	r.Start(r.Run)
	r.Await("acknowledgement", func() bool { return r.fake.Pending() == 0 && len(r.Inbound()) > 0 })
	if got := r.texts(); len(got) != 1 || got[0] != "new" {
		t.Errorf("got %q, want only what is new", got)
	}
}

func TestWhatTheGroupSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"groupHistory": 5})
	r.Start(r.Run)
	bob := object{"id": 8, "first_name": "Bob"}
	mention := []object{{"type": "mention", "offset": 0, "length": 7}}
	r.fake.Post(object{"text": "let us meet at nine", "chat": group(nil), "from": bob})
	r.fake.Post(object{"caption": "the place", "chat": group(nil), "from": bob, "photo": []object{{"file_id": "p", "file_unique_id": "p", "width": 1, "height": 1}}})
	r.fake.Post(object{"text": "/new@nb_bot", "chat": group(nil)})
	r.fake.Post(object{"text": "@nb_bot when?", "chat": group(nil), "entities": mention})
	r.fake.Post(object{"text": "@nb_bot thanks", "chat": group(nil), "entities": mention})
	got := r.receive(3)
	want := []string{
		"/new",
		"Ann (@ann): when?\n> : [said before in the group:\nBob: let us meet at nine\nBob: the place [image]]",
		"Ann (@ann): thanks",
	}
	if diff := cmp.Diff(want, r.texts()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if got[0].Foreign() || !got[1].Foreign() || got[2].Foreign() {
		t.Error("only the message with words of others has such words")
	}
	if n := len(r.fake.Calls("getFile")); n != 0 {
		t.Errorf("%d files of others were fetched", n)
	}
}
