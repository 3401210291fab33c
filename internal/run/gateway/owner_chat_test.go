package gateway

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// What is meant for the owner goes to nobody else: guests, strangers' mails and
// messages no person wrote leave the owner's chat as it is.
func TestOwnerChat(t *testing.T) {
	t.Parallel()
	o := &ownerChat{state: disk.Open(t.TempDir(), nil)}
	in := func(chat string, alter func(*bus.Inbound)) bus.Inbound {
		m := bus.Inbound{Route: bus.Route{Channel: "x", ChatID: chat, MessageID: "7"}, Interactive: true}
		alter(&m)
		return m
	}
	o.record(in("owner", func(*bus.Inbound) {}))
	if r, _ := (&ownerChat{state: o.state}).last(); r.ChatID != "owner" {
		t.Errorf("after a kill the owner is looked for at %+v", r)
	}
	o.record(in("guest", func(m *bus.Inbound) { m.Scope = "x:guest/1" }))
	o.record(in("mail", func(m *bus.Inbound) { m.Untrusted = true }))
	o.record(in("job", func(m *bus.Inbound) { m.Event = "cron" }))
	o.record(in("script", func(m *bus.Inbound) { m.Interactive = false }))
	if r, ok := o.last(); !ok || r.ChatID != "owner" || r.MessageID != "" {
		t.Errorf("the owner is looked for at %+v", r)
	}
	o.flush()
	if r, _ := (&ownerChat{state: o.state}).last(); r.ChatID != "owner" {
		t.Errorf("after a restart the owner is looked for at %+v", r)
	}
}
