package weixin

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

func from(user string, items ...any) object { return object{"from_user_id": user, "item_list": items} }

// with is an item of a type with a file.
func with(kind int, key string, inner object) object { return object{"type": kind, key: inner} }

// flat is a message in words, with paths of files as their contents.
func flat(t *testing.T, in bus.Inbound) string {
	t.Helper()
	s := shown(in)
	for _, m := range in.Media {
		data, err := os.ReadFile(m.Path)
		if err != nil {
			t.Fatal(err)
		}
		s = strings.ReplaceAll(s, m.Path, string(data))
	}
	return s
}

func TestInbound(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.deps.Quoted = func(_ bus.Route, id string) (chat.Quoted, bool) {
		return chat.Quoted{Text: "abcdabcd"}, id == "18446744073709551615"
	}
	r.remake(section(t, r.fake, nil))
	end := r.begin()
	defer end()
	digits := hex.EncodeToString(weixintest.Key())
	keyless := r.fake.Store([]byte("an image"), "raw")
	delete(keyless, "aes_key")
	lost := object{"encrypt_query_param": "gone", "aes_key": "AAECAwQFBgcICQoLDA0ODw=="}
	full := r.fake.Store([]byte("by address"), "hex")
	full["full_url"] = "https://evil.example/x"
	text := func(s string, ref object) object {
		return object{"type": 1, "text_item": object{"text": s}, "ref_msg": ref}
	}
	const about = "\n> " + aboutRef + ": "
	for _, c := range []struct {
		name  string
		items []any
		want  string
	}{
		{"text", []any{weixintest.Text("hi"), weixintest.Text("there")}, "hi\nthere"},
		{"image with hex key", []any{with(2, "image_item", object{"media": keyless, "aeskey": digits})}, "\n> files: [image: an image]"},
		{"image without a key", []any{with(2, "image_item", object{"media": r.fake.Store([]byte("plain"), "")})}, "\n> files: [image: plain]"},
		{"image by its thumb", []any{with(2, "image_item", object{"media": lost, "thumb_media": r.fake.Store([]byte("small"), "raw")})}, "\n> files: [image: small]"},
		{"file", []any{weixintest.Text("look"), with(4, "file_item", object{"media": full, "file_name": "a.txt"})}, "look\n> files: [file: by address]"},
		{"file without a key", []any{with(4, "file_item", object{"media": r.fake.Store([]byte("x"), "")})}, "[file]"},
		{"video", []any{with(5, "video_item", object{"media": r.fake.Store([]byte("moving"), "raw")})}, "\n> files: [video: moving]"},
		{"voice in words", []any{with(3, "voice_item", object{"text": "hello ", "media": lost})}, "[voice] hello"},
		{"voice", []any{with(3, "voice_item", object{"media": r.fake.Store([]byte("\x02#!SILK_V3"), "raw"), "encode_type": 6})}, "\n> files: [voice: \x02#!SILK_V3]"},
		{"quote", []any{text("what?", object{"title": "Bob", "message_item": weixintest.Text("obey me")})}, "what?" + about + "Bob | obey me"},
		{"quoted file", []any{text("this", object{"message_item": with(4, "file_item", object{"media": r.fake.Store([]byte("old"), "raw")})})}, "this\n> files: [file: old]"},
		{"quoted file beside another", []any{
			text("this", object{"title": "t", "message_item": with(4, "file_item", object{"media": lost})}),
			with(2, "image_item", object{"media": r.fake.Store([]byte("new"), "raw")}),
		}, "this" + about + "t\n> files: [image: new]"},
		{"quote by id", []any{text("and?", object{"svr_id": json.Number("18446744073709551615")})}, "and?" + about + "abcdabcd"},
		{"piece", []any{text("why?", object{"svr_id": "18446744073709551615", "partial_text": object{"start": "b", "end": "d", "startindex": 1, "endindex": 0, "quotemd5": "d4b7c284882ca9e208bb65e8abd5f4c8"}})}, "why?" + about + "bcd"},
		{"piece of an unknown message", []any{text("why?", object{"svr_id": 7, "partial_text": object{"start": "b", "end": "d"}})}, "why?" + about + "b … d"},
		{"unknown message", []any{text("and?", object{"svr_id": 7})}, "and?" + about + "(a message that is not remembered any more)"},
		{"lost file", []any{with(5, "video_item", object{"media": lost})}, "\n> files: [attachment: video.mp4 - download failed]"},
		{"unknown item", []any{weixintest.Text("x"), object{"type": 99, "future_item": 1}}, "x\n> sent along: [item of type 99: cannot be shown]"},
	} {
		n := len(r.Inbound())
		r.fake.Post(from(ann, c.items...))
		got := r.receive(n + 1)[n]
		if d := cmp.Diff(c.want, flat(t, got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if got.Untrusted || got.Route.ChatID != ann || got.SenderID != ann || got.Scope != "" || got.ID != "weixin:"+got.Route.MessageID {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := r.Inbound()[0].Route.MessageID; got != "9223372036854775850" {
		t.Errorf("the id of the first message is %s", got)
	}
}

// Our own messages, groups and empty messages are not for the agent.
func TestNotForUs(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"allowFrom": []string{"*"}})
	defer r.begin()()
	m := from(ann, weixintest.Text("own"))
	m["message_type"] = 2
	r.fake.Post(m)
	r.fake.Post(from("crowd@chatroom", weixintest.Text("in a group")))
	m = from(ann, weixintest.Text("in a group, too"))
	m["group_id"] = "crowd"
	r.fake.Post(m)
	r.fake.Post(from(ann))
	r.fake.Post(from("", weixintest.Text("without a sender")))
	r.fake.Say(ann, "hi")
	if got := r.receive(1); len(got) != 1 || got[0].Text != "hi" {
		t.Errorf("%+v", got)
	}
}

// What was held for a former account is answered without its context token.
func TestHeldForAnotherAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if _, err := r.account.load(r.path); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(object{"from_user_id": ann, "message_id": 5, "context_token": "old", "item_list": []any{weixintest.Text("hi")}})
	if err != nil {
		t.Fatal(err)
	}
	rc := &receiver{bot: r.bot, submit: r.Submit}
	if err := rc.handle(t.Context(), arrival{"token 00000000", raw}); err != nil {
		t.Fatal(err)
	}
	if got := r.Inbound(); len(got) != 1 || r.account.context(ann) != "" {
		t.Errorf("%+v, context token %q", got, r.account.context(ann))
	}
}

// A stranger gets the pairing code by the token of that very message, which is
// not kept.
func TestStrangerToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	r.fake.Say(bob, "let me in")
	r.Await("the message", func() bool { return r.account.context(bob) != "" })
	if _, err := r.Send(t.Context(), answer(bob, "Your code is")); err != nil {
		t.Error(err)
	}
	if got := r.fake.Messages(); len(got) != 1 || got[0].Context == "" || len(r.Inbound()) != 0 {
		t.Errorf("sent %+v, received %+v", got, r.Inbound())
	}
	end()
	if tokens, _ := r.kept()["context_tokens"].(map[string]any); tokens[bob] != nil {
		t.Errorf("context tokens %v", tokens)
	}
}

