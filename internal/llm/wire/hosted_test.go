package wire_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// What a provider tells about its own tools is bounded.
func TestHostedIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	sources := []wire.Source{{URL: "https://" + long}}
	for range 20 {
		sources = append(sources, wire.Source{URL: "https://a.example", Title: long})
	}
	p := wire.Hosted("end", "1", "web_search", []string{"a", "b", "c", "d", long}, sources).Tool
	if p.Arguments != "a; b; c; d" || strings.Count(p.Result, `"url"`) != 8 || len(p.Result) > 8*400 {
		t.Errorf("arguments %q, result of %d bytes", p.Arguments, len(p.Result))
	}
	if p := wire.Hosted("start", "1", "web_search", []string{long}, nil).Tool; len(p.Arguments) > 1010 || p.Result != "" {
		t.Errorf("arguments of %d bytes, result %q", len(p.Arguments), p.Result)
	}
}
