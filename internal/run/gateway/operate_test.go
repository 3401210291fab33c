package gateway_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

// An owner works on jobs and settings in a chat; somebody who is no owner does not.
func TestOperateInChat(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(strings.Replace(partyConfig, `"allowFrom": ["ann"]`, `"allowFrom": ["ann", "bob"], "owners": ["ann"]`, 1))
	h.start()
	<-h.party.joined
	n := 0
	write := func(who, text string) {
		t.Helper()
		n++
		h.must(h.party.write(t, who, who+string(rune('a'+n)), text))
	}
	a, err := h.g.Current(t.Context())
	h.must(err)
	timing := schedule.Cron("0 4 1 1 *", "")
	added, err := a.Schedule.Add(t.Context(), schedule.Draft{Name: "taxes", Message: "pay", Timing: timing, Route: bus.Route{Channel: "party", ChatID: "ann"}})
	h.must(err)
	id := added.Job.ID

	for _, command := range []string{"/cron", "/config reload", "/doctor", "/cost"} {
		write("bob", command)
		if out := h.party.hear(t, ""); !strings.Contains(out.Text, "Only an owner can do that") {
			t.Errorf("%s of somebody else: %q", command, out.Text)
		}
	}
	write("ann", "/cron")
	if out := h.party.hear(t, "taxes"); !strings.Contains(out.Text, "(id "+id+")") {
		t.Errorf("/cron: %q", out.Text)
	}
	write("ann", "/cron\ndisable "+id)
	h.party.hear(t, `"taxes" is switched off.`)
	if j, err := a.Schedule.Get(t.Context(), id); err != nil || j.Enabled {
		t.Errorf("job %+v, %v", j, err)
	}
	write("ann", "/cron run "+id)
	h.party.hear(t, `"taxes" runs now.`)
	h.party.hear(t, "echo ")
	write("ann", "/cron remove "+id)
	h.party.hear(t, `"taxes" is removed.`)
	write("ann", "/cron remove "+id)
	h.party.hear(t, "There is no job "+id)
	write("ann", "/cron dream")
	h.party.hear(t, "Usage: /cron")
	write("ann", "/doctor")
	if out := h.party.hear(t, "to check"); !strings.Contains(out.Text, "broken") {
		t.Errorf("/doctor: %q", out.Text)
	}
	write("ann", "/cost")
	h.party.hear(t, "")
	write("ann", "/help")
	h.party.hear(t, "/pairing [list|approve|deny|revoke ...]")

	write("ann", "/config")
	h.party.hear(t, "Usage: /config reload")
	write("ann", "/config reload")
	h.party.hear(t, "Reading the configuration again.")
	h.party.hear(t, "The new settings are in use.")
	h.configure("{")
	write("ann", "/config reload")
	h.party.hear(t, "is not valid. I continue with the previous one")
	write("ann", "/status")
	if out := h.party.hear(t, "Model:"); !strings.Contains(out.Text, "Problem: the newest configuration is not used") {
		t.Errorf("/status: %q", out.Text)
	}
	write("bob", "/status")
	if out := h.party.hear(t, "Model:"); strings.Contains(out.Text, "Problem:") {
		t.Errorf("/status of somebody else: %q", out.Text)
	}
	h.must(h.end())
}
