package matrix_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

const (
	botUser  = "@bot:localhost"
	annUser  = "@ann:localhost"
	password = "correct horse battery"
)

// house is our channel at a Synapse.
type house struct {
	*chattest.Rig
	t    *testing.T
	url  string
	deps chat.Deps
	ch   chat.Streamer
	key  string // the recovery key; "" leaves it out
}

func newHouse(t *testing.T, url string) *house {
	t.Helper()
	h := &house{Rig: chattest.NewRig(t), t: t, url: url}
	h.deps = h.Deps("matrix")
	h.deps.Client = func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
	return h
}

// section is the configuration.
func (h *house) section() json.RawMessage {
	h.t.Helper()
	section, err := json.Marshal(object{
		"enabled": true, "homeserver": h.url, "userId": botUser, "password": password, "allowFrom": []string{annUser}, "streaming": true, "recoveryKey": h.key,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.deps.Gate = h.Gate("matrix", section, nil)
	return section
}

// begin starts the channel, over the state that an earlier one left.
func (h *house) begin() (end func()) {
	h.t.Helper()
	section := h.section()
	ch, err := matrix.Driver().New(h.deps, section)
	if err != nil {
		h.t.Fatal(err)
	}
	h.ch = ch.(chat.Streamer)
	n := len(h.States())
	stop := h.Start(ch.Run)
	h.Await("the connection", func() bool { return len(h.States()) > n })
	return func() {
		h.t.Helper()
		if err := stop(); err != nil {
			h.t.Errorf("Run: %v", err)
		}
	}
}

// receive waits for a message of these words.
func (h *house) receive(text string) (got bus.Inbound) {
	h.t.Helper()
	h.Await("the message "+text, func() bool {
		for _, in := range h.Inbound() {
			if strings.Contains(in.Text, text) {
				got = in
				return true
			}
		}
		return false
	})
	return got
}

func (h *house) send(out bus.Outbound) string {
	h.t.Helper()
	id, err := h.ch.Send(h.t.Context(), out)
	if err != nil {
		h.t.Fatalf("Send: %v\n%s", err, h.Log)
	}
	return id
}

// TestSynapse works in a plain and in an encrypted room of a real homeserver,
// with a person who has another implementation of everything.
func TestSynapse(t *testing.T) {
	url := synapse(t, certify.Python(t, "synapse"))
	python := certify.Python(t, ".")
	register(t, url, "bot", password)
	register(t, url, "ann", "ann's")
	h := newHouse(t, url)
	p := newPeer(t, python, url, annUser, "ann's", true)
	p.login()
	if encrypted {
		h.key = h.login(p)
	}
	end := h.begin()

	for _, secret := range []bool{false, true} {
		if secret && !encrypted {
			t.Log("without the build tag goolm only the plain room was tried")
			break
		}
		room := p.do(object{"do": "room", "invite": botUser, "encrypted": secret})["room"].(string)
		name := map[bool]string{false: "plain", true: "secret"}[secret]
		p.do(object{"do": "send", "room": room, "text": "hello " + name})
		in := h.receive("hello " + name)
		if in.Scope != "" || in.Untrusted || in.SenderID != annUser {
			t.Errorf("%s: the message is %+v", name, in)
		}

		out := bus.Outbound{Kind: bus.Final, Route: in.Route, Text: "**answer** " + name, Key: "k/" + name}
		id := h.send(out)
		got := p.receive("**answer** " + name)
		if got["kind"] != "RoomMessageText" || got["decrypted"] != secret || !strings.Contains(got["formatted_body"].(string), "<strong>answer</strong>") {
			t.Errorf("%s: the person got %v", name, got)
		}
		if again := h.send(out); again != id {
			t.Errorf("%s: the same key made %s and %s", name, id, again)
		}
		out.Text = "edited " + name
		if err := h.ch.Edit(t.Context(), out, id, true); err != nil {
			t.Errorf("%s: edit: %v", name, err)
		}
		if got := p.receive("edited " + name); got["relates"] != "m.replace" || got["event"] != id {
			t.Errorf("%s: the edit is %v", name, got)
		}

		path := filepath.Join(t.TempDir(), name+".txt")
		if err := os.WriteFile(path, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		h.send(bus.Outbound{Kind: bus.Message, Route: in.Route, Media: []bus.Media{{Path: path}}})
		if got := p.do(object{"do": "download", "name": name + ".txt"}); got["data"] != "content of "+name {
			t.Errorf("%s: the file is %v", name, got)
		}
		p.do(object{"do": "upload", "room": room, "name": "in-" + name + ".txt", "data": "for " + name, "encrypted": secret})
		h.Await("the file", func() bool {
			for _, in := range h.Inbound() {
				if len(in.Media) == 1 && in.Media[0].Name == "in-"+name+".txt" {
					data, err := os.ReadFile(in.Media[0].Path)
					return err == nil && string(data) == "for "+name
				}
			}
			return false
		})

		// What is said while the gateway is down is read afterwards, with the
		// keys of the device that it had.
		end()
		p.do(object{"do": "send", "room": room, "text": "are you there, " + name})
		end = h.begin()
		h.receive("are you there, " + name)
	}
	if !encrypted {
		end()
		return
	}
	if got := p.do(object{"do": "verify", "user": botUser, "txn": "second"}); got["code"] != "m.user" || !strings.Contains(got["reason"].(string), "channels login") {
		t.Errorf("a verification while the gateway runs: %v", got)
	}
	end()
	if got := p.do(object{"do": "devices", "user": botUser})["devices"].([]any); len(got) != 1 {
		t.Errorf("the bot has %v, want one device", got)
	}
	if !strings.Contains(h.Log.String(), "verified=true backup=true") {
		t.Errorf("the device of the bot is not signed:\n%s", h.Log)
	}
	h.lost(p)
}

// login makes a key backup, and compares emoji with the person's client.
func (h *house) login(p *peer) (recoveryKey string) {
	h.t.Helper()
	d := &dialog{waits: make(chan struct{}), shown: make(chan string, 1), same: make(chan string, 1)}
	section, result := h.section(), make(chan error, 1)
	go func() {
		_, err := matrix.Driver().Login(h.t.Context(), h.deps, section, d, false)
		result <- err
	}()
	select {
	case <-d.waits:
	case err := <-result:
		h.t.Fatalf("the login ended: %v", err)
	}
	theirs := p.do(object{"do": "verify", "user": botUser, "txn": "first"})
	ours := <-d.shown
	for _, e := range theirs["emoji"].([]any) {
		var found bool
		if _, ours, found = strings.Cut(ours, e.(string)+" "); !found {
			h.t.Errorf("the person sees %v, not what the bot shows", theirs)
		}
	}
	d.same <- "yes"
	if got := p.do(object{"do": "confirm", "txn": "first"}); got["verified"] != true || got["done"] != 1.0 {
		h.t.Errorf("the person's client says %v", got)
	}
	if err := <-result; err != nil {
		h.t.Fatalf("the login: %v", err)
	}
	return d.key
}

// lost loses the folder of the account: with the recovery key a new device is
// signed, and reads what was written for the old one.
func (h *house) lost(p *peer) {
	h.t.Helper()
	room := h.receive("hello secret").Route.ChatID
	p.do(object{"do": "send", "room": room, "text": "before the loss"})
	dir := h.t.TempDir()
	h.deps.Dir = func() (string, error) { return dir, nil }
	n := len(h.Log.String())
	end := h.begin()
	if in := h.receive("before the loss"); !in.Untrusted {
		h.t.Errorf("a message with a key of the backup is trusted: %+v", in)
	}
	if !strings.Contains(h.Log.String()[n:], "verified=true backup=true") {
		h.t.Errorf("the new device is not signed:\n%s", h.Log.String()[n:])
	}
	end()
}

// dialog is the person at the login of the bot.
type dialog struct {
	key   string
	waits chan struct{} // closed when a verification may begin
	shown chan string
	same  chan string
}

// Tell implements chat.Dialog.
func (d *dialog) Tell(s chat.Step) {
	if strings.HasPrefix(s.Note, "Start the verification") {
		close(d.waits)
	}
}

// Ask implements chat.Dialog.
func (d *dialog) Ask(ctx context.Context, q chat.Question) (string, error) {
	switch {
	case strings.HasPrefix(q.Text, "Keep a backup"), strings.HasPrefix(q.Text, "Verify this device"):
		return "yes", nil
	case strings.HasPrefix(q.Text, "The recovery key is"):
		d.key = strings.TrimSpace(strings.Split(q.Text, "\n")[2])
		return "", nil
	}
	d.shown <- q.Text
	select {
	case s := <-d.same:
		return s, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
