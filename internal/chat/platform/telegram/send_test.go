package telegram

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

func to(chatID string) bus.Route { return bus.Route{Channel: "telegram", ChatID: chatID} }

// Telegram must not fetch what an answer or a question names: with the address
// words of ours would leave, without anybody having opened it.
func TestNoPreviews(t *testing.T) {
	t.Parallel()
	const said = "see evil.example/?q=secret and https://evil.example/?q=secret [x](https://evil.example)"
	for name, rich := range map[string]bool{"html": false, "rich": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, loopback(t), map[string]any{"richMessages": rich, "inlineKeyboards": true})
			route := bus.Route{Channel: "telegram", ChatID: "42"}
			for _, out := range []bus.Outbound{
				{Kind: bus.Final, Text: said},
				{Kind: bus.Message, Text: "only evil.example/?q=secret"},
				{Kind: bus.Delta, Text: said},
				{Kind: bus.Notice, Text: said, Plain: true},
				{Kind: bus.Ask, Text: said, Question: &bus.Question{ID: "1", Text: said, Options: []string{"Yes"}}},
			} {
				out.Route = route
				id, err := r.Send(t.Context(), out)
				if err != nil {
					t.Fatal(err)
				}
				for _, final := range []bool{false, true} {
					if err := r.Edit(t.Context(), bus.Outbound{Route: route, Text: said + " more"}, id, final); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, method := range []string{"sendMessage", "sendRichMessage", "editMessageText"} {
				for _, c := range r.fake.Calls(method) {
					off := strings.Contains(c.Params["link_preview_options"], `"is_disabled":true`)
					page := c.Params["rich_message"]
					if !off || page != "" && (!strings.Contains(page, `"skip_entity_detection":true`) || strings.Contains(page, "](") || strings.Contains(page, "://")) {
						t.Errorf("%s: %v", method, c.Params)
					}
				}
			}
		})
	}
}

