// Package teams_test certifies our fake of Microsoft Teams by Microsoft's own bot
// libraries, and our channel by requests that they sign.
package teams_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

const (
	chatID = "a:owner"
	team   = "19:team@thread.tacv2"
)

// request is one that Teams sends, as it is signed.
type request struct {
	Name     string           `json:"name"`
	Header   string           `json:"header"`
	Activity teamstest.Object `json:"activity"`
	good     bool
}

// requests are what Teams signs, and what others might.
func requests(fake *teamstest.Server) []request {
	now := time.Now().Unix()
	plain := fake.Activity("1", "owner", chatID, "hi", nil)
	var out []request
	add := func(name string, good bool, key string, claims teamstest.Object, activity teamstest.Object) {
		out = append(out, request{name, "Bearer " + fake.Sign(key, fake.Claims(claims)), activity, good})
	}
	add("good", true, teamstest.KeyID, nil, plain)
	add("clock behind by four minutes", true, teamstest.KeyID, teamstest.Object{"nbf": now + 240}, plain)
	add("another audience", false, teamstest.KeyID, teamstest.Object{"aud": "https://api.botframework.com"}, plain)
	add("another issuer", false, teamstest.KeyID, teamstest.Object{"iss": "https://example.com"}, plain)
	add("expired", false, teamstest.KeyID, teamstest.Object{"exp": now - 600, "nbf": now - 1200}, plain)
	add("not valid yet", false, teamstest.KeyID, teamstest.Object{"nbf": now + 600}, plain)
	add("without the address", false, teamstest.KeyID, teamstest.Object{"serviceurl": nil}, plain)
	add("another address", false, teamstest.KeyID, nil, fake.Activity("1", "owner", chatID, "hi", teamstest.Object{"serviceUrl": "https://example.com/"}))
	add("a key for other services", false, teamstest.OtherKey, nil, plain)
	add("a key that is not published", false, teamstest.EntraKey, nil, plain)
	return append(out, request{"no signature", "Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2FwaS5ib3RmcmFtZXdvcmsuY29tIn0.", plain, false})
}

// refusal is how the library reads one.
type refusal struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
}

// output is what the script prints.
type output struct {
	Verdicts map[string]string  `json:"verdicts"`
	Sent     string             `json:"sent"`
	Replied  string             `json:"replied"`
	Updated  string             `json:"updated"`
	Card     string             `json:"card"`
	Streamed string             `json:"streamed"`
	Refusals map[string]refusal `json:"refusals"`
	Secret   string             `json:"secret"`
	Signed   []signed           `json:"signed"`
	Read     []readActivity     `json:"read"`
}

// signed is a request that the library made.
type signed struct {
	Name     string          `json:"name"`
	Token    string          `json:"token"`
	Activity json.RawMessage `json:"activity"`
}

// readActivity is how the library reads an activity of ours.
type readActivity struct {
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	Attachments []string `json:"attachments"`
}

