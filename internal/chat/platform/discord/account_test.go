package discord

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

// house runs sections under a manager, with an agent that says "re: TEXT".
func house(t *testing.T, sections map[string]json.RawMessage) *deliver.Manager {
	t.Helper()
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(dir+"/bus", nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Drivers: map[string]chat.Driver{"discord": Driver()}, Sections: sections, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3, Client: plainClient(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		for {
			in, err := q.Receive(ctx)
			if err != nil {
				return
			}
			text := "re: " + in.Text
			if in.Text == "a long one" {
				text = strings.TrimSpace(strings.Repeat("many words in a line\n\n", 250))
				for part := range strings.SplitAfterSeq(text, "\n") {
					if err := q.Publish(ctx, bus.Outbound{Kind: bus.Delta, Route: in.Route, StreamID: in.ID, Text: part}); err != nil {
						return
					}
				}
			}
			out := bus.Outbound{ID: "final:" + in.ID, Kind: bus.Final, Route: in.Route, ReplyTo: in.Route.MessageID, Text: text, Turn: &bus.Turn{}}
			if err := q.Complete(ctx, in.ID, out); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(10 * time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Two accounts run side by side; the same account twice does not.
func TestAccounts(t *testing.T) {
	t.Parallel()
	one, two := loopback(t), loopback(t)
	two.SetBot("998")
	house(t, map[string]json.RawMessage{"discord": section(one, nil), "discord.work": section(two, nil)})
	await(t, "both connections", func() bool { return one.Connected() == 1 && two.Connected() == 1 })
	one.Write("42", one.DM("42"), "home", nil)
	two.Write("42", two.DM("42"), "work", nil)
	await(t, "both answers", func() bool { return len(one.Messages("")) == 1 && len(two.Messages("")) == 1 })
	if got := slices.Concat(contents(one, ""), contents(two, "")); !slices.Equal(got, []string{"re: home", "re: work"}) {
		t.Errorf("answers %q", got)
	}

	same := loopback(t)
	m := house(t, map[string]json.RawMessage{"discord": section(same, nil), "discord.copy": section(same, nil)})
	await(t, "one of them to be refused", func() bool {
		return slices.ContainsFunc(m.Status(), func(s deliver.Status) bool { return strings.Contains(s.Error, "discord") })
	})
	same.Write("42", same.DM("42"), "hi", nil)
	await(t, "the answer", func() bool { return len(same.Messages("")) > 0 })
}

// A message whose confirmation is lost is not sent again: Discord knows its key.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	m := house(t, map[string]json.RawMessage{"discord": section(fake, nil)})
	await(t, "the connection", func() bool { return m.Status()[0].State == deliver.Running })
	chatID := fake.DM("42")
	fake.Fail(discordtest.Failure{Method: "POST", Path: "/channels/" + chatID + "/messages", After: true, Times: 2})
	fake.Write("42", chatID, "hi", nil)
	await(t, "the third try", func() bool { return len(fake.Calls("POST", "/channels/"+chatID+"/messages")) == 3 })
	await(t, "an empty queue", func() bool { return m.Status()[0].Queue == 0 })
	if got := contents(fake, chatID); !slices.Equal(got, []string{"re: hi"}) {
		t.Errorf("people see %q", got)
	}
}

// An answer that is longer than a message grows in several of them, each within
// the limit and all of it once.
func TestLongStream(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	m := house(t, map[string]json.RawMessage{"discord": section(fake, nil)})
	await(t, "the connection", func() bool { return m.Status()[0].State == deliver.Running })
	chatID := fake.DM("42")
	fake.Write("42", chatID, "a long one", nil)
	await(t, "all of it", func() bool { return strings.Count(strings.Join(contents(fake, chatID), "\n"), "many words") >= 250 })
	await(t, "an empty queue", func() bool { return m.Status()[0].Queue == 0 })
	list := contents(fake, chatID)
	if n := strings.Count(strings.Join(list, "\n"), "many words in a line"); n != 250 || len(list) < 3 {
		t.Errorf("%d lines in %d messages", n, len(list))
	}
	for _, c := range fake.Calls("", "/messages") {
		if c.Status >= 400 && (c.Method == "POST" || c.Method == "PATCH") {
			t.Errorf("%s %s: %d", c.Method, c.Path, c.Status)
		}
	}
}
