package anthropic_test

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	impatient := func(t *testing.T, s *llmtest.Server, idle time.Duration) llm.Model {
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
	patient := func(t *testing.T, s *llmtest.Server) llm.Model { t.Helper(); return impatient(t, s, 0) }
	llmtest.Run(t, patient, llmtest.Quirks{Model: "claude-sonnet-4-6", Impatient: impatient})
}
