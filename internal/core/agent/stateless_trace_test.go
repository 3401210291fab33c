package agent

import (
	"context"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// TestStatelessTrace: many requests with keys of their own leave nothing in
// memory, also not what they were told to be missing.
func TestStatelessTrace(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	data := t.TempDir()
	store, err := session.Open(session.Options{DataDir: data, Store: disk.Open(data, nil), Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.NewScript(t, llmtest.Reply("ok"))
	a, err := New(Options{TurnOptions: TurnOptions{
		Workspace: ws, Sessions: store,
		Tools:  Tools{Missing: func() map[string]string { return map[string]string{"mcp_x_": "x is away"} }},
		Models: Models{Runtime: func(context.Context, string) (Runtime, error) { return Runtime{Model: model, Name: "m"}, nil }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a.Open(ctx)
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for _, err := range a.Ask(ctx, bus.Inbound{Text: "hi", SessionKey: "api:1", Stateless: true}) {
		if err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(a.engine.conversations.live)+len(a.mailboxes.actors)+len(a.engine.tools.told)+len(a.engine.running) != 0 {
		t.Errorf("left: %d conversations, %d actors, %d notices, %d turns", len(a.engine.conversations.live), len(a.mailboxes.actors), len(a.engine.tools.told), len(a.engine.running))
	}
}
