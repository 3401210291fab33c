package wecom

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

// An answer of WeCom that comes after its caller left is not taken for that of
// the next command about the same message.
func TestLateConfirmation(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	in := r.opened(wecomtest.Message{Text: "hi"})
	r.fake.Mute(false, true)
	ctx, cancel := context.WithCancel(t.Context())
	delta := reply(in, bus.Delta, "It")
	delta.StreamID = "s"
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _, _ = r.Send(ctx, delta) })
	r.Await("the preview", func() bool { return len(r.fake.Frames(cmdRespond)) == 2 })
	r.fake.Fail(cmdRespond, 40058, "no")
	cancel()
	final := make(chan error, 1)
	wg.Go(func() {
		_, err := r.Send(t.Context(), reply(in, bus.Final, "It is four."))
		final <- err
	})
	r.fake.Mute(false, false)
	if err := <-final; !chat.IsPermanent(err) {
		t.Errorf("an answer that WeCom refused: %v", err)
	}
}

// A turn that is stopped leaves one message, finished, with what was said and
// done so far.
func TestStoppedTurn(t *testing.T) {
	t.Parallel()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	section := commonSection(t, chat.Common{Enabled: true, Lists: access.Lists{AllowFrom: []string{wecomtest.Ann}}, SendToolHints: &yes}, fake, wecomtest.BotID)
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3,
		Drivers: map[string]chat.Driver{"wecom": Driver()}, Sections: map[string]json.RawMessage{"wecom": section},
		Client: func(string) (*http.Client, error) { return loopback(t), nil },
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
	defer func() {
		cancel()
		wg.Wait()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()

	fake.Say(wecomtest.Message{From: wecomtest.Ann, Text: "hi"})
	in, err := q.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []bus.Outbound{
		{Kind: bus.Delta, StreamID: "s0", Text: "I look."},
		{Kind: bus.DeltaEnd, StreamID: "s0", Resuming: true},
		{Kind: bus.ToolHint, Text: "web_search"},
		{Kind: bus.Delta, StreamID: "s1", Text: "It is"},
	} {
		out.Route, out.Meta = in.Route, in.Meta
		if err := q.Publish(ctx, out); err != nil {
			t.Fatal(err)
		}
	}
	rig := chattest.NewRig(t)
	whole := "I look.\n\nweb_search\n\nIt is"
	rig.Await("the preview", func() bool {
		return slices.ContainsFunc(fake.Shown(), func(s wecomtest.Shown) bool { return s.Text == whole && !s.Finished })
	})
	if err := q.Complete(ctx, in.ID); err != nil {
		t.Fatal(err)
	}
	if err := q.Publish(ctx, bus.Outbound{Kind: bus.Ended, Route: in.Route, Turn: &bus.Turn{StopReason: "stopped"}}); err != nil {
		t.Fatal(err)
	}
	rig.Await("the end", func() bool { return fake.Shown()[0].Finished })
	var got []string
	for _, s := range fake.Shown() {
		got = append(got, s.Kind+": "+s.Text)
	}
	if d := cmp.Diff([]string{"stream: " + whole}, got); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
}
