package terminal_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
)

// The desktop tells about a message that no terminal takes, and only then.
func TestNotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		notices := make(chan terminal.Notice, 8)
		driver := terminal.Driver(terminal.Options{
			Mailbox: box(dir, time.Now),
			Notify:  func(_ context.Context, n terminal.Notice) error { notices <- n; return nil },
		})
		ch, err := driver.New(chat.Deps{Name: terminal.Name, Ready: func(string, error) {}, Log: slog.New(slog.DiscardHandler)}, terminal.Section())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ch.Run(ctx, nil) }()
		send := func(id string, kind bus.Kind) {
			out := message(id, "tea\nis ready")
			out.Kind = kind
			if _, err := ch.Send(t.Context(), out); err != nil {
				t.Error(err)
			}
		}

		came := time.Now().Local().Format("2006-01-02 15:04")
		send("1", bus.Final)
		send("2", bus.Notice) // not durable: for those who watch
		time.Sleep(time.Hour)
		if len(notices) != 1 {
			t.Fatalf("%d notices, want one", len(notices))
		}
		if n := <-notices; n.Body != "tea is ready" {
			t.Errorf("notice %+v", n)
		}

		r, err := box(dir, time.Now).Attach(t.Context(), "cli:a")
		if err != nil {
			t.Fatal(err)
		}
		send("3", bus.Message)
		if got := take(t, r, true); got != "("+came+")\n\ntea\nis ready|tea\nis ready" {
			t.Errorf("the terminal shows %q", got)
		}
		time.Sleep(time.Minute)
		if len(notices) > 0 {
			t.Errorf("notice of what a terminal showed: %+v", <-notices)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		stop()
		<-ended
	})
}
