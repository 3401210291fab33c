package matrix

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

const (
	ann      = "@ann:" + matrixtest.Server
	mallory  = "@mallory:" + matrixtest.Server
	annRoom  = "!ann:" + matrixtest.Server
	malRoom  = "!mallory:" + matrixtest.Server
	teamRoom = "!team:" + matrixtest.Server
)

// home is a homeserver with the rooms that most tests use.
func home(t *testing.T) *matrixtest.Home {
	t.Helper()
	return homeOf(t, matrixtest.Bot)
}

// homeOf is the same of another bot.
func homeOf(t *testing.T, self string) *matrixtest.Home {
	t.Helper()
	h := matrixtest.New()
	h.Account(self, matrixtest.Password)
	t.Cleanup(h.Close)
	h.Account(ann, "ann's")
	h.Account(mallory, "mallory's")
	h.Room(annRoom, nil, ann, self)
	h.Room(malRoom, nil, mallory, self)
	h.Room(teamRoom, nil, ann, mallory, self)
	return h
}

// section is the configuration for a homeserver, with changes.
func section(t *testing.T, h *matrixtest.Home, changes any) json.RawMessage {
	t.Helper()
	all := map[string]any{
		"enabled": true, "homeserver": h.URL(), "userId": matrixtest.Bot, "password": matrixtest.Password, "allowFrom": []string{ann},
	}
	data, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	more := map[string]any{}
	if err := json.Unmarshal(data, &more); err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, more)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil || v == "" })
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		f, second := fixture(t, home(t), matrixtest.Bot), fixture(t, homeOf(t, otherBot), otherBot)
		f.Second = &second
		return f
	})
}

const otherBot = "@nanobot2:" + matrixtest.Server

// fixture is a bot at a homeserver of its own.
func fixture(t *testing.T, fake *matrixtest.Home, self string) chattest.Fixture {
	t.Helper()
	fake.Say(matrixtest.Event{ID: "$root", Room: teamRoom, Sender: ann}, matrixtest.Text("a topic"))
	fail := func(f matrixtest.Failure) func() {
		f.Method, f.Path = http.MethodPut, "/send/"
		return func() { fake.Fail(f) }
	}
	on := true
	return chattest.Fixture{
		Driver: Driver(),
		Hasten: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.trouble = 50 * time.Millisecond
			}
		},
		Section: func(c chat.Common) json.RawMessage {
			c.Streaming, c.GroupPolicy = &on, access.Mention
			if c.MaxMediaBytes == 0 {
				c.MaxMediaBytes = maxMedia
			}
			return section(t, fake, struct {
				chat.Common
				UserID string `json:"userId"`
			}{c, self})
		},
		Owner: ann, Stranger: mallory, Group: teamRoom, Thread: "$root",
		Chat: func(sender string) string {
			if sender == ann {
				return annRoom
			}
			return malRoom
		},
		Pose: func(_ *testing.T, in chattest.In, name string) {
			local, _, _ := strings.Cut(name, ":")
			who, where := local+":elsewhere.example", "!pose:example.org"
			fake.Room(where, nil, who, self)
			fake.Say(matrixtest.Event{ID: "$" + in.ID, Room: where, Sender: who, At: time.Now().UnixMilli()}, matrixtest.Text(in.Text))
		},
		Deliver: func(t *testing.T, in chattest.In) { inject(t, fake, in, 0) },
		Backlog: func(t *testing.T, in chattest.In, age time.Duration) { inject(t, fake, in, age) },
		Idle:    func() int { return fake.Idle(self) },
		Seen:    func() []chattest.Seen { return seen(fake, self) },
		Touched: func() int {
			return len(fake.Calls("/download/")) + len(fake.Calls("/typing/")) + len(fake.Calls("/receipt/"))
		},
		Limit: func(after time.Duration) {
			fake.Fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/", Status: 429, Code: "M_LIMIT_EXCEEDED", Wait: after})
		},
		Break:   fail(matrixtest.Failure{Status: 500, Code: "M_UNKNOWN"}),
		Refuse:  fail(matrixtest.Failure{Status: 403, Code: "M_FORBIDDEN"}),
		Cut:     fake.CutAll,
		Streams: true, Repeats: true, MediaLimit: true, AnyName: true,
		Typing: func(chatID, _ string) (n int, on bool) {
			for _, c := range fake.Calls("/typing/") {
				if strings.Contains(c.Path, chatID) && strings.Contains(string(c.Body), "true") {
					n++
				}
			}
			return n, fake.Typing(chatID, self)
		},
		Frame: func(_ *testing.T, frame []byte) {
			if json.Valid(frame) {
				fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, json.RawMessage(frame))
				return
			}
			fake.Fail(matrixtest.Failure{Method: http.MethodGet, Path: "/sync", Status: http.StatusOK, Body: string(frame)})
		},
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.pollFor, b.silence = time.Second, 3*time.Second
			}
		},
		Lacks: map[string]string{
			"Marks": "a receipt says how far we read; it is not taken away",
			"Tap":   "Matrix has no buttons",
			"Acked": "the homeserver keeps everything: how far we read is our own note",
			"Forge": "we ask for news: there is no address to forge any at",
			"Alias": "Matrix knows a person by one id",
		},
	}
}

func inject(t *testing.T, fake *matrixtest.Home, in chattest.In, age time.Duration) {
	t.Helper()
	c := matrixtest.Text(in.Text)
	if in.File != "" {
		c = matrixtest.Object{
			"msgtype": "m.file", "body": in.Text, "filename": in.File, "url": fake.Store("text/plain", []byte("content of "+in.File)),
			"info": matrixtest.Object{"size": len("content of " + in.File)},
		}
	}
	if in.Mentioned {
		c["m.mentions"] = matrixtest.Object{"user_ids": []string{matrixtest.Bot}}
	}
	if in.Thread != "" {
		c["m.relates_to"] = matrixtest.Object{"rel_type": "m.thread", "event_id": in.Thread}
	}
	fake.Say(matrixtest.Event{ID: "$" + in.ID, Room: in.Chat, Sender: in.Sender, At: time.Now().Add(-age).UnixMilli()}, c)
}

func seen(fake *matrixtest.Home, self string) []chattest.Seen {
	var out []chattest.Seen
	for _, m := range fake.Messages(self) {
		s := chattest.Seen{Chat: m.Room, Thread: m.Thread, Text: m.Body}
		if m.File != "" {
			s.Files, s.Text = []string{m.File}, ""
		}
		out = append(out, s)
	}
	return out
}
