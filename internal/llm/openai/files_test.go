package openai_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
)

// TestCases replays the conformance files. Those of the wire "err" are about
// the layers around a driver; they are shown over this one.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{"chat", "strm", "err"} {
		llmtest.Conformance(t, wire, caseModel)
	}
}

func TestHistoriesComeBack(t *testing.T) {
	t.Parallel()
	llmtest.RoundTrip(t, "chat", "test-model", caseModel)
}

// caseModel makes a driver for an offline server.
func caseModel(t *testing.T, s *llmtest.Server, o llmtest.Setup) llm.Model {
	t.Helper()
	m, err := openai.New(openai.Options{
		Name: "fake", BaseURL: s.URL, Key: httpsafe.NewSecret(llmtest.Key), Client: s.Client(), Row: o.Quirks(), IdleTimeout: o.IdleTimeout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
