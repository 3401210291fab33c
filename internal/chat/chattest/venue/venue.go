// Package venue has the fakes of chat platforms behind one face: people who
// write to a bot in direct chats, what they see, and what can go wrong.
package venue

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/line"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

// Venue is a chat platform with direct chats, which are counted from 0.
type Venue struct {
	Name    string
	Section map[string]any        // of the configuration
	Once    bool                  // it honours keys: nothing may stand there twice
	Line    *line.Line            // nil: it cannot hang
	ID      func(chat int) string // of a chat
	Say     func(chat int, text string)
	Shown   func(chat int) []Message // what the bot said, in order, as it is now
	Spoil   []func()                 // one mishap each
	Cut     func()                   // ends the connections
	Ready   func() bool              // the bot is there for the first time
	Broken  func() []string          // rules of the platform that the bot broke; nil: it has none of its own
	Close   func()
}

// Message is one of the bot.
type Message struct {
	ID, Text string
	Made     time.Time // zero if the platform honours keys and does not say
	Lost     bool      // the bot was not told, on purpose
}

// Telegram has people from 1000 on.
func Telegram(int) *Venue {
	fake := telegramtest.New()
	fail := func(f telegramtest.Failure) func() { return func() { fake.Fail(f) } }
	return &Venue{
		Name:    "telegram",
		Section: map[string]any{"token": telegramtest.Token, "apiBase": fake.URL(), "allowFrom": []string{"*"}},
		Line:    &fake.Line,
		ID:      func(chat int) string { return strconv.Itoa(1000 + chat) },
		Say:     func(chat int, text string) { fake.Say(int64(1000+chat), text) },
		Shown: func(chat int) (out []Message) {
			for _, m := range fake.Messages(int64(1000 + chat)) {
				out = append(out, Message{ID: strconv.FormatInt(m.ID, 10), Text: m.Plain, Made: m.Made, Lost: m.Lost})
			}
			return out
		},
		Spoil: []func(){
			fail(telegramtest.Failure{Method: "sendMessage", Code: 429, RetryAfter: 1}),
			fail(telegramtest.Failure{Method: "sendMessage", Code: 500, Text: "Internal Server Error"}),
			fail(telegramtest.Failure{Method: "sendMessage", After: true}),
			fail(telegramtest.Failure{Method: "editMessageText", Code: 500, Text: "Internal Server Error"}),
		},
		Cut:   fake.CutAll,
		Ready: func() bool { return true },
		Close: fake.Close,
	}
}

