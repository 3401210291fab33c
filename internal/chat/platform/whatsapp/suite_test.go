package whatsapp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp/whatsapptest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture { return fixtures(t, false) })
}

// The bridge of Python nanobot can do less, and is told less.
func TestOldBridgeSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture { return fixtures(t, true) })
}

func fixtures(t *testing.T, old bool) chattest.Fixture {
	t.Helper()
	f, second := fixture(t, old, whatsapptest.JID), fixture(t, old, "4915100000002:1@s.whatsapp.net")
	f.Second = &second
	return f
}

func fixture(t *testing.T, old bool, jid string) chattest.Fixture {
	t.Helper()
	dir := t.TempDir()
	fake := whatsapptest.New(dir)
	fake.Old, fake.JID = old, jid
	t.Cleanup(fake.Close)
	f := chattest.Fixture{
		Driver: Driver(),
		Hasten: func(ch chat.Channel) { hasten(ch, old) },
		Section: func(c chat.Common) json.RawMessage {
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			all := object{}
			if err := json.Unmarshal(data, &all); err != nil {
				t.Fatal(err)
			}
			all["groupPolicy"] = "mention"
			if old {
				all["allowFrom"] = []string{ann, crowd} // it does not tell who writes in a group
			}
			return section(t, fake, all)
		},
		Owner: ann, Stranger: bob, Chat: func(sender string) string { return sender + "@s.whatsapp.net" }, Group: crowd,
		Pose: func(_ *testing.T, in chattest.In, name string) {
			m := from(in.ID, name+"@lid", "", in.Text) // the digits of a hidden id are no number
			m["name"] = name
			fake.Post(m)
		},
		Deliver: func(t *testing.T, in chattest.In) {
			t.Helper()
			m := from(in.ID, jidOf(in.Sender), jidOf(in.Also), in.Text)
			if in.Group {
				inGroup(m)
				m["wasMentioned"] = in.Mentioned
			}
			if old {
				delete(m, "participant")
				delete(m, "participantAlt")
				delete(m, "name")
				chattest.NewRig(t).Await("the bridge to have a client", fake.Connected)
			}
			if in.File != "" {
				attachTo(t, m, in.File, old, fake, dir)
			}
			fake.Post(m)
		},
		Seen: func() []chattest.Seen {
			var out []chattest.Seen
			for _, m := range fake.Messages() {
				s := chattest.Seen{Chat: m.To, Text: m.Text}
				if m.FileName != "" {
					s.Files = []string{m.FileName}
				}
				out = append(out, s)
			}
			return out
		},
		Touched: func() int { return len(fake.Asked("presence")) + len(fake.Asked("read")) + len(fake.Asked("download")) },
		Limit: func(after time.Duration) {
			fake.Fail(whatsapptest.Failure{Error: "slow down", Code: "rate", After: int(after.Seconds())})
		},
		Break:   func() { fake.Fail(whatsapptest.Failure{Error: "Error: timed out", Code: "other"}) },
		Refuse:  func() { fake.Fail(whatsapptest.Failure{Error: "not-authorized", Code: "permanent"}) },
		Cut:     fake.Drop,
		Repeats: true, MediaLimit: true, AnyName: !old,
		Frame: func(_ *testing.T, data []byte) { fake.Raw(string(data)) },
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.silence = 2 * time.Second
			}
		},
		Lacks: map[string]string{
			"Streams": "an edited message is marked as such, and can be edited for a quarter of an hour only",
			"Thread":  "WhatsApp has no threads",
			"Marks":   "a read receipt is not taken away",
			"Tap":     "WhatsApp shows no buttons of linked devices",
			"Forge":   "we open the connection to the bridge: there is no address to forge a message at",
			"Backlog": "the bridge keeps what was not acknowledged, without a limit of age",
		},
	}
	if old {
		f.Lacks["AnyName"] = "the bridge of Python nanobot makes the names of files"
		f.Lacks["Acked"] = "the bridge of Python nanobot asks for no acknowledgement"
		f.Lacks["Typing"] = "the bridge of Python nanobot shows no typing"
		f.Lacks["Alias"] = "the bridge of Python nanobot tells one id"
		f.Pose, f.Lacks["Pose"] = nil, "the bridge of Python nanobot tells one id and no name"
		return f
	}
	f.Acked = func(id string) bool {
		return slices.ContainsFunc(fake.Asked("ack"), func(a whatsapptest.Frame) bool { return a["id"] == id })
	}
	f.Typing = func(chatID, _ string) (n int, on bool) {
		for _, a := range fake.Asked("") {
			if a["to"] != chatID || a["type"] == "read" {
				continue
			}
			if on = a["state"] == "composing"; on { // a message ends it
				n++
			}
		}
		return n, on
	}
	f.Alias = func(string) string { return "123456789000066@lid" }
	return f
}

// jidOf is the full id of a number; ids stay as they are.
func jidOf(person string) string {
	if person == "" || strings.Contains(person, "@") {
		return person
	}
	return person + "@s.whatsapp.net"
}

func attachTo(t *testing.T, m object, name string, old bool, fake *whatsapptest.Server, dir string) {
	t.Helper()
	data := []byte("content of " + name)
	if !old {
		fake.Store("ref-"+name, data)
		m["files"] = []object{{"kind": "document", "name": name, "size": len(data), "ref": "ref-" + name}}
		return
	}
	path := filepath.Join(dir, "wa_1_"+strings.ReplaceAll(name, "/", "_"))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	m["media"] = []string{path}
}
