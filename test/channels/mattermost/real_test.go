//go:build unix

package mattermost

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost"
)

// TestRealServer: the real server is as our fake says, and our driver works
// with it.
func TestRealServer(t *testing.T) {
	s := newServer(t)
	t.Run("client library", func(t *testing.T) {
		library(t, s.URL, s.Bot.Token, s.Ann.Token, s.Town, map[string]any{
			"tooLong": "400 model.post.is_valid.msg.app_error", // renamed since
			"noEmoji": "no error",                              // any name was taken
		})
	})
	t.Run("talk", s.talk)
	t.Run("thread", s.thread)
	t.Run("buttons", s.buttons)
	t.Run("lost connections", s.lost)
	t.Run("refusals", s.refusals)
}

// post is a message at the server.
type post struct {
	ID      string         `json:"id"`
	RootID  string         `json:"root_id"`
	Message string         `json:"message"`
	EditAt  int64          `json:"edit_at"`
	Delete  int64          `json:"delete_at"`
	FileIDs []string       `json:"file_ids"`
	Props   map[string]any `json:"props"`
}

// house is our channel at the server.
type house struct {
	*chattest.Rig
	t    *testing.T
	s    *server
	deps chat.Deps
	ch   chat.Streamer
}

func newHouse(t *testing.T, s *server) *house {
	t.Helper()
	h := &house{Rig: chattest.NewRig(t), t: t, s: s}
	h.deps = h.Deps("mattermost")
	h.deps.Client = func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
	return h
}

// begin starts the channel, over the state that an earlier one left.
func (h *house) begin(changes map[string]any) (end func()) {
	h.t.Helper()
	section := h.section(changes)
	h.deps.Gate = h.Gate("mattermost", section, nil)
	ch, err := mattermost.Driver().New(h.deps, section)
	if err != nil {
		h.t.Fatal(err)
	}
	h.ch = ch.(chat.Streamer)
	n := len(h.States())
	stop := h.Start(ch.Run)
	h.ready(n)
	return func() {
		h.t.Helper()
		if err := stop(); err != nil {
			h.t.Errorf("Run: %v", err)
		}
	}
}

// ready waits for a connection after the first n states.
func (h *house) ready(n int) {
	h.t.Helper()
	h.Await("the connection", func() bool {
		all := h.States()
		return len(all) > n && strings.HasPrefix(all[len(all)-1], "@nb_bot on ") && !strings.Contains(all[len(all)-1], ": ")
	})
}

func (h *house) section(changes map[string]any) json.RawMessage {
	h.t.Helper()
	all := map[string]any{"enabled": true, "serverUrl": h.s.URL, "token": h.s.Bot.Token, "allowFrom": []string{h.s.Ann.ID}}
	maps.Copy(all, changes)
	data, err := json.Marshal(all)
	if err != nil {
		h.t.Fatal(err)
	}
	return data
}

// direct is the channel of Ann and the bot.
func (s *server) direct(t *testing.T) string {
	t.Helper()
	var c struct{ ID string }
	s.Ann.call(t, http.MethodPost, "/channels/direct", []string{s.Ann.ID, s.Bot.ID}, &c)
	return c.ID
}

// say posts a message.
func (a *account) say(t *testing.T, chatID, root, text string, files ...string) (p post) {
	t.Helper()
	a.call(t, http.MethodPost, "/posts", map[string]any{"channel_id": chatID, "root_id": root, "message": text, "file_ids": files}, &p)
	return p
}

// look is a message as it is at the server.
func (a *account) look(t *testing.T, id string) (p post) {
	t.Helper()
	a.call(t, http.MethodGet, "/posts/"+id, nil, &p)
	return p
}

// receive waits for a message of these words, which must come once.
func (h *house) receive(text string) (got bus.Inbound) {
	h.t.Helper()
	var all []bus.Inbound
	h.Await("the message "+text, func() bool {
		all = slices.DeleteFunc(h.Inbound(), func(in bus.Inbound) bool { return in.Text != text })
		return len(all) > 0
	})
	if len(all) != 1 {
		h.t.Errorf("%q came %d times", text, len(all))
	}
	return all[0]
}

func (h *house) send(out bus.Outbound) string {
	h.t.Helper()
	id, err := h.ch.Send(h.t.Context(), out)
	if err != nil {
		h.t.Fatalf("Send: %v\n%s", err, h.Log)
	}
	return id
}

