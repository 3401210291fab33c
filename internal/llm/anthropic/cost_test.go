package anthropic_test

import (
	"net/http"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

func cannedModel(tb testing.TB, c *http.Client) llm.Model {
	tb.Helper()
	m, err := anthropic.New(anthropic.Options{Name: "fake", BaseURL: "https://api.fake.example/v1", Key: httpsafe.NewSecret(llmtest.Key), Client: c})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Memory is counted for the whole process, so nothing runs beside this test.
func TestStreamCost(t *testing.T) { // see above
	llmtest.StreamCost(t, cannedModel)
}

func BenchmarkLongStream(b *testing.B) { llmtest.BenchStream(b, cannedModel) }

func TestPromptPrefix(t *testing.T) {
	t.Parallel()
	llmtest.PromptPrefix(t, cannedModel)
}

func BenchmarkPromptPrefix(b *testing.B) { llmtest.BenchPrefix(b, cannedModel) }