func TestPartial(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    partial
		want string
	}{
		{partial{Start: "b", End: "d"}, "bcd"},
		{partial{Start: "b", End: "d", EndIndex: 1}, "bcdabcd"},
		{partial{Start: "b", End: "d", StartIndex: 1, MD5: "D4B7C284882CA9E208BB65E8ABD5F4C8"}, "bcd"},
		{partial{Start: "b", End: "d", StartIndex: 1, EndIndex: 1, MD5: "d4b7c284882ca9e208bb65e8abd5f4c8"}, "bcd"},
		{partial{Start: "b", End: "d", MD5: "00"}, ""},
		{partial{Start: "b", End: "x"}, ""},
		{partial{Start: "b", End: "d", StartIndex: 5}, ""},
		{partial{Start: "b", End: "d", StartIndex: -1}, ""},
		{partial{}, ""},
	} {
		if got := c.p.of("abcdabcd"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

// What a former process held is handled first, with the right to answer it.
func TestHeldOverRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.Refuse(errors.New("no space left on device"))
	end := r.begin()
	id := r.fake.Say(ann, "hi")
	r.Await("the cursor", func() bool { return r.fake.Acked(id) })
	end()
	if err := os.Remove(r.path); err != nil { // the context token is in the message as well
		t.Fatal(err)
	}
	r.Refuse(nil)
	r.remake(section(t, r.fake, nil))
	end = r.begin()
	defer end()
	r.receive(1)
	if err := r.send(answer(ann, "hello")); err != nil || r.fake.Messages()[0].Context == "" {
		t.Errorf("%+v, %v", r.fake.Messages(), err)
	}
}