// run runs the script with what all its parts need.
func run(t *testing.T, fake *teamstest.Server, more map[string]any) output {
	t.Helper()
	dir := t.TempDir()
	cert := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(cert, fake.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODE_EXTRA_CA_CERTS", cert)
	input := map[string]any{
		"openID": fake.OpenIDURL(), "login": fake.URL(), "serviceURL": fake.ServiceURL(), "appID": teamstest.AppID, "password": teamstest.Password,
		"tenant": teamstest.Tenant, "chat": chatID, "channel": team, "key": string(fake.PrivateKey(teamstest.KeyID)), "keyID": teamstest.KeyID,
	}
	maps.Copy(input, more)
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "input.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var out output
	if err := json.Unmarshal(certify.Script(t, ".", "certify.mjs", file), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The libraries accept what the fake signs and answers, refuse what the fake
// marks as forged, and send what the fake understands.
func TestFake(t *testing.T) {
	fake := teamstest.NewTLS()
	t.Cleanup(fake.Close)
	fake.AddChat(chatID, teamstest.Personal)
	fake.AddChat(team, teamstest.Channel)
	list := requests(fake)
	out := run(t, fake, map[string]any{"requests": list})

	for _, r := range list {
		if why, known := out.Verdicts[r.Name]; !known || r.good != (why == "") {
			t.Errorf("%s: the library says %q (%v), want accepted: %v", r.Name, why, known, r.good)
		}
	}
	want := map[string]refusal{
		"unknown chat":        {http.StatusNotFound, "ConversationNotFound"},
		"unknown thread":      {http.StatusNotFound, "ConversationNotFound"},
		"unknown message":     {http.StatusNotFound, "ActivityNotFoundInConversation"},
		"too long":            {http.StatusRequestEntityTooLarge, "MessageSizeTooBig"},
		"nothing":             {http.StatusBadRequest, "BadSyntax"},
		"stream in a channel": {http.StatusForbidden, "ContentStreamNotAllowed"},
		"stream that ended":   {http.StatusForbidden, "ContentStreamNotAllowed"},
		"wrong token":         {http.StatusUnauthorized, ""},
	}
	if !maps.Equal(out.Refusals, want) {
		t.Errorf("the library reads the refusals %v, want %v", out.Refusals, want)
	}
	if out.Secret != "invalid_client" {
		t.Errorf("a wrong secret is %q for the library", out.Secret)
	}

	var texts, ids []string
	for _, m := range fake.Messages(chatID) {
		texts, ids = append(texts, m.Text), append(ids, m.ID)
	}
	if !slices.Equal(texts, []string{"first, changed", "choose", "It is four."}) || !slices.Equal(ids, []string{out.Sent, out.Card, out.Streamed}) {
		t.Errorf("people see %q with the ids %q; the library has %+v", texts, ids, out)
	}
}

// Our channel accepts what the library signs and refuses what the library
// refuses, and the library reads what our channel sends.
func TestChannel(t *testing.T) {
	fake := teamstest.NewTLS()
	t.Cleanup(fake.Close)
	fake.AddChat(chatID, teamstest.Personal)
	fake.AddChat(team, teamstest.Channel)
	fake.Decline() // what comes of an accepted file would be sent beside the others
	rig, ch := begin(t, fake)
	send(t, ch)
	list := requests(fake)
	var sent []teamstest.Object
	for _, c := range fake.Calls(http.MethodPost, "/activities") {
		sent = append(sent, c.Body)
	}
	now := time.Now().Unix()
	claims := teamstest.Object{"serviceurl": fake.ServiceURL(), "nbf": now - 10, "exp": now + 600, "iss": "https://api.botframework.com", "aud": teamstest.AppID}
	other := maps.Clone(claims)
	other["aud"] = "another bot"
	out := run(t, fake, map[string]any{"requests": list, "sent": sent, "toSign": []teamstest.Object{
		{"name": "good", "activity": fake.Activity("10", "owner", chatID, "signed by the library", nil), "claims": claims},
		{"name": "other", "activity": fake.Activity("11", "owner", chatID, "x", nil), "claims": other},
		{"name": "HS256", "activity": fake.Activity("12", "owner", chatID, "x", nil), "claims": claims, "options": teamstest.Object{"algorithm": "HS256"}},
	}})

	for _, r := range list {
		body, err := json.Marshal(r.Activity)
		if err != nil {
			t.Fatal(err)
		}
		status, _ := fake.Deliver(strings.TrimPrefix(r.Header, "Bearer "), body)
		if (status == http.StatusOK) != (out.Verdicts[r.Name] == "") {
			t.Errorf("%s: our channel answers %d, the library says %q", r.Name, status, out.Verdicts[r.Name])
		}
	}
	for i, want := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusUnauthorized} {
		if status, _ := fake.Deliver(out.Signed[i].Token, out.Signed[i].Activity); status != want {
			t.Errorf("%s: our channel answers %d, want %d", out.Signed[i].Name, status, want)
		}
	}
	rig.Await("the message of the library", func() bool {
		return slices.ContainsFunc(rig.Inbound(), func(in bus.Inbound) bool { return in.Text == "signed by the library" })
	})
	want := []readActivity{
		{"typing", "", []string{}},
		{"message", "A **bold** word", []string{}},
		{"message", "Shall I?", []string{"application/vnd.microsoft.card.adaptive"}},
		{"message", "", []string{"application/vnd.microsoft.teams.card.file.consent"}},
	}
	if !slices.EqualFunc(out.Read, want, func(a, b readActivity) bool {
		return a.Type == b.Type && a.Text == b.Text && slices.Equal(a.Attachments, b.Attachments)
	}) {
		t.Errorf("the library reads %+v, want %+v", out.Read, want)
	}
}

// begin runs our channel against the fake.
func begin(t *testing.T, fake *teamstest.Server) (*chattest.Rig, chat.Channel) {
	t.Helper()
	rig := chattest.NewRig(t)
	d := rig.Deps("msteams")
	d.Client = func(string) (*http.Client, error) { return fake.Client(), nil }
	d.Fetch = func() (*http.Client, error) { return fake.Client(), nil }
	section, err := json.Marshal(map[string]any{
		"appId": teamstest.AppID, "appPassword": teamstest.Password, "tenantId": teamstest.Tenant, "port": 0, "allowFrom": []string{"*"},
		"loginBase": fake.URL(), "openIdUrl": fake.OpenIDURL(), "serviceUrl": fake.ServiceURL(), "trustedServiceUrlHosts": []string{"127.0.0.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Gate = rig.Gate("msteams", section, nil)
	ch, err := teams.Driver().New(d, section)
	if err != nil {
		t.Fatal(err)
	}
	h, ok := ch.(chat.Handler)
	if !ok {
		t.Fatalf("%T receives nothing", ch)
	}
	fake.Attach(h.Routes()["/api/messages"])
	rig.Start(ch.Run)
	rig.Await("the channel to run", func() bool { return len(rig.States()) > 0 })
	return rig, ch
}

// send sends one message of each kind.
func send(t *testing.T, ch chat.Channel) {
	t.Helper()
	route := bus.Route{Channel: "msteams", ChatID: chatID}
	s, ok := ch.(chat.Signaller)
	if !ok {
		t.Fatalf("%T does not show that it works", ch)
	}
	if err := s.Signal(t.Context(), route, chat.Working); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, out := range []bus.Outbound{
		{Kind: bus.Final, Text: "A **bold** word"},
		{Kind: bus.Ask, Text: "Shall I?", Question: &bus.Question{ID: "q", Options: []string{"yes", "no"}}},
		{Kind: bus.Final, Media: []bus.Media{{Path: file}}},
	} {
		out.Route = route
		if _, err := ch.Send(t.Context(), out); err != nil {
			t.Fatal(err)
		}
	}
}
