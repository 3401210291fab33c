package whatsapp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/whatsapptest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture { return fixtures(t, false) })
}

// The bridge of Python nanobot can do less, and is told less.
func TestOldBridgeSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture { return fixtures(t, true) })
}

func fixtures(t *testing.T, old bool) channeltest.Fixture {
	t.Helper()
	f, second := fixture(t, old, whatsapptest.JID), fixture(t, old, "4915100000002:1@s.whatsapp.net")
	f.Second = &second
	return f
}

func fixture(t *testing.T, old bool, jid string) channeltest.Fixture {
	t.Helper()
	dir := t.TempDir()
	fake := whatsapptest.New(dir)
	fake.Old, fake.JID = old, jid
	t.Cleanup(fake.Close)
	f := channeltest.Fixture{
		Driver: Driver(),
		Section: func(c channel.Common) json.RawMessage {
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
		Options: func(o *channel.Options) { o.Client = client4(t) },
		Owner:   ann, Stranger: bob, Chat: func(sender string) string { return sender + "@s.whatsapp.net" }, Group: crowd,
		Deliver: func(t *testing.T, in channeltest.In) {
			t.Helper()
			m := from(in.ID, in.Sender+"@s.whatsapp.net", "", in.Text)
			if in.Group {
				inGroup(m)
				m["wasMentioned"] = in.Mentioned
			}
			if old {
				delete(m, "participant")
				delete(m, "participantAlt")
				delete(m, "name")
				channeltest.NewRig(t).Await("the bridge to have a client", fake.Connected)
			}
			if in.File != "" {
				attachTo(t, m, in.File, old, fake, dir)
			}
			fake.Post(m)
		},
		Seen: func() []channeltest.Seen {
			var out []channeltest.Seen
			for _, m := range fake.Messages() {
				s := channeltest.Seen{Chat: m.To, Text: m.Text}
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
	}
	if !old {
		f.Acked = func(id string) bool {
			return slices.ContainsFunc(fake.Asked("ack"), func(a whatsapptest.Frame) bool { return a["id"] == id })
		}
	}
	return f
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
