package responses_test

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
)

// model makes a driver for a fake server; change adjusts its options.
func model(t *testing.T, s *llmtest.Server, change ...func(*responses.Options)) llm.Model {
	t.Helper()
	llmtest.SpeakResponses(s)
	client, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	o := responses.Options{Name: "fake", BaseURL: s.URL, Key: httpsafe.NewSecret(llmtest.Key), Client: client}
	for _, f := range change {
		f(&o)
	}
	m, err := responses.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*responses.Options){
		"plain": func(*responses.Options) {},
		"codex": func(o *responses.Options) { o.Codex = true },
		"azure": func(o *responses.Options) { o.KeyHeader = "api-key" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			llmtest.Run(t, func(t *testing.T, s *llmtest.Server) llm.Model { return model(t, s, change) }, llmtest.Quirks{
				Model: "gpt-5-mini",
				Impatient: func(t *testing.T, s *llmtest.Server, silence time.Duration) llm.Model {
					return model(t, s, change, func(o *responses.Options) { o.IdleTimeout = silence })
				},
			})
		})
	}
}