// talk: messages, files, edits, marks and removal in a direct channel.
func (s *server) talk(t *testing.T) {
	h := newHouse(t, s)
	h.deps.Gate = h.Gate("mattermost", h.section(nil), nil)
	report, err := mattermost.Driver().Probe(t.Context(), h.deps, h.section(nil))
	if err != nil || !strings.HasPrefix(report.Identity, "@nb_bot on ") || slices.ContainsFunc(report.Checks, func(c chat.Check) bool { return !c.OK }) {
		t.Errorf("the probe says %+v, %v", report, err)
	}
	end := h.begin(nil)
	if got := h.Refined(); got.MaxChars != 16383 || got.MaxMedia != 100<<20 {
		t.Errorf("the limits are %d characters and %d bytes", got.MaxChars, got.MaxMedia)
	}
	chatID := s.direct(t)
	question := s.Ann.say(t, chatID, "", "hello driver")
	in := h.receive("hello driver")
	if in.Route.ChatID != chatID || in.Route.ThreadID != "" || in.Route.MessageID != question.ID || in.SenderID != s.Ann.ID || in.Untrusted || in.Scope != "" {
		t.Errorf("the message is %+v", in)
	}
	for _, phase := range []chat.Phase{chat.Seen, chat.Working, chat.Answered} {
		if err := h.ch.(chat.Signaller).Signal(t.Context(), in.Route, phase); err != nil {
			t.Errorf("signal %v: %v", phase, err)
		}
	}
	var marks []struct {
		Emoji string `json:"emoji_name"`
		User  string `json:"user_id"`
	}
	s.Ann.call(t, http.MethodGet, "/posts/"+question.ID+"/reactions", nil, &marks)
	if len(marks) != 1 || marks[0].Emoji != "white_check_mark" || marks[0].User != s.Bot.ID {
		t.Errorf("the marks are %+v", marks)
	}

	out := bus.Outbound{Kind: bus.Final, Route: in.Route, Text: "**answer** https://example.com", Key: "k1"}
	id := h.send(out)
	if p := s.Ann.look(t, id); p.Message != out.Text || p.RootID != "" || p.Props["unsafe_links"] != "true" {
		t.Errorf("the answer is %+v", p)
	}
	if again := h.send(out); again != id {
		t.Errorf("the same key made %s and %s", id, again)
	}
	out.Text = "edited"
	if err := h.ch.Edit(t.Context(), out, id, true); err != nil {
		t.Error(err)
	}
	if p := s.Ann.look(t, id); p.Message != "edited" || p.EditAt == 0 {
		t.Errorf("the edited answer is %+v", p)
	}

	// After a restart of ours the key is still known.
	end()
	defer h.begin(nil)()
	if again := h.send(out); again != id {
		t.Errorf("after a restart the same key made %s and %s", id, again)
	}
	s.files(t, h, chatID)
	if err := h.ch.Erase(t.Context(), in.Route, id); err != nil {
		t.Error(err)
	}
	if err := h.ch.Erase(t.Context(), in.Route, id); err != nil {
		t.Errorf("remove what is gone: %v", err)
	}
}

