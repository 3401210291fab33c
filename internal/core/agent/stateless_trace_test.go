package agent

import (
	"context"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// TestStatelessTrace: many requests with keys of their own leave no mailbox behind;
// see TestStatelessTrace in package turn.
func TestStatelessTrace(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	data := t.TempDir()
	store, err := session.Open(session.Options{DataDir: data, Store: disk.Open(data, nil), Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.NewScript(t, llmtest.Reply("ok"))
	a, err := New(Options{Options: turn.Options{
		Workspace: ws, Sessions: store,
		Models: turn.Models{Runtime: func(context.Context, string) (turn.Runtime, error) { return turn.Runtime{Model: model, Name: "m"}, nil }},
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
	if n := len(a.mailboxes.actors); n != 0 {
		t.Errorf("left: %d actors", n)
	}
}
