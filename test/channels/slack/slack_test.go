// Package slack certifies our fake of Slack by Slack's own libraries.
package slack

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

// when waits for something that a script does, while the script runs.
func when(t *testing.T, fake *slacktest.Server, ready func() bool) bool {
	t.Helper()
	for {
		changed := fake.Changed()
		if ready() {
			return true
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			return false
		}
	}
}

// said is what the client wrote in a conversation.
func said(fake *slacktest.Server, channel string) []string {
	var out []string
	for _, m := range fake.Messages(channel) {
		out = append(out, m.Plain)
	}
	return out
}

// talk lets people do one of each thing that a bot receives.
func talk(t *testing.T, fake *slacktest.Server) {
	t.Helper()
	file := fake.Store("in.txt", "text/plain", []byte("in"))
	fake.Post(map[string]any{"user": "U0ANN", "channel": fake.DM("U0ANN"), "text": "hi", "subtype": "file_share", "files": []any{file}})
	ts := fake.Post(map[string]any{"user": "U0ANN", "channel": "C0GEN", "text": "<@" + slacktest.BotUser + "> go"})
	ok := when(t, fake, func() bool { return slices.Contains(said(fake, "C0GEN"), "**choose**") })
	if !ok {
		return
	}
	for _, m := range fake.Messages("C0GEN") {
		if m.Thread != ts {
			t.Errorf("the library answered in the thread %q, want %q", m.Thread, ts)
		}
		fake.Tap("U0ANN", "C0GEN", m.TS, "pick", "one")
	}
	fake.Slash("U0ANN", "C0GEN", "/new", "please")
}

// understood is what bolt prints.
type understood struct {
	Got []map[string]any `json:"got"`
	API *struct {
		OK     []any    `json:"ok"`
		Who    string   `json:"who"`
		Errors []string `json:"errors"`
	} `json:"api"`
}

// bolt runs the script in a mode while people talk.
func bolt(t *testing.T, mode string) (*slacktest.Server, understood) {
	t.Helper()
	fake := slacktest.New()
	t.Cleanup(fake.Close)
	people := make(chan struct{})
	go func() {
		defer close(people)
		if mode == "socket" {
			if when(t, fake, func() bool { return fake.Connected() > 0 }) {
				talk(t, fake)
			}
			return
		}
		var port string
		found := when(t, fake, func() bool {
			for _, s := range said(fake, "G0SEC") {
				port, _ = strings.CutPrefix(s, "listening ")
			}
			return port != ""
		})
		if found {
			fake.Hook("http://127.0.0.1:" + port + "/slack/events")
			talk(t, fake)
		}
	}()
	out := certify.Script(t, ".", "bolt.mjs", mode, fake.URL(), slacktest.BotToken, slacktest.AppToken, slacktest.SigningSecret)
	<-people
	var u understood
	if err := json.Unmarshal(out, &u); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	slices.SortFunc(u.Got, func(a, b map[string]any) int { return strings.Compare(line(a), line(b)) })
	return fake, u
}

func line(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestBolt(t *testing.T) { // one mode after the other: both install the same libraries
	for _, mode := range []string{"socket", "http"} {
		t.Run(mode, func(t *testing.T) {
			fake, u := bolt(t, mode)
			want := []string{
				`{"action":"one","thread":true,"user":"U0ANN"}`,
				`{"command":"/new","text":"please","user":"U0ANN"}`,
				`{"files":["in.txt"],"kind":"im","message":"hi","user":"U0ANN"}`,
				`{"files":[],"kind":"channel","message":"\u003c@U0BOT\u003e go","user":"U0ANN"}`,
				`{"mention":"\u003c@U0BOT\u003e go","user":"U0ANN"}`,
			}
			var got []string
			for _, g := range u.Got {
				got = append(got, line(g))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("bolt received (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]string{"bolt heard hi"}, said(fake, fake.DM("U0ANN"))); d != "" {
				t.Errorf("bolt answered (-want +got):\n%s", d)
			}
			if mode == "socket" {
				webAPI(t, fake, u)
			}
		})
	}
}

func webAPI(t *testing.T, fake *slacktest.Server, u understood) {
	t.Helper()
	if got, want := line(u.API.OK), `[2,["general","outside","secret"],"D0ANN"]`; got != want {
		t.Errorf("bolt read %s, want %s", got, want)
	}
	if u.API.Who != slacktest.BotUser {
		t.Errorf("auth.test says %q", u.API.Who)
	}
	want := []string{"channel_not_found", "not_in_channel", "thread_not_found", "msg_blocks_too_long", "already_reacted", "invalid_auth", "not_allowed_token_type"}
	if d := cmp.Diff(want, u.API.Errors); d != "" {
		t.Errorf("refusals (-want +got):\n%s", d)
	}
	all := fake.Messages("C0GEN")
	last := all[len(all)-1]
	if last.Plain != "a file" || len(last.Files) != 1 || string(last.Files[0].Data) != "hello" || last.Thread == "" {
		t.Errorf("the uploaded file is %+v", last)
	}
	if fake.Pending() != 0 {
		t.Errorf("%d events are not acknowledged", fake.Pending())
	}
}

func TestPythonSDK(t *testing.T) {
	t.Parallel()
	fake := slacktest.New()
	t.Cleanup(fake.Close)
	people := make(chan struct{})
	go func() {
		defer close(people)
		if when(t, fake, func() bool { return slices.Contains(said(fake, "G0SEC"), "connected") && fake.Connected() > 0 }) {
			fake.Say("U0ANN", "hi")
		}
	}()
	const body = `{"type":"event_callback"}`
	signed := slacktest.Sign([]byte(body), time.Now())
	out := certify.Script(t, ".", "client.py", fake.URL(), slacktest.BotToken, slacktest.AppToken, slacktest.SigningSecret,
		body, signed.Get("X-Slack-Request-Timestamp"), signed.Get("X-Slack-Signature"))
	<-people

	var got any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]any{
		"got": []any{map[string]any{"event": "message", "text": "hi", "id": "Ev"}},
		"who": slacktest.BotUser, "scopes": true, "text": "x", "file": "F", "people": []any{slacktest.BotName, "ann", "eve"},
		"history": 2.0, "signed": true, "forged": false,
		"errors": []any{"message_not_found", "thread_not_found", "user_not_found", "msg_too_long", "msg_too_long"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the library understood (-want +got):\n%s", d)
	}
}
