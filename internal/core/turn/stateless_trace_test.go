package turn

import (
	"context"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// asker is a sink that keeps what was said.
type asker struct{ said []bus.Outbound }

func (a *asker) Emit(out bus.Outbound) { a.said = append(a.said, out) }
func (a *asker) Join()                 {}
func (a *asker) Done(error)            {}

// TestStatelessTrace: many requests with keys of their own leave nothing in
// memory, also not what they were told to be missing.
func TestStatelessTrace(t *testing.T) {
	t.Parallel()
	ws, data := t.TempDir(), t.TempDir()
	store, err := session.Open(session.Options{DataDir: data, Store: disk.Open(data, nil), Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.NewScript(t, llmtest.Reply("ok"))
	o := Options{
		Workspace: ws, Sessions: store,
		Tools:  Tools{Missing: func() map[string]string { return map[string]string{"mcp_x_": "x is away"} }},
		Models: Models{Runtime: func(context.Context, string) (Runtime, error) { return Runtime{Model: model, Name: "m"}, nil }},
	}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	e, err := New(&o, Host{Busy: func(string) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	who := &asker{}
	m := Message{In: bus.Inbound{Text: "hi", SessionKey: "api:1", Stateless: true}, Key: "api:1", Sink: who}
	around := Around{More: func(int) []Message { return nil }, EndsGoal: func() bool { return false }}
	if err := e.Stateless(t.Context(), m, around); err != nil {
		t.Fatal(err)
	}
	if n := len(who.said); n == 0 || who.said[n-1].Kind != bus.Final || who.said[n-1].Text != "ok" {
		t.Errorf("said: %+v", who.said)
	}
	if len(e.conversations.live)+len(e.tools.told)+len(e.running) != 0 {
		t.Errorf("left: %d conversations, %d notices, %d turns", len(e.conversations.live), len(e.tools.told), len(e.running))
	}
}
