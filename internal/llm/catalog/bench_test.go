package catalog_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

func BenchmarkRows(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if len(catalog.Rows()) < 50 {
			b.Fatal("rows are missing")
		}
	}
}

// A start asks once.
func BenchmarkMatch(b *testing.B) {
	b.ReportAllocs()
	in := catalog.MatchInput{Model: "anthropic/claude-sonnet-4.5", Providers: providers("openrouter groq"), Getenv: func(string) string { return "" }}
	for b.Loop() {
		if c, err := catalog.Match(in); err != nil || c.Name != "openrouter" {
			b.Fatal(c.Name, err)
		}
	}
}
