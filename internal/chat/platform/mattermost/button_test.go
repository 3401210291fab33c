package mattermost

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

// withButtons is a rig whose buttons lead to it, as through the gateway.
func withButtons(t *testing.T, changes map[string]any) (*rig, string) {
	t.Helper()
	var r *rig
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.Routes()["/mattermost"].ServeHTTP(w, q)
	}))
	t.Cleanup(front.Close)
	address := front.URL + "/mattermost"
	all := map[string]any{"webhookUrl": address}
	maps.Copy(all, changes)
	r = newRig(t, all)
	return r, address
}

// push lets Ann press a button of a post, through the server.
func push(t *testing.T, fake *mattermosttest.Server, post, action string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fake.URL()+"/api/v4/posts/"+post+"/actions/"+action, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+mattermosttest.AnnToken)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func ask(t *testing.T, r *rig, chat, thread string, kind bus.Kind) string {
	t.Helper()
	id, err := r.Send(t.Context(), bus.Outbound{
		Kind: kind, Route: bus.Route{Channel: "mattermost", ChatID: chat, ThreadID: thread}, Text: "May I?",
		Question: &bus.Question{ID: "q1", Options: []string{"Allow once", "Deny"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A press answers the question; the buttons go away and the post says what was
// chosen.
func TestPress(t *testing.T) {
	t.Parallel()
	r, _ := withButtons(t, nil)
	defer r.begin()()
	id := ask(t, r, r.fake.Direct(mattermosttest.AnnID()), "", bus.Ask)
	if code := push(t, r.fake, id, "o1"); code != http.StatusOK {
		t.Fatalf("the press is answered with %d", code)
	}
	in := r.receive(1)[0]
	if d := cmp.Diff(&bus.Answer{QuestionID: "q1", Option: "Deny"}, in.Answer); d != "" || in.Untrusted || in.SenderID != mattermosttest.AnnID() || in.Scope == "" {
		t.Errorf("the answer (-want +got):\n%s\nin %+v", d, in)
	}
	p := r.fake.Posts("")[0]
	if p.Message != "May I?\n\n> Deny" || p.Props["attachments"] != nil || p.Props["unsafe_links"] != "true" {
		t.Errorf("the post is %q with %v", p.Message, p.Props)
	}
}

// What a model offers is not what the person typed, unless it was clean. In a
// channel the buttons stay until the agent says who may answer.
func TestPressInThread(t *testing.T) {
	t.Parallel()
	r, _ := withButtons(t, nil)
	defer r.begin()()
	root := r.say(post0{ChannelID: town(), Message: atBot + " go"})
	r.receive(1)
	offered := ask(t, r, town(), root.ID, bus.Message)
	push(t, r.fake, offered, "o0")
	in := r.receive(2)[1]
	if in.Answer != nil || !in.Untrusted || in.Text != "Allow once" || in.SessionKey != "mattermost:"+town()+":"+root.ID || in.Route.ThreadID != root.ID {
		t.Errorf("the choice is %+v", in)
	}
	asked := ask(t, r, town(), root.ID, bus.Ask)
	push(t, r.fake, asked, "o0")
	r.receive(3)
	for _, p := range r.fake.Posts("") {
		if p.ID == asked && p.Props["attachments"] == nil {
			t.Error("the buttons of a question in a channel are gone after anybody's press")
		}
	}
}

// Nobody but the server can press: what has no proof, the proof of another
// button, or another channel is refused. Strangers change nothing.
func TestPressForged(t *testing.T) {
	t.Parallel()
	r, address := withButtons(t, map[string]any{"allowFrom": []string{mattermosttest.AnnID()}})
	defer r.begin()()
	chat := r.fake.Direct(mattermosttest.AnnID())
	ours := offer{Question: "q1", Label: "Deny", Chat: chat}
	ours.Proof = r.prove(ours)
	press := func(user string, o offer, in string) int {
		data, err := json.Marshal(map[string]any{"user_id": user, "channel_id": in, "post_id": mattermosttest.ID("p"), "trigger_id": user + o.Label, "context": o})
		if err != nil {
			t.Fatal(err)
		}
		return call(t, address, data)
	}
	changed, foreign := ours, ours
	changed.Label = "Allow"
	foreign.Proof = ""
	for name, code := range map[string]int{
		"changed":   press(mattermosttest.AnnID(), changed, chat),
		"no proof":  press(mattermosttest.AnnID(), foreign, chat),
		"elsewhere": press(mattermosttest.AnnID(), ours, town()),
		"nobody":    press("", ours, chat),
	} {
		if code != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", name, code)
		}
	}
	if code := call(t, address, []byte("{broken")); code != http.StatusBadRequest {
		t.Errorf("broken JSON: %d, want 400", code)
	}
	if code := call(t, address, make([]byte, 2<<20)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("2 MiB: %d, want 413", code)
	}
	if code := press(mattermosttest.ID("mallory"), ours, chat); code != http.StatusOK || len(r.Inbound()) != 0 {
		t.Errorf("a stranger: %d, and the agent got %v", code, r.Inbound())
	}
	for range 2 { // the same press twice is one
		if code := press(mattermosttest.AnnID(), ours, chat); code != http.StatusOK {
			t.Errorf("the real one: %d", code)
		}
	}
	if n := len(r.Inbound()); n != 1 {
		t.Errorf("the agent got %d answers, want 1", n)
	}
}

func call(t *testing.T, address string, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}
