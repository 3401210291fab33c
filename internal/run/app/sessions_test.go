package app_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// tools.sessions.enable offers the tools about other conversations, and the
// search finds what was said in them.
func TestSessionTools(t *testing.T) {
	t.Parallel()
	for enabled, conf := range map[bool]string{false: `{}`, true: `{"tools":{"sessions":{"enable":true}}}`} {
		m := llmtest.NewScript(t)
		m.Otherwise = func(req llm.Request) llmtest.Step {
			last := req.Messages[len(req.Messages)-1]
			if last.Role == llm.User && strings.Contains(last.Content.String(), "find it") {
				return llmtest.Call("search_sessions", map[string]any{"query": "rhubarb"})
			}
			return llmtest.Reply("said: " + last.Content.String())
		}
		a, err := openWith(t, m, conf)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		a.Agent.Open(ctx)
		over := make(chan error, 1)
		go func() { over <- a.Run(ctx) }()
		ask := func(chat, text string) (final string) {
			in := bus.Inbound{Route: bus.Route{Channel: "cli", ChatID: chat}, SenderID: "u", Text: text}
			for out, err := range a.Agent.Ask(t.Context(), in) {
				if err != nil {
					t.Fatal(err)
				}
				if out.Kind == bus.Final {
					final = out.Text
				}
			}
			return final
		}
		ask("one", "the rhubarb is ripe")
		got := ask("two", "find it")
		if strings.Contains(got, "rhubarb is ripe") != enabled || strings.Contains(got, `"session_key":"cli:one"`) != enabled {
			t.Errorf("enabled %v: %s", enabled, got)
		}
		stop()
		if err := errors.Join(<-over, a.Close()); err != nil {
			t.Error(err)
		}
	}
}
