package discord

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/store/disk"
)

// house runs sections under a manager, with an agent that says "re: TEXT".
func house(t *testing.T, sections map[string]json.RawMessage) *channel.Manager {
	t.Helper()
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(dir+"/bus", nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := channel.NewManager(channel.Options{
		Queue: q, Drivers: map[string]channel.Driver{"discord": Driver()}, Sections: sections, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3, Client: plainClient(t),
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
			out := bus.Outbound{ID: "final:" + in.ID, Kind: bus.Final, Route: in.Route, ReplyTo: in.Route.MessageID, Text: "re: " + in.Text, Turn: &bus.Turn{}}
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
	for limit := time.After(time.Minute); !ok(); {
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
		return slices.ContainsFunc(m.Status(), func(s channel.Status) bool { return strings.Contains(s.Error, "discord") })
	})
	same.Write("42", same.DM("42"), "hi", nil)
	await(t, "the answer", func() bool { return len(same.Messages("")) > 0 })
}
