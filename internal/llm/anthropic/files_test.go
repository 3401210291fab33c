package anthropic_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// TestCases replays the conformance files.
func TestCases(t *testing.T) {
	t.Parallel()
	llmtest.Conformance(t, "msgs", caseModel)
}

func TestHistoriesComeBack(t *testing.T) {
	t.Parallel()
	llmtest.RoundTrip(t, "msgs", "claude-sonnet-4-6", caseModel)
}

// caseModel makes a driver for an offline server.
func caseModel(t *testing.T, s *llmtest.Server, o llmtest.Setup) llm.Model {
	t.Helper()
	m, err := anthropic.New(anthropic.Options{
		Name: "fake", BaseURL: s.URL, Key: httpsafe.NewSecret(llmtest.Key), Client: s.Client(), IdleTimeout: o.IdleTimeout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
