package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

// remind makes a job of a terminal that is due now.
func remind(h *host) {
	h.t.Helper()
	a, err := h.g.Current(h.t.Context())
	h.must(err)
	_, err = a.Schedule.Add(h.t.Context(), schedule.Draft{
		Message: "#tea", Timing: schedule.Once(time.Now()), Route: bus.Route{Channel: "cli", ChatID: "a"}, Keep: true,
	})
	h.must(err)
}

// openTerminal is a terminal beside the gateway, as another process has it.
func openTerminal(h *host, session string) (*terminal.Reader, <-chan bus.Outbound) {
	h.t.Helper()
	box := terminal.OpenMailbox(disk.Open(filepath.Join(h.dir, "bus"), nil), nil, nil)
	r, err := box.Attach(h.t.Context(), session)
	h.must(err)
	got := make(chan bus.Outbound, 16)
	ctx, stop := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, func(out bus.Outbound) { got <- out }) }()
	h.t.Cleanup(func() {
		stop()
		<-ended
		_ = r.Close()
	})
	return r, got
}

func heard(t *testing.T, got <-chan bus.Outbound) bus.Outbound {
	t.Helper()
	select {
	case out := <-got:
		return out
	case <-time.After(time.Minute):
		t.Fatal("the terminal shows nothing")
		return bus.Outbound{}
	}
}

// A reminder that was made in a terminal appears there while a gateway runs.
func TestReminderInOpenTerminal(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	other, otherGot := openTerminal(h, "cli:b")
	own, got := openTerminal(h, "cli:a")
	remind(h)
	out := heard(t, got)
	if !strings.Contains(out.Text, "echo #tea") {
		t.Errorf("the terminal shows %q", out.Text)
	}
	h.must(own.Shown(t.Context(), out.ID))
	if more := other.Claim(t.Context()); len(more) > 0 || len(otherGot) > 0 {
		t.Errorf("a second terminal shows it as well: %v", more)
	}
	for _, c := range h.g.Status().Channels {
		if c.Name == terminal.Name {
			t.Error("the status lists the terminal as a platform")
		}
	}
	h.must(h.end())
}

// With no terminal open, the next one shows it, also when the gateway is gone by then.
func TestReminderForNextTerminal(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	remind(h)
	files := filepath.Join(h.dir, "bus", "terminal", "*.json")
	for {
		if found, _ := filepath.Glob(files); len(found) == 1 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("nothing waits for a terminal")
		}
	}
	h.must(h.end())
	r, got := openTerminal(h, "cli:new")
	out := heard(t, got)
	if !strings.Contains(out.Text, "echo #tea") {
		t.Errorf("the next terminal shows %q", out.Text)
	}
	h.must(r.Shown(t.Context(), out.ID))
	if _, again := openTerminal(h, "cli:later"); len(again) > 0 {
		t.Error("it is shown twice")
	}
}

// An owner who is not at a terminal gets it in the chat they used last.
func TestReminderWithoutTerminal(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.must(os.MkdirAll(filepath.Join(h.dir, "run"), 0o700))
	h.must(os.WriteFile(filepath.Join(h.dir, "run", "owner-chat.json"), []byte(`{"channel": "party", "chat_id": "ann"}`), 0o600))
	h.start()
	<-h.party.joined
	remind(h)
	h.party.hear(t, "echo #tea")

	_, got := openTerminal(h, "cli:a")
	remind(h)
	if out := heard(t, got); !strings.Contains(out.Text, "echo #tea") {
		t.Errorf("the open terminal shows %q", out.Text)
	}
	h.must(h.end())
}