func TestSendText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out     bus.Outbound
		changes map[string]any
		fail    []telegramtest.Failure
		want    map[string]string // parameters; "" must be missing
	}{
		"markdown": {out: bus.Outbound{Text: "**a**"}, want: map[string]string{"text": "<b>a</b>", "parse_mode": "HTML", "chat_id": "42", "message_thread_id": "", "disable_notification": ""}},
		"plain":    {out: bus.Outbound{Text: "**a**", Plain: true}, want: map[string]string{"text": "**a**", "parse_mode": ""}},
		"topic":    {out: bus.Outbound{Text: "a", Route: bus.Route{ChatID: "-5", ThreadID: "7"}}, want: map[string]string{"message_thread_id": "7", "chat_id": "-5"}},
		"topic gone": {
			out:  bus.Outbound{Text: "a", Route: bus.Route{ChatID: "-5", ThreadID: "7"}},
			fail: []telegramtest.Failure{{Method: "sendMessage", Code: 400, Text: "Bad Request: message thread not found"}},
			want: map[string]string{"message_thread_id": "", "text": "a"},
		},
		"tool hint": {out: bus.Outbound{Kind: bus.ToolHint, Text: "exec(\"a < b\")"}, want: map[string]string{"text": "<blockquote expandable>exec(\"a &lt; b\")</blockquote>", "disable_notification": "true"}},
		"bad markup": {
			out:  bus.Outbound{Text: "**a**"},
			fail: []telegramtest.Failure{{Method: "sendMessage", Code: 400, Text: "Bad Request: can't parse entities: x"}},
			want: map[string]string{"text": "**a**", "parse_mode": ""},
		},
		"too long as markup": {
			out:  bus.Outbound{Text: "**a**"},
			fail: []telegramtest.Failure{{Method: "sendMessage", Code: 400, Text: "Bad Request: MESSAGE_TOO_LONG"}},
			want: map[string]string{"text": "**a**", "parse_mode": ""},
		},
		"odd address in markup": {
			out:  bus.Outbound{Text: "[a](http://x.y)"},
			fail: []telegramtest.Failure{{Method: "sendMessage", Code: 400, Text: "Bad Request: WEBPAGE_URL_INVALID"}},
			want: map[string]string{"text": "[a](http://x.y)", "parse_mode": ""},
		},
		"preview":     {out: bus.Outbound{Kind: bus.Delta, Text: "**a** `b"}, want: map[string]string{"text": "a `b", "parse_mode": "", "disable_notification": ""}},
		"no quote":    {out: bus.Outbound{Text: "a", ReplyTo: "9", Route: bus.Route{ChatID: "42", MessageID: "9"}}, want: map[string]string{"reply_parameters": ""}},
		"asked quote": {out: bus.Outbound{Text: "a", ReplyTo: "9"}, want: map[string]string{"reply_parameters": `{"message_id":9,"allow_sending_without_reply":true}`}},
		"quote": {
			out: bus.Outbound{Text: "a", Route: bus.Route{ChatID: "42", MessageID: "9"}}, changes: map[string]any{"replyToMessage": true},
			want: map[string]string{"reply_parameters": `{"message_id":9,"allow_sending_without_reply":true}`},
		},
		"buttons off": {out: bus.Outbound{Kind: bus.Ask, Text: "a?", Question: &bus.Question{Options: []string{"yes"}}}, want: map[string]string{"reply_markup": ""}},
		"buttons": {
			out: bus.Outbound{Kind: bus.Ask, Text: "a?", Question: &bus.Question{ID: "q-1", Options: []string{"yes", strings.Repeat("ä", 33)}}}, changes: map[string]any{"inlineKeyboards": true},
			want: map[string]string{"reply_markup": `{"inline_keyboard":[[{"text":"yes","callback_data":"?q-1.0"}],[{"text":"` + strings.Repeat("ä", 33) + `","callback_data":"?q-1.1"}]]}`},
		},
		"offered answers": {
			out: bus.Outbound{Kind: bus.Message, Text: "a?", Question: &bus.Question{ID: "q-1", Options: []string{"yes", strings.Repeat("ä", 33), "?q-1.0"}}}, changes: map[string]any{"inlineKeyboards": true},
			want: map[string]string{"reply_markup": `{"inline_keyboard":[[{"text":"yes","callback_data":"yes"}],[{"text":"` + strings.Repeat("ä", 33) + `","callback_data":"#1"}],[{"text":"?q-1.0","callback_data":"#2"}]]}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, telegramtest.Offline(), c.changes)
			r.fake.Fail(c.fail...)
			if c.out.Route.ChatID == "" {
				c.out.Route = to("42")
			}
			id, err := r.Send(t.Context(), c.out)
			sent := r.fake.Messages(0)
			if err != nil || len(sent) != 1 || id != "1" {
				t.Fatalf("Send = %q, %v; %d messages", id, err, len(sent))
			}
			for k, want := range c.want {
				if got := sent[0].Params[k]; got != want {
					t.Errorf("%s = %q, want %q", k, got, want)
				}
			}
		})
	}
}

func TestSendQuotesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), map[string]any{"replyToMessage": true})
	route := bus.Route{ChatID: "42", MessageID: "9"}
	r.fake.Fail(telegramtest.Failure{Method: "sendMessage", Code: 500, Text: "Internal Server Error"})
	for _, text := range []string{"lost", "a", "b"} {
		_, err := r.Send(t.Context(), bus.Outbound{Text: text, Route: route})
		if (err != nil) != (text == "lost") {
			t.Errorf("Send(%s): %v", text, err)
		}
	}
	sent := r.fake.Messages(42)
	if sent[0].Params["reply_parameters"] == "" || sent[1].Params["reply_parameters"] != "" {
		t.Error("the first part that arrives quotes, and no other one")
	}
}

func TestSendErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail telegramtest.Failure
		chat string
		want string
	}{
		"rate limit":   {fail: telegramtest.Failure{Code: 429, RetryAfter: 3}, want: "limited 3s"},
		"blocked":      {fail: telegramtest.Failure{Code: 403, Text: "Forbidden: bot was blocked by the user"}, want: "permanent"},
		"no chat":      {fail: telegramtest.Failure{Code: 400, Text: "Bad Request: chat not found"}, want: "permanent"},
		"too large":    {fail: telegramtest.Failure{Code: 413, Text: "Request Entity Too Large"}, want: "permanent"},
		"token gone":   {fail: telegramtest.Failure{Code: 401, Text: "Unauthorized"}, want: "not ready"},
		"server error": {fail: telegramtest.Failure{Code: 500, Text: "Internal Server Error"}, want: "passing"},
		"cut":          {fail: telegramtest.Failure{}, want: "passing"},
		"proxy page":   {fail: telegramtest.Failure{Code: 502, Garbage: true}, want: "passing"},
		"no number":    {chat: "ann", want: "permanent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, telegramtest.Offline(), nil)
			if c.fail != (telegramtest.Failure{}) || c.chat == "" {
				r.fake.Fail(c.fail)
			}
			_, err := r.Send(t.Context(), bus.Outbound{Text: "a", Route: to(c.chat + strings.Repeat("42", 1-min(len(c.chat), 1)))})
			if got := verdict(err); got != c.want {
				t.Errorf("%v is %s, want %s", err, got, c.want)
			}
			if n := len(r.fake.Messages(0)); n != 0 {
				t.Errorf("%d messages sent", n)
			}
		})
	}
}

func verdict(err error) string {
	if l, ok := errors.AsType[*chat.RateLimitedError](err); ok {
		return "limited " + l.After.String()
	}
	switch {
	case err == nil:
		return "none"
	case chat.IsPermanent(err):
		return "permanent"
	case errors.Is(err, chat.ErrNotReady):
		return "not ready"
	}
	return "passing"
}

// The address of every call holds the token; no error and no log line may.
func TestTokenStaysSecret(t *testing.T) {
	t.Parallel()
	fake := telegramtest.New()
	r := newRig(t, fake, nil)
	h := &http.Client{}
	r.calls.rest.Client, r.polls.rest.Client = h, h
	fake.Close()
	_, err := r.Send(t.Context(), bus.Outbound{Text: "a", Route: to("42")})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	errs := []error{err, r.Run(ctx, r.Submit), r.Signal(t.Context(), to("42"), chat.Working)}
	r.calls.rest.Base = "http://[::1"
	_, err = r.calls.download(t.Context(), "x")
	errs = append(errs, err, r.calls.call(t.Context(), "getMe", nil, nil))
	for i, err := range errs {
		if err == nil || strings.Contains(err.Error(), telegramtest.Token) {
			t.Errorf("error %d: %v", i, err)
		}
	}
	if strings.Contains(r.Log.String(), telegramtest.Token) {
		t.Errorf("log: %s", r.Log)
	}
}

func TestChatThatMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"groupPolicy": "allowlist", "groupAllowFrom": []string{"-5"}})
	stop := r.Start(r.Run)
	r.fake.Move(-5, -1005)
	for _, text := range []string{"a", "b"} {
		if _, err := r.Send(t.Context(), bus.Outbound{Text: text, Route: to("-5")}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.fake.Messages(-1005)); n != 2 || len(r.fake.Calls("sendMessage")) != 3 {
		t.Errorf("%d messages arrived after %d calls, want 2 and 3", n, len(r.fake.Calls("sendMessage")))
	}
	r.Await("ready", func() bool { return len(r.States()) > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.reopen(map[string]any{"groupPolicy": "allowlist", "groupAllowFrom": []string{"-5"}})
	r.Start(r.Run)
	r.fake.Post(object{"text": "hi", "chat": object{"id": int64(-1005), "type": "supergroup"}})
	if in := r.receive(1)[0]; in.Route.ChatID != "-5" || in.Route.SessionKey() != "telegram:-5" {
		t.Errorf("the group is called %q after it moved, want -5 as before", in.Route.ChatID)
	}
	// A move that Telegram tells of by itself.
	r.fake.Post(object{"chat": object{"id": int64(-1005), "type": "supergroup"}, "migrate_to_chat_id": int64(-1006)})
	r.Await("the second move", func() bool { return r.facts.current("-5") == "-1006" || r.fake.Pending() == 0 })
	if got := r.facts.current("-5"); got != "-1006" {
		t.Errorf("the chat is at %s now, want -1006", got)
	}
}

func TestSendFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const jpeg, png = "\xff\xd8\xff\xe0", "\x89PNG\r\n\x1a\n"
	opus := "OggS" + strings.Repeat("\x00", 24) + "OpusHead"
	for name, c := range map[string]struct {
		data, caption string
		fail          []telegramtest.Failure
		want          string
	}{
		"a.jpg":      {data: jpeg, want: "sendPhoto"},
		"A.PNG":      {data: png, caption: "**see**", want: "sendPhoto"},
		"b.gif":      {data: "GIF89a", want: "sendAnimation"},
		"c.mp4":      {data: "\x00\x00\x00\x18ftypmp42", want: "sendVideo"},
		"d.ogg":      {data: opus, want: "sendVoice"},
		"vorbis.ogg": {data: "OggS vorbis", want: "sendDocument"},
		"e.mp3":      {data: "ID3\x04", want: "sendAudio"},
		"text.mp3":   {data: "x", want: "sendDocument"},
		"no-name":    {data: jpeg, want: "sendPhoto"},
		"f.pdf":      {data: "x", want: "sendDocument"},
		"g":          {data: "x", want: "sendDocument"},
		"h.jpeg":     {data: jpeg + strings.Repeat("x", maxPhoto), want: "sendDocument"},
		"wide.jpg": {
			data: jpeg, want: "sendDocument",
			fail: []telegramtest.Failure{{Method: "sendPhoto", Code: 400, Text: "Bad Request: PHOTO_INVALID_DIMENSIONS"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, loopback(t), nil)
			r.calls.rest.Client = &http.Client{}
			t.Cleanup(r.calls.rest.Client.CloseIdleConnections)
			r.fake.Fail(c.fail...)
			_, err := r.Send(t.Context(), bus.Outbound{Text: c.caption, Media: []bus.Media{{Path: path}}, Route: bus.Route{ChatID: "42", ThreadID: "7"}})
			sent := r.fake.Messages(42)
			if err != nil || len(sent) != 1 {
				t.Fatalf("%v; %d messages", err, len(sent))
			}
			m := sent[0]
			if m.Method != c.want || m.File.Name != name || string(m.File.Data) != c.data || m.Thread != 7 {
				t.Errorf("got %s of %q with %d bytes in topic %d, want %s", m.Method, m.File.Name, len(m.File.Data), m.Thread, c.want)
			}
			if c.caption != "" && (m.Text != "<b>see</b>" || m.Plain != "see") {
				t.Errorf("caption %q", m.Text)
			}
		})
	}
}

func TestSendNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge.bin")
	f, err := os.Create(huge)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(maxUpload+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, telegramtest.Offline(), nil)
	for _, path := range []string{"", filepath.Join(dir, "none"), dir, huge} {
		if _, err := r.Send(t.Context(), bus.Outbound{Media: []bus.Media{{Path: path}}, Route: to("42")}); !chat.IsPermanent(err) {
			t.Errorf("Send(%q) = %v, want a permanent error", path, err)
		}
	}
	if n := len(r.fake.Calls("")); n != 0 {
		t.Errorf("%d calls for files that are not there", n)
	}
}

func TestSendFromAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), nil)
	r.fake.Store("x/pic.png", []byte("\x89PNG\r\n\x1a\n"))
	r.bot.deps.Fetch = func() (*http.Client, error) { return &http.Client{Transport: r.fake.Transport()}, nil }
	_, err := r.Send(t.Context(), bus.Outbound{Media: []bus.Media{{Path: "http://telegram.test/file/bot" + telegramtest.Token + "/x/pic.png"}}, Route: to("42")})
	sent := r.fake.Messages(42)
	if err != nil || len(sent) != 1 || sent[0].Method != "sendPhoto" || string(sent[0].File.Data) != "\x89PNG\r\n\x1a\n" {
		t.Errorf("%v; %+v", err, sent)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), nil)
	id, err := r.Send(t.Context(), bus.Outbound{Text: "a", Route: bus.Route{ChatID: "42", ThreadID: "7"}})
	if err != nil {
		t.Fatal(err)
	}
	route := bus.Route{ChatID: "42", ThreadID: "7"}
	for _, e := range []struct {
		text  string
		final bool
	}{
		{"**a** `b", false},
		{"**a** `b", false}, // changes nothing
		{" ", false},
		{strings.Repeat("😀", 3000), false},
		{"**a** `b`", true},
	} {
		if err := r.Edit(t.Context(), bus.Outbound{Route: route, Text: e.text}, id, e.final); err != nil {
			t.Errorf("Edit(%.20q): %v", e.text, err)
		}
	}
	want := []string{"a `b", strings.Repeat("😀", 2048), "<b>a</b> <code>b</code>"}
	if diff := cmp.Diff(want, r.fake.Messages(42)[0].Edits); diff != "" {
		t.Errorf("edits (-want +got):\n%s", diff)
	}
	r.fake.Fail(telegramtest.Failure{Method: "editMessageText", Code: 400, Text: "Bad Request: can't parse entities"})
	if err := r.Edit(t.Context(), bus.Outbound{Route: route, Text: "**z**"}, id, true); err != nil || r.fake.Messages(42)[0].Text != "**z**" {
		t.Errorf("after bad markup: %v, %q; want it plain", err, r.fake.Messages(42)[0].Text)
	}
	if err := r.Edit(t.Context(), bus.Outbound{Route: route, Text: "x"}, "77", true); !chat.IsPermanent(err) {
		t.Errorf("a message that is gone: %v, want permanent", err)
	}
	r.fake.Fail(telegramtest.Failure{Method: "editMessageText", Code: 429, RetryAfter: 7})
	if err := r.Edit(t.Context(), bus.Outbound{Route: route, Text: "y"}, id, false); verdict(err) != "limited 7s" {
		t.Errorf("too fast: %v", err)
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), nil)
	route := bus.Route{ChatID: "42", ThreadID: "3", MessageID: "1"}
	id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Message, Route: route, Text: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // one that is gone is no error
		if err := r.Erase(t.Context(), route, id); err != nil {
			t.Error(err)
		}
	}
	if n := len(r.fake.Messages(42)); n != 0 {
		t.Errorf("%d messages are left, want none", n)
	}
	r.fake.Fail(telegramtest.Failure{Method: "deleteMessage", Code: 400, Text: "message can't be deleted"})
	for _, id := range []string{"7", "not a number"} {
		if err := r.Erase(t.Context(), route, id); !chat.IsPermanent(err) {
			t.Errorf("Erase(%q) = %v, want a permanent error", id, err)
		}
	}
}