// Slack has so many people beside the usual ones.
func Slack(chats int) *Venue {
	fake := slacktest.New()
	who := func(chat int) string { return fmt.Sprintf("U0P%d", chat) }
	var people []slacktest.Person
	for c := range chats {
		people = append(people, slacktest.Person{ID: who(c), Handle: strings.ToLower(who(c)), Name: who(c)})
	}

	fake.Join(people)
	fail := func(f slacktest.Failure) func() { return func() { fake.Fail(f) } }
	return &Venue{
		Name:    "slack",
		Section: map[string]any{"botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "apiBase": fake.URL(), "allowFrom": []string{"*"}},
		Line:    &fake.Line,
		ID:      func(chat int) string { return fake.DM(who(chat)) },
		Say:     func(chat int, text string) { fake.Say(who(chat), text) },
		Shown: func(chat int) (out []Message) {
			for _, m := range fake.Messages(fake.DM(who(chat))) {
				out = append(out, Message{ID: m.TS, Text: m.Plain, Made: m.Made, Lost: m.Lost})
			}
			return out
		},
		Spoil: []func(){
			fail(slacktest.Failure{Method: "chat.postMessage", Status: http.StatusTooManyRequests, RetryAfter: 1}),
			fail(slacktest.Failure{Method: "chat.postMessage", Status: http.StatusServiceUnavailable}),
			fail(slacktest.Failure{Method: "chat.postMessage", After: true}),
			fail(slacktest.Failure{Method: "chat.update", Status: http.StatusServiceUnavailable}),
		},
		Cut:   fake.Cut,
		Ready: func() bool { return fake.Connected() > 0 },
		Close: fake.Close,
	}
}

// Discord has people from 4200 on.
func Discord(chats int) *Venue {
	fake := discordtest.New()
	who := func(chat int) string { return strconv.Itoa(4200 + chat) }
	var people []string
	for c := range chats {
		people = append(people, who(c))
	}

	fail := func(f discordtest.Failure) func() { return func() { fake.Fail(f) } }
	return &Venue{
		Name:    "discord",
		Section: map[string]any{"token": discordtest.Token, "apiBase": fake.URL(), "allowFrom": people},
		Once:    true,
		Line:    &fake.Line,
		ID:      func(chat int) string { return fake.DM(who(chat)) },
		Say:     func(chat int, text string) { fake.Write(who(chat), fake.DM(who(chat)), text, nil) },
		Shown: func(chat int) (out []Message) {
			for _, m := range fake.Messages(fake.DM(who(chat))) {
				out = append(out, Message{ID: m.ID, Text: m.Text()})
			}
			return out
		},
		Spoil: []func(){
			fail(discordtest.Failure{Method: http.MethodPost, Path: "/channels", Status: 429, RetryAfter: 1}),
			fail(discordtest.Failure{Method: http.MethodPost, Path: "/channels", Status: 500}),
			fail(discordtest.Failure{Method: http.MethodPost, Path: "/channels", After: true}),
			fail(discordtest.Failure{Method: http.MethodPatch, Path: "/channels", Status: 500}),
		},
		Cut:   fake.Cut,
		Ready: func() bool { return fake.Connected() > 0 },
		Close: fake.Close,
	}
}

// Matrix has a room for every person.
func Matrix(chats int) *Venue {
	fake := matrixtest.New()
	who := func(chat int) string { return fmt.Sprintf("@p%d:%s", chat, matrixtest.Server) }
	room := func(chat int) string { return fmt.Sprintf("!r%d:%s", chat, matrixtest.Server) }
	for c := range chats {
		fake.Account(who(c), "pw")
		fake.Room(room(c), nil, who(c), matrixtest.Bot)
	}

	fail := func(f matrixtest.Failure) func() { return func() { fake.Fail(f) } }
	return &Venue{
		Name:    "matrix",
		Section: map[string]any{"homeserver": fake.URL(), "userId": matrixtest.Bot, "password": matrixtest.Password, "allowFrom": []string{"*"}, "streaming": true},
		Once:    true,
		Line:    &fake.Line,
		ID:      room,
		Say: func(chat int, text string) {
			fake.Say(matrixtest.Event{Room: room(chat), Sender: who(chat)}, matrixtest.Text(text))
		},
		Shown: func(chat int) (out []Message) {
			for _, m := range fake.Messages(matrixtest.Bot) {
				if m.Room == room(chat) {
					out = append(out, Message{ID: m.ID, Text: strings.TrimPrefix(m.Body, "* ")})
				}
			}
			return out
		},
		Spoil: []func(){
			fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/", Status: 429, Code: "M_LIMIT_EXCEEDED", Wait: time.Second}),
			fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/", Status: 500, Code: "M_UNKNOWN"}),
			fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/"}),
		},
		Cut:   fake.CutAll,
		Ready: func() bool { return len(fake.Calls("/sync")) > 1 }, // the first one only learns what is old
		Close: fake.Close,
	}
}

// Mattermost has people of names such as p0.
func Mattermost(int) *Venue {
	fake := mattermosttest.New()
	who := func(chat int) string { return mattermosttest.ID(fmt.Sprintf("p%dq", chat)) }
	fail := func(f mattermosttest.Failure) func() { return func() { fake.Fail(f) } }
	return &Venue{
		Name:    "mattermost",
		Section: map[string]any{"serverUrl": fake.URL(), "token": mattermosttest.Token, "allowFrom": []string{"*"}},
		Once:    true,
		Line:    &fake.Line,
		ID:      func(chat int) string { return fake.Direct(who(chat)) },
		Say: func(chat int, text string) {
			fake.Say(mattermosttest.Post{UserID: who(chat), ChannelID: fake.Direct(who(chat)), Message: text})
		},
		Shown: func(chat int) (out []Message) {
			for _, p := range fake.Posts(fake.Direct(who(chat))) {
				out = append(out, Message{ID: p.ID, Text: p.Message})
			}
			return out
		},
		Spoil: []func(){
			fail(mattermosttest.Failure{Name: "POST /posts", Code: 429, RetryAfter: 1}),
			fail(mattermosttest.Failure{Name: "POST /posts", Code: 500}),
			fail(mattermosttest.Failure{Name: "POST /posts", After: true}),
			fail(mattermosttest.Failure{Name: "PUT /posts/{post}/patch", Code: 500}),
		},
		Cut:   fake.Cut,
		Ready: func() bool { return fake.Connected() > 0 },
		Close: fake.Close,
	}
}

// Five returns those whose calls can hang, with so many chats each.
func Five(chats int) []*Venue {
	return []*Venue{Telegram(chats), Slack(chats), Discord(chats), Mattermost(chats), Matrix(chats)}
}
