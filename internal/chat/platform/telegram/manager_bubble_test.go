package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

// The channel satisfies what the manager looks for.
var (
	_ chat.Streamer  = (*bot)(nil)
	_ chat.Signaller = (*bot)(nil)
	_ chat.Handler   = (*bot)(nil)
)

// house runs the channel under a manager over a durable queue, with an agent
// that answers by the function.
func house(t *testing.T, fake *telegramtest.Server, dir string, answer func(q bus.Queue, in bus.Inbound)) (stop func()) {
	t.Helper()
	q, err := journal.Open(disk.Open(dir+"/bus", nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Drivers: map[string]chat.Driver{"telegram": Driver()}, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3,
		Sections: map[string]json.RawMessage{"telegram": section(map[string]any{"apiBase": fake.URL()})},
		Client:   func(string) (*http.Client, error) { return &http.Client{Transport: fake.Transport()}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- m.Run(ctx) }()
	go func() {
		for {
			in, err := q.Receive(ctx)
			if err != nil {
				done <- nil
				return
			}
			answer(q, in)
		}
	}()
	synctest.Wait() // deltas that nobody reads yet are dropped
	return func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

func final(in bus.Inbound, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Final, ID: "final:" + in.ID, Route: in.Route, ReplyTo: in.Route.MessageID, Text: text, Meta: in.Meta, Turn: &bus.Turn{}}
}

func TestUnderManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := telegramtest.Offline()
		long := "intro\n\n```go\n" + strings.Repeat("fmt.Println(\"a < b\")\n", 500) + "```\n\nend"
		stop := house(t, fake, t.TempDir(), func(q bus.Queue, in bus.Inbound) {
			text := "**re** " + in.Text
			if in.Text == "long" {
				text = long
			}
			if err := q.Complete(t.Context(), in.ID, final(in, text)); err != nil {
				t.Error(err)
			}
		})
		fake.Fail(telegramtest.Failure{Method: "sendMessage", Code: 429, RetryAfter: 20}, telegramtest.Failure{Method: "sendMessage", Code: 500})
		fake.Say(42, "one")
		time.Sleep(10 * time.Second)
		if n := len(fake.Messages(42)); n != 0 {
			t.Errorf("%d messages before the 20 s that Telegram asked for are over", n)
		}
		time.Sleep(20 * time.Second)
		if got := fake.Messages(42); len(got) != 1 || got[0].Text != "<b>re</b> one" {
			t.Errorf("sent %+v", got)
		}
		if got := fake.Reaction(42, 1); got != "" {
			t.Errorf("reaction %q is left", got)
		}
		fake.Say(42, "long")
		time.Sleep(time.Minute)
		parts := fake.Messages(42)[1:]
		lines := 0
		for _, p := range parts {
			lines += strings.Count(p.Plain, "Println(\"a < b\")")
			if !p.HTML {
				t.Errorf("a part was sent without markup: %.60q", p.Text)
			}
		}
		if lines != 500 || len(parts) < 3 || !strings.HasSuffix(parts[len(parts)-1].Plain, "end") {
			t.Errorf("%d of 500 lines in %d parts", lines, len(parts))
		}
		stop()
	})
}

func TestStreamUnderManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := telegramtest.Offline()
		stop := house(t, fake, t.TempDir(), func(q bus.Queue, in bus.Inbound) {
			var text strings.Builder
			for i := range 40 {
				piece := fmt.Sprintf("**w%d** ", i)
				text.WriteString(piece)
				if err := q.Publish(t.Context(), bus.Outbound{Kind: bus.Delta, Route: in.Route, StreamID: "s", Text: piece, Meta: in.Meta}); err != nil {
					t.Error(err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			if err := q.Publish(t.Context(), bus.Outbound{Kind: bus.DeltaEnd, Route: in.Route, StreamID: "s", Meta: in.Meta}); err != nil {
				t.Error(err)
			}
			out := final(in, strings.TrimSpace(text.String()))
			out.Streamed = true
			if err := q.Complete(t.Context(), in.ID, out); err != nil {
				t.Error(err)
			}
		})
		fake.Say(42, "go")
		time.Sleep(time.Minute)
		got := fake.Messages(42)
		if len(got) != 1 {
			t.Fatalf("%d messages, want one that was edited", len(got))
		}
		m := got[0]
		if !m.HTML || !strings.HasPrefix(m.Text, "<b>w0</b>") || !strings.HasSuffix(m.Plain, "w39") {
			t.Errorf("at the end: %q", m.Text)
		}
		if n := len(m.Edits); n < 4 || n > 10 {
			t.Errorf("%d edits in 8 s, want one per second", n)
		}
		for _, e := range m.Edits[:len(m.Edits)-1] {
			if strings.Contains(e, "*") || strings.Contains(e, "<") {
				t.Errorf("a preview shows markup: %q", e)
			}
		}
		stop()
	})
}

// A restart between an answer and its delivery neither loses nor doubles it.
func TestRestartUnderManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, dir := telegramtest.Offline(), t.TempDir()
		answer := func(q bus.Queue, in bus.Inbound) {
			if err := q.Complete(t.Context(), in.ID, final(in, "re "+in.Text)); err != nil {
				t.Error(err)
			}
		}
		fake.Fail(telegramtest.Failure{Method: "sendMessage", Code: 500, Times: -1})
		stop := house(t, fake, dir, answer)
		for i := range 20 {
			fake.Say(int64(40+i%4), fmt.Sprint(i))
		}
		time.Sleep(10 * time.Second)
		stop()
		if n := len(fake.Messages(0)); n != 0 || fake.Pending() != 0 {
			t.Errorf("%d messages sent and %d updates pending while nothing can be sent", n, fake.Pending())
		}
		fake.Mend()
		stop = house(t, fake, dir, answer)
		time.Sleep(time.Minute)
		stop()
		if n := len(fake.Messages(0)); n != 20 || fake.Duplicates() != 0 {
			t.Errorf("%d messages with %d duplicates, want 20 and none", n, fake.Duplicates())
		}
		for c := range 4 {
			for k, m := range fake.Messages(int64(40 + c)) {
				if want := fmt.Sprint("re ", c+4*k); m.Plain != want {
					t.Errorf("message %d of chat %d is %q, want %q", k, 40+c, m.Plain, want)
				}
			}
		}
	})
}

// A text that was growing when the process ended goes on in the same message,
// in the group and the topic where it began.
func TestGrowingTextOutlivesProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, dir := telegramtest.Offline(), t.TempDir()
		name := "@" + telegramtest.BotName
		question := map[string]any{
			"text": name + " why?", "entities": []any{map[string]any{"type": "mention", "offset": 0, "length": len(name)}},
			"message_thread_id": 5, "is_topic_message": true, "chat": map[string]any{"id": -100, "type": "supergroup", "is_forum": true},
		}
		long := strings.Repeat("a line of text\n", 400) // two messages
		stop := house(t, fake, dir, func(q bus.Queue, in bus.Inbound) {
			if err := q.Publish(t.Context(), bus.Outbound{Kind: bus.Delta, Route: in.Route, StreamID: "s", Text: long}); err != nil {
				t.Error(err)
			}
		})
		fake.Post(question)
		time.Sleep(10 * time.Second)
		stop()
		began := fake.Messages(-100)
		if len(began) != 2 || began[0].Thread != 5 {
			t.Fatalf("%d messages show the growing text, want 2 in the topic", len(began))
		}
		stop = house(t, fake, dir, func(q bus.Queue, in bus.Inbound) {
			if err := q.Complete(t.Context(), in.ID, final(in, "Because.")); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Minute)
		stop()
		if got := fake.Messages(-100); len(got) != 1 || got[0].ID != began[0].ID || got[0].Plain != "Because." {
			t.Errorf("the chat shows %+v, want message %d alone with the answer", got, began[0].ID)
		}
	})
}
