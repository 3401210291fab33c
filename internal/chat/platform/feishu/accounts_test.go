package feishu

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// manage runs the channels of sections with an agent that echoes.
func manage(t *testing.T, sections map[string]json.RawMessage) *deliver.Manager {
	t.Helper()
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(dir+"/bus", nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Drivers: map[string]chat.Driver{"feishu": Driver()}, Sections: sections, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3, Client: httpClient(t),
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
			out := bus.Outbound{ID: "final:" + in.ID, Kind: bus.Final, Route: in.Route, Text: "re: " + in.Text, Meta: in.Meta, Turn: &bus.Turn{}}
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

func eventually(t *testing.T, what string, ok func() bool) {
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

// The same app in two sections, or twice in the list of one, runs once; the
// other one says which section has it. An app of the same id at Lark is another
// one.
func TestSharedApp(t *testing.T) {
	t.Parallel()
	for name, sections := range map[string]func(fake *feishutest.Server) map[string]json.RawMessage{
		"sections": func(fake *feishutest.Server) map[string]json.RawMessage {
			return map[string]json.RawMessage{"feishu": section(t, fake, nil), "feishu.work": section(t, fake, nil)}
		},
		"instances": func(fake *feishutest.Server) map[string]json.RawMessage {
			app := map[string]any{"appId": feishutest.AppID}
			return map[string]json.RawMessage{"feishu": section(t, fake, map[string]any{"appId": "", "instances": []any{app, map[string]any{"id": "work", "appId": " " + feishutest.AppID}}})}
		},
		"both": func(fake *feishutest.Server) map[string]json.RawMessage {
			app := map[string]any{"appId": feishutest.AppID}
			return map[string]json.RawMessage{"feishu": section(t, fake, map[string]any{"instances": []any{app}}), "feishu.work": section(t, fake, nil)}
		},
	} {
		fake := feishutest.New()
		t.Cleanup(fake.Close)
		m := manage(t, sections(fake))
		var refused, running []deliver.Status
		eventually(t, name+": one to run and one to be refused", func() bool {
			refused, running = nil, nil
			for _, s := range m.Status() {
				switch s.State {
				case deliver.Running:
					running = append(running, s)
				case deliver.Failed:
					refused = append(refused, s)
				}
			}
			return len(refused) == 1 && len(running) == 1 && fake.Connected() == 1
		})
		if want := "channels." + refused[0].Name + " is the same account as channels." + running[0].Name + " (feishu:" + feishutest.AppID + ")"; !strings.Contains(refused[0].Error, want) {
			t.Errorf("%s: the status says %q, want %q", name, refused[0].Error, want)
		}
		fake.Say(feishutest.Message{Content: feishutest.Text("hi")})
		eventually(t, name+": the answer", func() bool { return len(fake.Messages("")) > 0 })
	}

	fake := feishutest.New()
	t.Cleanup(fake.Close)
	m := manage(t, map[string]json.RawMessage{"feishu": section(t, fake, nil), "feishu.work": section(t, fake, map[string]any{"domain": "lark"})})
	eventually(t, "both to run", func() bool { return fake.Connected() == 2 && len(m.Status()) == 2 })
}
