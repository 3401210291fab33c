package telegram

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, pollingFixture)
}

// The webhook keeps the same promises.
func TestSuiteWebhook(t *testing.T) {
	t.Parallel()
	chattest.Run(t, webhookFixture)
}

// second is a fake of another bot.
func second(t *testing.T) *telegramtest.Server {
	t.Helper()
	fake := loopback(t)
	fake.SetBot(998, "two_bot")
	return fake
}

func pollingFixture(t *testing.T) chattest.Fixture {
	t.Helper()
	f, two := fixture(t, loopback(t)), fixture(t, second(t))
	f.Second = &two
	return f
}

// fixture is one bot that polls.
func fixture(t *testing.T, fake *telegramtest.Server) chattest.Fixture {
	t.Helper()
	send := func(f telegramtest.Failure) func() {
		f.Method = "sendMessage"
		return func() { fake.Fail(f) }
	}
	var delivered sync.Map
	return chattest.Fixture{
		Driver:  Driver(),
		Section: func(c chat.Common) json.RawMessage { return commonSection(t, c, fake, nil) },
		Owner:   "42", Stranger: "66", Chat: func(sender string) string { return sender }, Group: "-100123", Thread: "7",
		Pose: func(t *testing.T, in chattest.In, name string) {
			m := messageOf(t, fake, in)
			m["from"] = object{"id": atoi(t, in.Sender), "first_name": name, "last_name": name, "username": name}
			fake.Post(m)
		},
		Deliver: func(t *testing.T, in chattest.In) { fake.Post(messageOf(t, fake, in)); delivered.Store(in.ID, true) },
		Idle:    fake.Idle,
		Seen:    func() []chattest.Seen { return seen(fake) },
		Touched: func() int {
			n := 0
			for _, m := range []string{"getFile", "file", "sendChatAction", "setMessageReaction"} {
				n += len(fake.Calls(m))
			}
			return n
		},
		Limit: func(after time.Duration) {
			fake.Fail(telegramtest.Failure{Method: "sendMessage", Code: 429, RetryAfter: int(after.Seconds())})
		},
		Break:   send(telegramtest.Failure{Code: 500, Text: "Internal Server Error"}),
		Refuse:  send(telegramtest.Failure{Code: 403, Text: "Forbidden: bot was blocked by the user"}),
		Cut:     fake.CutAll,
		Streams: true, Repeats: true, MediaLimit: true, AnyName: true,
		Marks: func(chatID, id string) []string {
			if r := fake.Reaction(atoi(t, chatID), atoi(t, id)); r != "" {
				return []string{r}
			}
			return nil
		},
		Tap: func(t *testing.T, chatID, label string) {
			fake.Update(object{"callback_query": tapOn(t, fake, chatID, label)})
		},
		Acked: func(id string) bool {
			_, ok := delivered.Load(id)
			return ok && fake.Pending() == 0
		},
		Typing: func(chatID, thread string) (n int, on bool) {
			for _, c := range fake.Calls("sendChatAction") {
				if c.Params["chat_id"] == chatID && c.Params["message_thread_id"] == thread {
					n++
				}
			}
			return n, false
		},
		Frame: func(_ *testing.T, frame []byte) {
			var body map[string]any
			if json.Unmarshal(frame, &body) == nil && body != nil { // the list around updates is JSON
				fake.Update(body)
			}
		},
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.pollFor, b.pollMost = time.Second, 3*time.Second
			}
		},
		Lacks: map[string]string{
			"Forge":   "the bot asks for its updates: there is no address to forge one at",
			"Backlog": "Telegram itself keeps what was not fetched, without a limit of age",
			"Alias":   "Telegram knows a person by one id",
		},
	}
}

// tapOn is a tap on a button of the last message that has such a one.
func tapOn(t *testing.T, fake *telegramtest.Server, chatID, label string) object {
	t.Helper()
	for _, m := range slices.Backward(fake.Messages(atoi(t, chatID))) {
		var k keyboard
		if m.Params["reply_markup"] == "" || json.Unmarshal([]byte(m.Params["reply_markup"]), &k) != nil {
			continue
		}
		for _, row := range k.Rows {
			if row[0].Text == label {
				return object{
					"id": "tap1", "from": object{"id": 42, "first_name": "Ann"}, "data": row[0].Data,
					"message": object{"message_id": m.ID, "from": us(), "chat": private(atoi(t, chatID)), "text": m.Plain, "reply_markup": k},
				}
			}
		}
	}
	t.Fatalf("no button says %q", label)
	return nil
}

// caller is Telegram as it calls a webhook: it repeats an update until it is
// acknowledged.
type caller struct {
	t       *testing.T
	path    string
	mu      sync.Mutex
	handler http.Handler
	next    int64
	numbers map[string]int64 // of updates, by the id of the message
	acked   map[string]bool
}

func newCaller(t *testing.T, path string) *caller {
	t.Helper()
	return &caller{t: t, path: path, next: 1000, numbers: map[string]int64{}, acked: map[string]bool{}}
}

func (c *caller) serve(h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = h
}

