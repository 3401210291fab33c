package responses_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
)

// TestCases replays the conformance files.
func TestCases(t *testing.T) {
	t.Parallel()
	llmtest.Conformance(t, "resp", caseModel)
}

func TestHistoriesComeBack(t *testing.T) {
	t.Parallel()
	llmtest.RoundTrip(t, "resp", "gpt-5-mini", caseModel)
}

// caseModel makes a driver for an offline server.
func caseModel(t *testing.T, s *llmtest.Server, o llmtest.Setup) llm.Model {
	t.Helper()
	key := httpsafe.NewSecret(llmtest.Key)
	m, err := responses.New(responses.Options{Name: "fake", BaseURL: s.URL, Key: key, Client: s.Client(), Quirks: o.Quirks(), IdleTimeout: o.IdleTimeout()})
	if err != nil {
		t.Fatal(err)
	}
	if !o.Chat {
		return m
	}
	chat, err := openai.New(openai.Options{Name: "fake", BaseURL: s.URL, Key: key, Client: s.Client(), Quirks: o.Quirks()})
	if err != nil {
		t.Fatal(err)
	}
	return responses.WithChat(m, chat, responses.ChatOptions{})
}
