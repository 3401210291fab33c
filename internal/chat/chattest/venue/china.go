package venue

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

// Feishu has people of ids such as ou_p0.
func Feishu(int) *Venue {
	fake := feishutest.New()
	who := func(chat int) string { return fmt.Sprintf("ou_p%d", chat) }
	room := func(chat int) string { return "oc_p2p_" + who(chat) }
	fail := func(f feishutest.Failure) func() { return func() { fake.Fail(f) } }
	return &Venue{
		Name:    "feishu",
		Section: map[string]any{"appId": feishutest.AppID, "appSecret": feishutest.AppSecret, "apiBaseUrl": fake.URL(), "allowFrom": []string{"*"}},
		Once:    true,
		ID:      who,
		Say: func(chat int, text string) {
			fake.Say(feishutest.Message{Sender: who(chat), Chat: room(chat), Content: feishutest.Text(text)})
		},
		Shown: func(chat int) (out []Message) {
			for _, m := range fake.Messages(room(chat)) {
				out = append(out, Message{ID: m.ID, Text: m.Plain, Made: m.At})
			}
			return out
		},
		Spoil: []func(){
			fail(feishutest.Failure{Status: http.StatusTooManyRequests, Code: 99991400, Msg: "request trigger frequency limit"}),
			fail(feishutest.Failure{Status: http.StatusInternalServerError, Code: 2200, Msg: "internal error"}),
			fail(feishutest.Failure{After: true}),
			fail(feishutest.Failure{Name: "POST /open-apis/cardkit/v1/cards", After: true}),
			fail(feishutest.Failure{Name: "PUT /open-apis/cardkit/v1/cards/{card}/elements/{elem}/content", After: true}),
		},
		Cut:    fake.Cut,
		Ready:  func() bool { return fake.Connected() > 0 },
		Broken: fake.Wrong,
		Close:  fake.Close,
	}
}

// QQ has people of ids such as P0.
func QQ(int) *Venue {
	fake := qqtest.New()
	who := func(chat int) string { return fmt.Sprintf("P%d", chat) }
	fail := func(f qqtest.Failure) func() {
		f.Method, f.Path = http.MethodPost, "/messages"
		return func() { fake.Fail(f) }
	}
	return &Venue{
		Name:    "qq",
		Section: map[string]any{"appId": qqtest.AppID, "secret": qqtest.Secret, "apiBaseUrl": fake.URL(), "tokenBaseUrl": fake.URL(), "allowFrom": []string{"*"}},
		Once:    true,
		ID:      who,
		Say:     func(chat int, text string) { fake.Write(qqtest.Direct, who(chat), who(chat), text, nil) },
		Shown: func(chat int) (out []Message) {
			for _, m := range fake.Messages() {
				if m.Kind == qqtest.Direct && m.Chat == who(chat) {
					out = append(out, Message{ID: m.ID, Text: m.Text()})
				}
			}
			return out
		},
		Spoil: []func(){
			fail(qqtest.Failure{Status: http.StatusTooManyRequests, Code: 22009, Text: "msg limit exceed", RetryAfter: 1}),
			fail(qqtest.Failure{Status: http.StatusInternalServerError, Text: "internal error"}),
			fail(qqtest.Failure{After: true}),
			fail(qqtest.Failure{Status: http.StatusBadGateway, Garbage: true, After: true}),
		},
		Cut:   fake.Cut,
		Ready: func() bool { return fake.Connected() > 0 },
		Broken: func() (out []string) {
			for _, rule := range fake.Broken() {
				if !strings.HasSuffix(rule, " again") { // a number that comes again is how a retry is told from another reply
					out = append(out, rule)
				}
			}
			return out
		},
		Close: fake.Close,
	}
}

// Weixin has people of ids such as p0@im.wechat.
func Weixin(int) *Venue {
	fake := weixintest.New()
	who := func(chat int) string { return fmt.Sprintf("p%d@im.wechat", chat) }
	fail := func(f weixintest.Failure) func() { return func() { fake.Fail(f) } }
	return &Venue{
		Name:    "weixin",
		Section: map[string]any{"baseUrl": fake.URL(), "cdnBaseUrl": fake.CDN(), "token": weixintest.Token, "allowFrom": []string{"*"}},
		ID:      who,
		Say:     func(chat int, text string) { fake.Say(who(chat), text) },
		Shown: func(chat int) (out []Message) {
			for _, m := range fake.Messages() {
				if m.To == who(chat) {
					out = append(out, Message{ID: m.ID, Text: m.Text, Made: m.Made, Lost: m.Lost})
				}
			}
			return out
		},
		Spoil: []func(){
			fail(weixintest.Failure{Status: http.StatusTooManyRequests, After: 1}),
			fail(weixintest.Failure{Status: http.StatusInternalServerError}),
			fail(weixintest.Failure{Cut: true, Done: true}),
			fail(weixintest.Failure{Path: "getupdates", Status: http.StatusBadGateway}),
		},
		Cut:   fake.Drop,
		Ready: func() bool { return len(fake.Calls("msg/notifystart")) > 0 },
		Broken: func() []string {
			if n := fake.Over(); n > 0 {
				return []string{fmt.Sprintf("%d messages over the budget of their context tokens", n)}
			}
			return nil
		},
		Close: fake.Close,
	}
}

// Eight returns the Five and the platforms of China, with so many chats each.
func Eight(chats int) []*Venue {
	return append(Five(chats), Feishu(chats), QQ(chats), Weixin(chats))
}
