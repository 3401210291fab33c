package dingtalk

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
)

type object = dingtalktest.Object

// The channel satisfies what the manager looks for.
var (
	_ chat.Signaller = (*bot)(nil)
)

// rig is a channel on a fake server.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *dingtalktest.Server
	*bot
	deps chat.Deps
}

// section is the configuration most tests use, with changes.
func section(fake *dingtalktest.Server, changes map[string]any) json.RawMessage {
	s := map[string]any{
		"enabled": true, "language": "en", "clientId": dingtalktest.ClientID, "clientSecret": dingtalktest.ClientSecret, "allowFrom": []string{"ann", "bob"},
		"apiBaseUrl": fake.URL(), "oapiBaseUrl": fake.URL(),
	}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

func loopback(t *testing.T) *dingtalktest.Server {
	t.Helper()
	fake := dingtalktest.New()
	t.Cleanup(fake.Close)
	return fake
}

// plainClient reaches the loopback.
func plainClient(t *testing.T) func(string) (*http.Client, error) {
	t.Helper()
	return func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
}

func newRig(t *testing.T, fake *dingtalktest.Server, changes map[string]any) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("dingtalk")
	r.deps.Client = plainClient(t)
	r.reopen(changes)
	return r
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	raw := section(r.fake, changes)
	r.deps.Gate = r.Gate("dingtalk", raw, nil)
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	b, ok := ch.(*bot)
	if !ok {
		r.t.Fatalf("New made a %T", ch)
	}
	r.bot = b
}

// begin starts the channel and waits until DingTalk has let it in; end stops it, which
// must not be an error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	before := len(r.States())
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return len(r.States()) > before })
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.Await("messages", func() bool { return len(r.Inbound()) >= n })
	return r.Inbound()
}

// answer is a part of an answer to a message.
func answer(in bus.Inbound, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Final, Route: in.Route, ReplyTo: in.Route.MessageID, Text: text, Meta: in.Meta}
}

// shown is a message in one piece: what was typed, then a line for each piece
// that was not.
func shown(in bus.Inbound) string {
	lines := []string{in.Text}
	if in.Untrusted {
		lines[0] = "(untrusted) " + in.Text
	}
	for _, q := range in.Quoted {
		lines = append(lines, "> "+q.About+": "+q.Text)
	}
	return strings.Join(lines, "\n")
}

// texts are what the bot said.
func texts(fake *dingtalktest.Server) []string {
	out := []string{}
	for _, m := range fake.Messages() {
		out = append(out, m.Text())
	}
	return out
}

// house runs sections under a manager, with an agent of the test.
func house(t *testing.T, sections map[string]json.RawMessage, agent func(ctx context.Context, q bus.Queue, in bus.Inbound) bus.Outbound) *deliver.Manager {
	t.Helper()
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(dir+"/bus", nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Drivers: map[string]chat.Driver{"dingtalk": Driver()}, Sections: sections, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3, Client: plainClient(t),
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
			out := agent(ctx, q, in)
			out.ID, out.Kind, out.Route, out.ReplyTo, out.Meta, out.Turn = "final:"+in.ID, bus.Final, in.Route, in.Route.MessageID, in.Meta, &bus.Turn{}
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
	await(t, "the channels to run", func() bool {
		return !slices.ContainsFunc(m.Status(), func(s deliver.Status) bool { return s.State != deliver.Running && s.Error == "" })
	})
	return m
}

// echo is an agent that repeats what it hears.
func echo(_ context.Context, _ bus.Queue, in bus.Inbound) bus.Outbound {
	return bus.Outbound{Text: "re: " + in.Text}
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
