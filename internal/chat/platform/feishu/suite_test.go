package feishu

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		one := fixture(t, feishutest.AppID, nil)
		two := fixture(t, "cli_second", nil)
		one.Second = &two.Fixture
		return one.Fixture
	})
}

// The same by requests of Feishu, on the gateway's listener.
func TestSuiteWebhook(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		var served atomic.Pointer[http.Handler]
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*served.Load()).ServeHTTP(w, r) }))
		t.Cleanup(front.Close)
		f := fixture(t, feishutest.AppID, map[string]any{"mode": "webhook", "encryptKey": feishutest.EncryptKey, "verificationToken": feishutest.VerificationToken})
		f.Serve = func(h http.Handler) { served.Store(&h) }
		f.Cut, f.Impatient = nil, nil
		delete(f.Lacks, "Forge")
		f.Lacks["Cut"] = "Feishu makes a request for each event"
		f.Lacks["Impatient"] = f.Lacks["Cut"]
		f.Lacks["Second"] = "the suite of the long connection has two"
		f.hook(front.URL + "/feishu")
		f.Frame = func(t *testing.T, frame []byte) {
			t.Helper()
			body, header := feishutest.Seal(frame, true, time.Now())
			post(t, front.URL+"/feishu", body, header)
		}
		f.Forge = func(t *testing.T, in chattest.In) {
			t.Helper()
			payload := []byte(`{"schema":"2.0","header":{"event_id":"x","event_type":"im.message.receive_v1","app_id":"` + feishutest.AppID + `","token":"` + feishutest.VerificationToken + `"},"event":{"sender":{"sender_id":{"open_id":"` +
				in.Sender + `"},"sender_type":"user"},"message":{"message_id":"om_forged","chat_id":"` + in.Chat + `","chat_type":"p2p","message_type":"text","content":"{\"text\":\"obey\"}"}}}`)
			plain, _ := feishutest.Seal(payload, false, time.Now())
			if code := post(t, front.URL+"/feishu", plain, http.Header{}); code != http.StatusUnauthorized {
				t.Errorf("a plain event is answered with %d", code)
			}
			sealed, header := feishutest.Seal(payload, true, time.Now())
			header.Set("X-Lark-Signature", strings.Repeat("0", 64))
			if code := post(t, front.URL+"/feishu", sealed, header); code != http.StatusUnauthorized {
				t.Errorf("an event with a wrong signature is answered with %d", code)
			}
		}
		return f.Fixture
	})
}

// hooked is a fixture whose fake is known.
type hooked struct {
	chattest.Fixture
	fake *feishutest.Server
}

func (f *hooked) hook(address string) { f.fake.Hook(address, true) }

func post(t *testing.T, address string, body []byte, header http.Header) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func fixture(t *testing.T, app string, changes map[string]any) (f hooked) {
	t.Helper()
	fake := feishutest.NewApp(app)
	t.Cleanup(fake.Close)
	f.fake = fake
	f.Fixture = chattest.Fixture{
		Driver: Driver(),
		Section: func(c chat.Common) json.RawMessage {
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]any{"appId": app}
			if err := json.Unmarshal(data, &all); err != nil {
				t.Fatal(err)
			}
			maps.Copy(all, changes)
			all["appId"] = app
			return section(t, fake, all)
		},
		Owner: feishutest.AnnID, Stranger: "ou_mallory", Group: feishutest.GroupID, Thread: feishutest.ThreadRoot,
		Chat: func(sender string) string { return "oc_p2p_" + sender },
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Say(feishutest.Message{ID: "om_" + in.ID, Sender: in.Sender, UserID: name, Chat: in.Chat, Content: feishutest.Text(in.Text)})
		},
		Deliver: func(_ *testing.T, in chattest.In) { inject(fake, in) },
		Idle:    fake.Idle,
		Seen: func() []chattest.Seen {
			var out []chattest.Seen
			for _, m := range fake.Messages("") {
				s := chattest.Seen{Chat: m.Chat, Text: m.Plain}
				if m.Thread != "" {
					s.Thread = m.Root
				}
				if m.File != "" {
					s.Files = []string{m.File}
				}
				out = append(out, s)
			}
			return out
		},
		Touched: func() int {
			n := 0
			for _, c := range fake.Calls("") {
				if strings.Contains(c.Name, "reactions") || strings.Contains(c.Name, "resources") || c.Name == "GET /open-apis/im/v1/messages/{id}" {
					n++
				}
			}
			return n
		},
		Limit:      func(time.Duration) { fake.Fail(feishutest.Failure{Code: codeChatRate, Msg: "frequency limit"}) },
		Break:      func() { fake.Fail(feishutest.Failure{Status: 500, Code: 2200, Msg: "internal error"}) },
		Refuse:     func() { fake.Fail(feishutest.Failure{Code: 230002, Msg: "Bot/User can NOT be out of the chat."}) },
		Cut:        fake.Cut,
		Streams:    true,
		Repeats:    true,
		MediaLimit: true,
		AnyName:    true,
		Tap: func(t *testing.T, chatID, label string) {
			t.Helper()
			for _, m := range slices.Backward(fake.Messages(chatID)) {
				if slices.Contains(m.Buttons, label) {
					if got := fake.Press(m.ID, feishutest.AnnID, label); !got.Updated {
						t.Errorf("people see %+v", got)
					}
					return
				}
			}
			t.Errorf("there is no button %s", label)
		},
		Marks: func(_, id string) []string { return fake.Reactions("om_" + id) },
		Acked: func(id string) bool { return fake.Acked("om_" + id) },
		Frame: func(_ *testing.T, frame []byte) {
			fake.Raw(frame)
			fake.Data(frame)
		},
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.silence = 3 * time.Second
			}
		},
		Lacks: map[string]string{
			"Typing":  "Feishu does not show that a bot writes",
			"Forge":   "we open the long connection: there is no address to forge an event at",
			"Backlog": "Feishu repeats an event until it is acknowledged; no history is read",
			"Alias":   "every event has the same id of a person, besides others",
		},
	}
	return f
}

func inject(fake *feishutest.Server, in chattest.In) {
	m := feishutest.Message{ID: "om_" + in.ID, Sender: in.Sender, Chat: in.Chat, Content: feishutest.Text(in.Text)}
	if in.Thread != "" {
		m.Thread, m.Root, m.Parent = "omt_root", in.Thread, in.Thread
	}
	if in.Mentioned {
		m.Content, m.Mentions = feishutest.Text("@_user_1 "+in.Text), named()
	}
	if in.File != "" {
		key := fake.Store(in.File, []byte("content of "+in.File))
		words, _ := json.Marshal([]any{[]any{map[string]any{"tag": "text", "text": in.Text}}, []any{map[string]any{"tag": "media", "file_key": key, "file_name": in.File}}})
		m.Type, m.Content = "post", `{"title":"","content":`+string(words)+`}`
	}
	fake.Say(m)
}
