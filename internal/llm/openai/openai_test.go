package openai_test

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
)

// model makes a driver for a fake server; change adjusts its options.
func model(t *testing.T, s *llmtest.Server, change ...func(*openai.Options)) llm.Model {
	t.Helper()
	client, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	o := openai.Options{Name: "fake", BaseURL: s.URL, Key: httpsafe.NewSecret(llmtest.Key), Client: client}
	for _, f := range change {
		f(&o)
	}
	m, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConformance(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, func(t *testing.T, s *llmtest.Server) llm.Model { return model(t, s) }, llmtest.Quirks{
		Impatient: func(t *testing.T, s *llmtest.Server, silence time.Duration) llm.Model {
			return model(t, s, func(o *openai.Options) { o.IdleTimeout = silence })
		},
	})
}
