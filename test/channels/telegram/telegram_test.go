// Package telegram certifies our fake of Telegram: python-telegram-bot, the
// library that most bots in Python are made with, must work with it, and see what
// it sees of the real Bot API.
package telegram

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

type object = map[string]any

// The chats of the script.
const (
	ann   = 42
	group = -100500
	steps = 7000 // where the script says what it waits for
)

func TestPythonTelegramBot(t *testing.T) {
	t.Parallel()
	fake := telegramtest.New()
	t.Cleanup(fake.Close)
	fake.Move(-77, -10077)
	fake.Store("large.bin", make([]byte, 20<<20+1))
	fake.Fail(
		telegramtest.Failure{Method: "sendVoice", Code: http.StatusTooManyRequests, RetryAfter: 7},
		telegramtest.Failure{Method: "sendAudio", Code: http.StatusForbidden, Text: "Forbidden: bot was blocked by the user"},
	)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		people(ctx, t, fake)
	}()
	out := certify.Script(t, ".", "client.py", fake.URL(), telegramtest.Token)
	cancel()
	<-done

	var got any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if d := cmp.Diff(understood(), got); d != "" {
		t.Errorf("the library understood (-want +got):\n%s", d)
	}
	if got := fake.Reaction(ann, 1); got != "👍" {
		t.Errorf("the reaction is %q", got)
	}
	if n := fake.Pending(); n != 0 {
		t.Errorf("%d updates are not acknowledged", n)
	}
}

// understood is what the library must say.
func understood() any {
	bad := func(text string) []any { return []any{"BadRequest", text} }
	return object{
		"me": []any{999.0, telegramtest.BotName, true},
		"heard": []any{
			[]any{"hi", "ann", "private", nil},
			[]any{"in the group", "ann", "supergroup", "connected"},
			[]any{"edited hi there", "ann", "private", nil},
			[]any{"command", []any{"now"}},
			[]any{"file", "look", "content of a.txt"},
			[]any{"file", nil, "a picture"},
			[]any{"tap", "y", "choose"},
		},
		"conflict": true, "token": "refused", "reply": true, "deleted": true,
		"rich": []any{"bold & a 🙂 link", []any{
			[]any{"bold", 0.0, 4.0, nil}, []any{"text_link", 7.0, 9.0, "https://example.com/"},
		}, true, "private"},
		"edited":   []any{"another", true},
		"group":    []any{"supergroup", 5.0},
		"document": []any{"out.txt", 7.0, "a file", nil, "italic", "content"},
		"photo":    []any{true, true},
		"commands": []any{[]any{"new", "a new conversation"}},
		"webhook":  []any{""},
		"refused": object{
			"same":         bad("Message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message"),
			"long":         bad("Message is too long"),
			"long edit":    bad("Message is too long"),
			"empty":        bad("Message text is empty"),
			"caption":      bad("Message caption is too long"),
			"markup":       bad("Can't parse entities: can't find end tag corresponding to start tag \"b\""),
			"gone":         bad("Message to edit not found"),
			"deleted":      bad("Message to delete not found"),
			"no chat":      bad("Chat not found"),
			"no file":      bad("Wrong file_id or the file is temporarily unavailable"),
			"large file":   bad("File is too big"),
			"action":       bad("Wrong parameter action in request"),
			"reaction":     bad("Reaction_invalid"),
			"button":       bad("Button_data_invalid"),
			"answer":       bad("Message to be replied not found"),
			"command":      bad("Bot_command_invalid"),
			"http webhook": bad("Bad webhook: an https url must be provided for webhook"),
			"moved":        []any{"ChatMigrated", -10077.0},
			"limit":        []any{"RetryAfter", 7.0},
			"blocked":      []any{"Forbidden", "Forbidden: bot was blocked by the user"},
		},
	}
}

// people do what the script waits for.
func people(ctx context.Context, t *testing.T, fake *telegramtest.Server) {
	t.Helper()
	asked := func(text string) bool { return await(ctx, fake, steps, text) }
	if !asked("connected") {
		return
	}
	fake.Say(ann, "hi")
	fake.Post(object{
		"text": "in the group", "chat": object{"id": group, "type": "supergroup", "title": "All"},
		"reply_to_message": object{"message_id": 1, "date": 1, "text": "connected", "chat": object{"id": group, "type": "supergroup", "title": "All"}},
	})
	fake.Update(object{"edited_message": object{
		"message_id": 1, "date": 1, "edit_date": 2, "text": "hi there", "from": object{"id": ann, "is_bot": false, "first_name": "Ann", "username": "ann"},
		"chat": object{"id": ann, "type": "private"},
	}})
	fake.Post(object{
		"text": "/start now", "chat": object{"id": ann, "type": "private"},
		"entities": []object{{"type": "bot_command", "offset": 0, "length": 6}},
	})
	file := fake.Store("docs/a.txt", []byte("content of a.txt"))
	fake.Post(object{
		"caption": "look", "chat": object{"id": ann, "type": "private"},
		"document": object{"file_id": file, "file_unique_id": "u1", "file_name": "a.txt", "mime_type": "text/plain", "file_size": 16},
	})
	picture := fake.Store("photos/p.jpg", []byte("a picture"))
	fake.Post(object{
		"chat":  object{"id": ann, "type": "private"},
		"photo": []object{{"file_id": "none", "file_unique_id": "u2", "width": 1, "height": 1}, {"file_id": picture, "file_unique_id": "u3", "width": 2, "height": 2}},
	})

	if !await(ctx, fake, ann, "choose") {
		return
	}
	fake.Tap(ann, "Yes")
	if asked("another program asks") {
		another(ctx, t, fake)
	}
}

// another asks for updates as a second program with the same token would.
func another(ctx context.Context, t *testing.T, fake *telegramtest.Server) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fake.URL()+"/bot"+telegramtest.Token+"/getUpdates", strings.NewReader(`{"timeout":1}`))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if res, err := (&http.Client{}).Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// await waits until the bot says something in a chat; false is the end of ctx.
func await(ctx context.Context, fake *telegramtest.Server, chat int64, text string) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if slices.ContainsFunc(fake.Messages(chat), func(m telegramtest.Message) bool { return m.Plain == text }) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
