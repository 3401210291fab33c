package matrix

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/matrixtest"
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
	h := matrixtest.New()
	t.Cleanup(h.Close)
	h.Account(ann, "ann's")
	h.Account(mallory, "mallory's")
	h.Room(annRoom, nil, ann, matrixtest.Bot)
	h.Room(malRoom, nil, mallory, matrixtest.Bot)
	h.Room(teamRoom, nil, ann, mallory, matrixtest.Bot)
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
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture {
		fake := home(t)
		fail := func(f matrixtest.Failure) func() {
			f.Method, f.Path = http.MethodPut, "/send/"
			return func() { fake.Fail(f) }
		}
		on := true
		return channeltest.Fixture{
			Driver: Driver(),
			Section: func(c channel.Common) json.RawMessage {
				c.Streaming, c.GroupPolicy, c.MaxMediaBytes = &on, channel.Mention, maxMedia
				return section(t, fake, c)
			},
			Options: func(o *channel.Options) {
				o.Client = func(string) (*http.Client, error) {
					transport := &http.Transport{}
					t.Cleanup(transport.CloseIdleConnections)
					return &http.Client{Transport: transport}, nil
				}
			},
			Owner: ann, Stranger: mallory, Group: teamRoom,
			Chat: func(sender string) string {
				if sender == ann {
					return annRoom
				}
				return malRoom
			},
			Deliver: func(t *testing.T, in channeltest.In) { deliver(t, fake, in) },
			Seen:    func() []channeltest.Seen { return seen(fake) },
			Touched: func() int {
				return len(fake.Calls("/download/")) + len(fake.Calls("/typing/")) + len(fake.Calls("/receipt/"))
			},
			Limit: func(after time.Duration) {
				fake.Fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/", Status: 429, Code: "M_LIMIT_EXCEEDED", Wait: after})
			},
			Break:   fail(matrixtest.Failure{Status: 500, Code: "M_UNKNOWN"}),
			Refuse:  fail(matrixtest.Failure{Status: 403, Code: "M_FORBIDDEN"}),
			Cut:     fake.CutAll,
			Streams: true, Repeats: true,
		}
	})
}

func deliver(t *testing.T, fake *matrixtest.Home, in channeltest.In) {
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
	fake.Say(matrixtest.Event{ID: "$" + in.ID, Room: in.Chat, Sender: in.Sender}, c)
}

func seen(fake *matrixtest.Home) []channeltest.Seen {
	var out []channeltest.Seen
	for _, m := range fake.Messages(matrixtest.Bot) {
		s := channeltest.Seen{Chat: m.Room, Thread: m.Thread, Text: m.Body}
		if m.File != "" {
			s.Files, s.Text = []string{m.File}, ""
		}
		out = append(out, s)
	}
	return out
}
