package catalog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

func factsFile(t *testing.T, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "models.json")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Each fact comes from the row that fits best and states it.
func TestFacts(t *testing.T) {
	t.Parallel()
	facts := catalog.NewFacts("")
	for model, want := range map[string]catalog.Fact{
		"openai/gpt-5.6-sol":            {Window: 372_000, Vision: catalog.Supported, Thinking: catalog.Supported, Always: true},
		"gpt-4o-mini":                   {Window: 128_000, Vision: catalog.Supported, Thinking: catalog.Unsupported},
		"o3-mini":                       {Window: 200_000, Vision: catalog.Unsupported, Thinking: catalog.Supported, Always: true},
		"claude-3-5-sonnet-latest":      {Window: 200_000, Vision: catalog.Supported, Thinking: catalog.Unsupported},
		"us.anthropic.claude-opus-4-7":  {Window: 200_000, Vision: catalog.Supported, Thinking: catalog.Supported},
		"qwen3-vl:8b":                   {Vision: catalog.Supported},
		"deepseek/deepseek-vision-next": {Window: 128_000, Vision: catalog.Supported},
		"some-model":                    {},
	} {
		if got := facts.Of(model); got != want {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
}

// The user's file adds models and corrects ours, fact by fact.
func TestOwnFacts(t *testing.T) {
	t.Parallel()
	facts := catalog.NewFacts(factsFile(t, `{"models": [
		{"model": "house-llm*", "window": 32000, "vision": true, "thinking": "always", "tools": false},
		{"model": "house-llm-small", "window": 8000},
		{"model": "GPT-4o*", "window": 64000}]}`))
	if err := facts.Err(); err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]catalog.Fact{
		"lan/house-llm-2": {Window: 32_000, Vision: catalog.Supported, Tools: catalog.Unsupported, Thinking: catalog.Supported, Always: true},
		"house-llm-small": {Window: 8_000, Vision: catalog.Supported, Tools: catalog.Unsupported, Thinking: catalog.Supported, Always: true},
		"gpt-4o":          {Window: 64_000, Vision: catalog.Supported, Thinking: catalog.Unsupported},
	} {
		if got := facts.Of(model); got != want {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
}

// A damaged file is named with what is wrong, and our own facts stay.
func TestDamagedFacts(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"models": [`: "unexpected EOF",
		`{"models": [{"model": "gpt-4o*", "windw": 5}]}`:                            `unknown field "windw"`,
		`{"models": [{"model": "a"}, {"model": "gpt-4o*", "thinking": "perhaps"}]}`: `row 2 (gpt-4o*): thinking "perhaps": want yes, no or always`,
		`{"models": [{"window": 5}]}`:                                               "row 1: model must be a name or a pattern",
		`{"models": [{"model": "gpt-4o*", "window": -5}]}`:                          "window is below zero",
	} {
		file := factsFile(t, body)
		facts := catalog.NewFacts(file)
		if err := facts.Err(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", body, err)
		}
		if got := facts.Of("gpt-4o").Window; got != 128_000 {
			t.Errorf("%s: window %d", body, got)
		}
	}
}
