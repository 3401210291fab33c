package slack

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
)

// Two accounts run side by side; a second section of the same account is
// refused with a sentence.
func TestAccounts(t *testing.T) {
	t.Parallel()
	one, two := newFake(t), newFake(t)
	two.SetTeam("T0WORK")
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3, Drivers: map[string]chat.Driver{"slack": Driver()},
		Sections: map[string]json.RawMessage{"slack": section(one, nil), "slack.work": section(two, nil), "slack.zwei": section(one, nil)},
		Client: func(string) (*http.Client, error) {
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			return &http.Client{Transport: transport}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() { echo(ctx, t, q) })
	defer func() {
		cancel()
		wg.Wait()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()

	await(t, "the states", func() bool {
		count := map[deliver.Condition]int{}
		for _, s := range m.Status() {
			count[s.State]++
		}
		return count[deliver.Running] == 2 && count[deliver.Failed] == 1
	})
	for _, s := range m.Status() {
		if s.State == deliver.Failed && !strings.Contains(s.Error, "slack") {
			t.Errorf("the refused section says %q", s.Error)
		}
	}
	one.Say("U0ANN", "to one")
	two.Say("U0ANN", "to two")
	for fake, want := range map[*slacktest.Server]string{one: "re: to one", two: "re: to two"} {
		await(t, want, func() bool { return len(fake.Messages("")) > 0 })
		if got := fake.Messages(""); len(got) != 1 || got[0].Plain != want {
			t.Errorf("people see %+v, want %q", got, want)
		}
	}
}

// echo is an agent that repeats.
func echo(ctx context.Context, t *testing.T, q bus.Queue) {
	t.Helper()
	for {
		in, err := q.Receive(ctx)
		if err != nil {
			return
		}
		out := bus.Outbound{ID: "final:" + in.ID, Kind: bus.Final, Route: in.Route, Text: "re: " + in.Text}
		if err := q.Complete(ctx, in.ID, out); err != nil {
			t.Error(err)
		}
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(10 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