// post delivers a body once.
func (c *caller) post(secret string, body []byte) int {
	c.mu.Lock()
	h := c.handler
	c.mu.Unlock()
	r := httptest.NewRequestWithContext(c.t.Context(), http.MethodPost, c.path, bytes.NewReader(body))
	r.Header.Set(secretField, secret)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// update delivers something until it is acknowledged.
func (c *caller) update(id string, body object) {
	c.t.Helper()
	c.mu.Lock()
	if c.numbers[id] == 0 {
		c.next++
		c.numbers[id] = c.next
	}
	body["update_id"] = c.numbers[id]
	c.mu.Unlock()
	data, err := json.Marshal(body)
	if err != nil {
		c.t.Error(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Minute)
	for c.post(hookSecret, data) != http.StatusOK {
		select {
		case <-tick.C:
		case <-limit:
			c.t.Errorf("update %s is not acknowledged", id)
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[id] = true
}

const hookSecret = "s3cret-0123456789"

func webhookFixture(t *testing.T) chattest.Fixture {
	t.Helper()
	fake, other := loopback(t), second(t)
	c, d := newCaller(t, "/telegram"), newCaller(t, "/two")
	f, two := hookFixture(t, fake, c), hookFixture(t, other, d)
	f.Second = &two
	f.Serve = func(h http.Handler) {
		c.serve(h)
		d.serve(h)
	}
	return f
}

// hookFixture is one bot that is called.
func hookFixture(t *testing.T, fake *telegramtest.Server, c *caller) chattest.Fixture {
	t.Helper()
	f := fixture(t, fake)
	f.Section = func(common chat.Common) json.RawMessage {
		return commonSection(t, common, fake, hooked(map[string]any{"webhookSecretToken": hookSecret, "webhookPath": c.path}))
	}
	message := func(in chattest.In) object {
		m := messageOf(t, fake, in)
		m["date"] = 1_700_000_000
		return object{"message": m}
	}
	f.Deliver = func(_ *testing.T, in chattest.In) { c.update(in.ID, message(in)) }
	f.Pose = func(t *testing.T, in chattest.In, name string) {
		u := message(in)
		m, ok := u["message"].(object)
		if !ok {
			t.Fatalf("no message: %v", u)
		}
		m["from"] = object{"id": atoi(t, in.Sender), "first_name": name, "last_name": name, "username": name}
		c.update(in.ID, u)
	}
	f.Cut, f.Impatient = nil, nil
	f.Lacks = map[string]string{
		"Cut":       "Telegram calls us: no connection is kept",
		"Impatient": "Telegram calls us: no connection is kept",
		"Backlog":   f.Lacks["Backlog"],
		"Alias":     f.Lacks["Alias"],
	}
	f.Tap = func(t *testing.T, chatID, label string) {
		t.Helper()
		c.update("tap", object{"callback_query": tapOn(t, fake, chatID, label)})
	}
	f.Acked = func(id string) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.acked[id]
	}
	f.Frame = func(_ *testing.T, frame []byte) { c.post(hookSecret, frame) }
	f.Forge = func(t *testing.T, in chattest.In) {
		t.Helper()
		body := message(in)
		body["update_id"] = 99
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if code := c.post("guessed", data); code != http.StatusUnauthorized {
			t.Errorf("a forged update: status %d", code)
		}
	}
	return f
}

func commonSection(t *testing.T, c chat.Common, fake *telegramtest.Server, more map[string]any) json.RawMessage {
	t.Helper()
	all := map[string]any{"token": fake.Token(), "apiBase": fake.URL(), "inlineKeyboards": true}
	maps.Copy(all, more)
	return chattest.Section(t, c, all)
}

func atoi(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// messageOf is a message as Telegram tells it.
func messageOf(t *testing.T, fake *telegramtest.Server, in chattest.In) object {
	t.Helper()
	m := object{
		"message_id": atoi(t, in.ID), "text": in.Text, "chat": private(atoi(t, in.Chat)),
		"from": object{"id": atoi(t, in.Sender), "first_name": "Ann"},
	}
	if in.Group {
		m["chat"] = group(object{"id": atoi(t, in.Chat), "is_forum": true})
	}
	if in.Thread != "" {
		m["message_thread_id"], m["is_topic_message"] = atoi(t, in.Thread), true
	}
	if in.Mentioned {
		m["text"] = "@" + telegramtest.BotName + " " + in.Text
		m["entities"] = []object{{"type": "mention", "offset": 0, "length": 1 + len(telegramtest.BotName)}}
	}
	if in.File != "" {
		delete(m, "text")
		m["caption"] = in.Text
		id := fake.Store("documents/"+in.ID+".txt", []byte("content of "+in.File))
		m["document"] = object{"file_id": id, "file_unique_id": id, "file_name": in.File}
	}
	return m
}

func seen(fake *telegramtest.Server) []chattest.Seen {
	var out []chattest.Seen
	for _, m := range fake.Messages(0) {
		s := chattest.Seen{Chat: strconv.FormatInt(m.ChatID, 10), Text: m.Plain}
		if m.Thread != 0 {
			s.Thread = strconv.FormatInt(m.Thread, 10)
		}
		if m.File != nil {
			s.Files = []string{m.File.Name}
		}
		out = append(out, s)
	}
	return out
}
