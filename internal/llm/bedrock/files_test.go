package bedrock_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// TestCases replays the conformance files.
func TestCases(t *testing.T) {
	t.Parallel()
	llmtest.Conformance(t, "bedr", caseModel)
}

func TestHistoriesComeBack(t *testing.T) {
	t.Parallel()
	llmtest.RoundTrip(t, "bedr", "anthropic.claude-sonnet-4-6", caseModel)
}

// caseModel makes a driver for an offline server.
func caseModel(t *testing.T, s *llmtest.Server, o llmtest.Setup) llm.Model {
	t.Helper()
	m, err := bedrock.New(bedrock.Options{
		Name: "fake", Region: "us-east-1", BaseURL: s.Host(), Key: httpsafe.NewSecret(llmtest.Key), Client: s.Client(), IdleTimeout: o.IdleTimeout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
