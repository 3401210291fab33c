//go:build goolm

package matrix

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

const secretRoom = "!secret:" + matrixtest.Server

// pair is the bot and a person, both with encryption, in an encrypted room.
func pair(t *testing.T) (fake *matrixtest.Home, bot, person *rig) {
	t.Helper()
	fake = home(t)
	fake.Room(secretRoom, map[string]matrixtest.Object{"m.room.encryption": {"algorithm": "m.megolm.v1.aes-sha2"}}, ann, matrixtest.Bot)
	bot = newRig(t, fake, map[string]any{"streaming": true})
	person = newRig(t, fake, map[string]any{"userId": ann, "password": "ann's", "allowFrom": []string{matrixtest.Bot}})
	return fake, bot, person
}

func to(text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Final, Route: bus.Route{Channel: "matrix", ChatID: secretRoom}, Text: text, Key: text}
}

func (r *rig) send(out bus.Outbound) string {
	r.t.Helper()
	id, err := r.Send(r.t.Context(), out)
	if err != nil {
		r.t.Fatalf("Send: %v\n%s", err, r.Log)
	}
	return id
}

// Messages, edits and files of an encrypted room are read on both sides, and
// the homeserver sees none of them. The keys survive a restart.
func TestEncryptedRoom(t *testing.T) {
	t.Parallel()
	fake, bot, person := pair(t)
	end := bot.begin()
	defer person.begin()()
	person.send(to("the password is swordfish"))
	if in := bot.receive(1)[0]; shown(in) != "the password is swordfish" || in.Scope != "" {
		t.Errorf("the bot got %q of scope %q", shown(in), in.Scope)
	}
	id := bot.send(to("**noted**"))
	if in := person.receive(1)[0]; in.Text != "**noted**" {
		t.Errorf("the person got %q", in.Text)
	}
	if err := bot.Edit(t.Context(), to("changed"), id, true); err != nil {
		t.Error(err)
	}

	path := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(path, []byte("dig here"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := to("")
	file.Media = []bus.Media{{Path: path}}
	person.send(file)
	in := bot.receive(2)[1]
	if len(in.Media) != 1 {
		t.Fatalf("the bot got %+v", in)
	}
	if data, err := os.ReadFile(in.Media[0].Path); err != nil || string(data) != "dig here" {
		t.Errorf("the file is %q, %v", data, err)
	}

	end()
	bot.reopen(nil)
	person.send(to("while you were away"))
	defer bot.begin()()
	if in := bot.receive(3)[2]; in.Text != "while you were away" {
		t.Errorf("after a restart the bot got %q", in.Text)
	}
	if n := len(fake.Calls("/login")); n != 2 {
		t.Errorf("%d logins, want one of each", n)
	}
	for _, c := range fake.Calls("") {
		for _, secret := range []string{"swordfish", "noted", "changed", "dig here", "away"} {
			if bytes.Contains(c.Body, []byte(secret)) {
				t.Errorf("%s %s shows %q to the homeserver", c.Method, c.Path, secret)
			}
		}
	}
}

// What is sent without encryption into an encrypted room proves nothing.
func TestPlainInEncryptedRoom(t *testing.T) {
	t.Parallel()
	fake, bot, _ := pair(t)
	defer bot.begin()()
	fake.Say(matrixtest.Event{Room: secretRoom, Sender: ann}, matrixtest.Text("trust me"))
	if in := bot.receive(1)[0]; !in.Untrusted {
		t.Errorf("the bot trusts %+v", in)
	}
}

// A message whose keys are missing is told of once per room, the keys are asked
// for, and it is read when they come.
func TestKeysMissing(t *testing.T) {
	t.Parallel()
	fake, bot, person := pair(t)
	defer person.begin()()
	bot.keyWait = 10 * time.Millisecond
	defer bot.begin()()
	fake.HoldKeys(true)
	notices := func() int { return len(fake.Events("m.room.encrypted", matrixtest.Bot)) }
	for i, text := range []string{"first", "second"} {
		person.send(to(text))
		person.vault.crypt.forget(t.Context(), secretRoom) // new keys for the next one
		bot.Await("the question for the keys", func() bool { return len(fake.Told("m.room_key_request", matrixtest.Bot)) == 2*(i+1) })
	}
	bot.Await("a word to the person", func() bool { return notices() == 1 })
	if !strings.Contains(bot.Log.String(), "cannot be decrypted") || len(bot.Inbound()) != 0 {
		t.Errorf("the bot got %+v\n%s", bot.Inbound(), bot.Log)
	}

	fake.HoldKeys(false)
	got := bot.receive(2)
	if texts := got[0].Text + " " + got[1].Text; texts != "first second" && texts != "second first" || got[0].Untrusted {
		t.Errorf("the bot got %+v", got)
	}
	if notices() != 1 {
		t.Errorf("%d notices, want one", notices())
	}
	sent := fake.Events("m.room.encrypted", matrixtest.Bot)[0]
	person.Await("the notice", func() bool {
		e, err := person.vault.crypt.decrypt(t.Context(), event{ID: sent.ID, Type: sent.Type, Sender: sent.Sender, At: sent.At, Room: secretRoom, Content: sent.Content})
		return err == nil && strings.Contains(string(e.Content), "I cannot decrypt a message in this room")
	})
}

// A device that has keys of another program is not used for encryption.
func TestDeviceOfAnotherProgram(t *testing.T) {
	t.Parallel()
	fake := home(t)
	first := newRig(t, fake, map[string]any{"password": nil, "accessToken": fake.Token(matrixtest.Bot, "PHONE"), "deviceId": "PHONE"})
	first.begin()()
	second := newRig(t, fake, map[string]any{"password": nil, "accessToken": fake.Token(matrixtest.Bot, "PHONE"), "deviceId": "PHONE"})
	defer second.begin()()
	if !strings.Contains(second.Log.String(), "has keys of another program") {
		t.Errorf("log:\n%s", second.Log)
	}
}
