package app_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/bus"
)

func TestFork(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t)).start()
	<-h.party.joined
	for _, id := range []string{"1", "2", "3"} {
		h.must(h.party.write(t, "ann", id, "say #"+id))
		h.party.hear(t, "echo #"+id)
	}
	from, to := bus.Route{Channel: "party", ChatID: "ann"}, bus.Route{Channel: "party", ChatID: "other"}
	if err := app.Fork(t.Context(), h.g, from, to, 9, ""); err == nil || !strings.Contains(err.Error(), "3 messages") {
		t.Errorf("a message that is not there: %v", err)
	}
	h.must(app.Fork(t.Context(), h.g, from, to, 2, "a title"))
	a, err := h.g.Current(t.Context())
	h.must(err)
	var said []string
	for r, err := range a.Sessions.Records(t.Context(), "party:other") {
		h.must(err)
		said = append(said, marked(r.Content.String()))
	}
	if got := strings.Join(said, " "); got != "#1 #1 #2 #2" {
		t.Errorf("the fork holds %q", got)
	}
	if err := app.Fork(t.Context(), h.g, from, to, 1, ""); err == nil {
		t.Error("a conversation that has begun was forked over")
	}
	h.must(h.end())
}

func TestTriggerCommand(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t)).start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "/trigger backup"))
	out := h.party.hear(t, "is ready")
	_, id, _ := strings.Cut(out.Text, "(")
	id, _, _ = strings.Cut(id, ")")
	a, err := h.g.Current(t.Context())
	h.must(err)
	if _, err := a.Schedule.FireTrigger(t.Context(), id, "say #done", false); err != nil {
		t.Fatal(err)
	}
	h.party.hear(t, "echo #done")
	h.must(h.end())
}
