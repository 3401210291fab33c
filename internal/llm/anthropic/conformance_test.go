package anthropic_test

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	with := func(idle time.Duration) func(t *testing.T, s *llmtest.Server) llm.Model {
		return func(t *testing.T, s *llmtest.Server) llm.Model {
			t.Helper()
			client, err := httpsafe.Client(httpsafe.Options{Direct: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.CloseIdleConnections)
			m, err := anthropic.New(anthropic.Options{
				BaseURL: s.URL, Key: httpsafe.NewSecret(llmtest.Key), Client: client, IdleTimeout: idle,
			})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	llmtest.Run(t, with(0), llmtest.Quirks{Model: "claude-sonnet-4-6", Impatient: with(50 * time.Millisecond)})
}