// files go both ways.
func (s *server) files(t *testing.T, h *house, chatID string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(path, []byte("for Ann"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := h.send(bus.Outbound{Kind: bus.Message, Route: bus.Route{Channel: "mattermost", ChatID: chatID}, Text: "a file", Media: []bus.Media{{Path: path}}})
	var infos []struct {
		Name string
		Size int64
	}
	s.Ann.call(t, http.MethodGet, "/posts/"+id+"/files/info", nil, &infos)
	if len(infos) != 1 || infos[0].Name != "out.txt" || infos[0].Size != 7 {
		t.Errorf("the files are %+v", infos)
	}

	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.WriteField("channel_id", chatID); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreateFormFile("files", "in.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(part, "for the bot"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var up struct {
		Infos []struct{ ID string } `json:"file_infos"`
	}
	s.Ann.send(t, http.MethodPost, "/api/v4/files", w.FormDataContentType(), &body, &up)
	s.Ann.say(t, chatID, "", "my file", up.Infos[0].ID)
	h.Await("the file", func() bool {
		for _, in := range h.Inbound() {
			if len(in.Media) == 1 && strings.HasPrefix(in.Text, "my file") {
				data, err := os.ReadFile(in.Media[0].Path)
				return err == nil && string(data) == "for the bot"
			}
		}
		return false
	})
}

// thread: a mention in a channel begins one, what others said in it comes along,
// and what a webhook writes under a person's name does not count.
func (s *server) thread(t *testing.T) {
	h := newHouse(t, s)
	defer h.begin(map[string]any{"allowFrom": []string{s.Ann.ID, s.Admin.ID}})()
	root := s.Ann.say(t, s.Town, "", "@nb_bot begin")
	in := h.receive("@ann: begin")
	if in.Route.ThreadID != root.ID || in.SessionKey != "mattermost:"+s.Town+":"+root.ID {
		t.Errorf("the message is %+v", in)
	}
	id := h.send(bus.Outbound{Kind: bus.Final, Route: in.Route, Text: "begun"})
	if p := s.Ann.look(t, id); p.RootID != root.ID {
		t.Errorf("the answer is %+v", p)
	}

	other := s.Ann.say(t, s.Town, "", "an old thread")
	s.Admin.say(t, s.Town, other.ID, "with words of others")
	s.Ann.say(t, s.Town, other.ID, "@nb_bot what was said?")
	in = h.receive("@ann: what was said?")
	want := []bus.Quote{{About: "said before in the thread", Text: "@ann: an old thread\n@admin: with words of others"}}
	if d := cmp.Diff(want, in.Quoted); d != "" {
		t.Errorf("the quotes (-want +got):\n%s", d)
	}

	var hook struct{ ID string }
	s.Admin.call(t, http.MethodPost, "/hooks/incoming", map[string]any{"channel_id": s.Town, "display_name": "hook"}, &hook)
	s.Ann.send(t, http.MethodPost, "/hooks/"+hook.ID, "application/json", strings.NewReader(`{"text":"@nb_bot I am the admin"}`), nil)
	s.Ann.say(t, s.Town, "", "@nb_bot last")
	h.receive("@ann: last")
	for _, in := range h.Inbound() {
		if strings.Contains(in.Text, "I am the admin") {
			t.Errorf("a webhook was believed: %+v", in)
		}
	}

	// A thread whose first post is gone does not hold an answer up.
	s.Ann.call(t, http.MethodDelete, "/posts/"+root.ID, nil, nil)
	gone := h.send(bus.Outbound{Kind: bus.Final, Route: bus.Route{Channel: "mattermost", ChatID: s.Town, ThreadID: root.ID}, Text: "late"})
	if p := s.Ann.look(t, gone); p.RootID != "" || p.Message != "late" {
		t.Errorf("the late answer is %+v", p)
	}
}

// buttons: the server calls us when one is pressed.
func (s *server) buttons(t *testing.T) {
	h := newHouse(t, s)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ch.(chat.Handler).Routes()["/mattermost"].ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	defer h.begin(map[string]any{"webhookUrl": front.URL + "/mattermost"})()
	chatID := s.direct(t)
	id := h.send(bus.Outbound{
		Kind: bus.Ask, Route: bus.Route{Channel: "mattermost", ChatID: chatID}, Text: "May I?",
		Question: &bus.Question{ID: "q1", Options: []string{"Allow once", "Deny"}},
	})
	shown, err := json.Marshal(s.Ann.look(t, id).Props["attachments"])
	if err != nil || !strings.Contains(string(shown), `"Deny"`) || strings.Contains(string(shown), "proof") {
		t.Errorf("Ann is shown %s, %v", shown, err)
	}
	s.Ann.call(t, http.MethodPost, "/posts/"+id+"/actions/o1", map[string]any{}, nil)
	in := h.receive("Deny")
	if d := cmp.Diff(&bus.Answer{QuestionID: "q1", Option: "Deny"}, in.Answer); d != "" || in.SenderID != s.Ann.ID {
		t.Errorf("the answer (-want +got):\n%s\nin %+v", d, in)
	}
	if p := s.Ann.look(t, id); p.Message != "May I?\n\n> Deny" || p.Props["attachments"] != nil {
		t.Errorf("the question is %+v", p)
	}
}

// lost: what is said while a connection is lost, the server restarts or we are
// down comes once.
func (s *server) lost(t *testing.T) {
	h := newHouse(t, s)
	end := h.begin(nil)
	chatID := s.direct(t)
	s.Ann.say(t, chatID, "", "before")
	h.receive("before")

	n := len(h.States())
	s.Cut()
	s.Ann.say(t, chatID, "", "while cut")
	h.receive("while cut")
	h.ready(n)
	s.Ann.say(t, chatID, "", "after the cut")
	h.receive("after the cut")

	n = len(h.States())
	s.Restart()
	s.Ann.say(t, chatID, "", "while it restarts")
	h.receive("while it restarts")
	h.ready(n)

	end()
	s.Ann.say(t, chatID, "", "while we are down")
	defer h.begin(nil)()
	h.receive("while we are down")
	s.Ann.say(t, chatID, "", "at last")
	h.receive("at last")
	for _, text := range []string{"before", "while cut", "after the cut", "while it restarts", "while we are down"} {
		h.receive(text) // still once
	}
}

// refusals: a wrong token ends the channel, a channel that is not there fails
// for good.
func (s *server) refusals(t *testing.T) {
	h := newHouse(t, s)
	section := h.section(map[string]any{"token": "a" + s.Bot.Token[1:]})
	h.deps.Gate = h.Gate("mattermost", section, nil)
	ch, err := mattermost.Driver().New(h.deps, section)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Run(t.Context(), h.Submit); !chat.IsFatal(err) || !strings.Contains(err.Error(), "Mattermost refuses the token") {
		t.Errorf("a wrong token: %v", err)
	}

	defer h.begin(nil)()
	for name, route := range map[string]bus.Route{
		"unknown channel": {Channel: "mattermost", ChatID: strings.Repeat("b", 26)},
		"not an id":       {Channel: "mattermost", ChatID: "b"},
	} {
		if _, err := h.ch.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: route, Text: "x", Key: name}); !chat.IsPermanent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