// An answer whose first part is there already, of an earlier process, quotes
// no more.
func TestEditQuotes(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), map[string]any{"replyToMessage": true})
	route := bus.Route{ChatID: "42", MessageID: "1"}
	id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Delta, Route: bus.Route{ChatID: "42"}, Text: "x"})
	if err == nil {
		err = r.Edit(t.Context(), bus.Outbound{Route: route, Text: "one"}, id, true)
	}
	if err == nil {
		_, err = r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: route, Text: "two"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := r.fake.Messages(42)[1].Params["reply_parameters"]; got != "" {
		t.Errorf("the second part quotes %s", got)
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), nil)
	route := bus.Route{ChatID: "-5", ThreadID: "7", MessageID: "9"}
	signal := func(p chat.Phase) {
		t.Helper()
		if err := r.Signal(t.Context(), route, p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	signal(chat.Seen)
	if got := r.fake.Reaction(-5, 9); got != "👀" {
		t.Errorf("reaction %q after Seen", got)
	}
	signal(chat.Working)
	if c := r.fake.Calls("sendChatAction"); len(c) != 1 || c[0].Params["message_thread_id"] != "7" || c[0].Params["action"] != "typing" {
		t.Errorf("typing: %+v", c)
	}
	signal(chat.Answered)
	if got := r.fake.Reaction(-5, 9); got != "" {
		t.Errorf("reaction %q at the end", got)
	}

	r.reopen(map[string]any{"reactEmoji": "🥦"})
	if err := r.Signal(t.Context(), route, chat.Seen); err == nil || !strings.Contains(err.Error(), "reactEmoji") {
		t.Errorf("an emoji that Telegram does not take: %v", err)
	}
	n := len(r.fake.Calls("setMessageReaction"))
	signal(chat.Seen)
	r.reopen(map[string]any{"reactEmoji": ""})
	signal(chat.Seen)
	if m := len(r.fake.Calls("setMessageReaction")); m != n {
		t.Errorf("%d more reactions, want none", m-n)
	}
}

func TestSendNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), nil)
	if _, err := r.Send(t.Context(), bus.Outbound{Text: " \n\u200b", Route: to("42")}); err != nil || len(r.fake.Calls("")) != 0 {
		t.Errorf("a blank message: %v, %d calls", err, len(r.fake.Calls("")))
	}
	if _, err := r.Send(t.Context(), bus.Outbound{Text: "[](https://a.b)", Route: to("42")}); err != nil || len(r.fake.Messages(42)) != 1 {
		t.Errorf("a link without words: %v, %d messages", err, len(r.fake.Messages(42)))
	}
}
