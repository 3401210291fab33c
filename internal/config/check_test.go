package config_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/config"
)

func TestChoicesAreChecked(t *testing.T) {
	t.Parallel()
	for text, path := range map[string]string{
		`{"agents":{"defaults":{"reasoningEffort":"hihg"}}}`:                                   "agents.defaults.reasoningEffort",
		`{"modelPresets":{"p":{"model":"m","reasoningEffort":"wild"}}}`:                        "modelPresets.p.reasoningEffort",
		`{"agents":{"defaults":{"fallbackModels":[{"model":"m","reasoningEffort":"a lot"}]}}}`: "agents.defaults.fallbackModels.0.reasoningEffort",
		`{"providers":{"openai":{"keyStrategy":"wild"}}}`:                                      "providers.openai.keyStrategy",
	} {
		_, err := config.Load(config.Options{Path: "/nowhere/config.json", Text: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestChoicesMayBeInCapitals(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Path: "/nowhere/config.json", Text: []byte(`{"agents":{"defaults":{"reasoningEffort":"High"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Config.Agents.Defaults.ReasoningEffort; got != "high" {
		t.Errorf("got %q", got)
	}
}

func TestParseNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.1.2.3":       "10.1.2.3/32",
		" 10.0.0.0/8 ":   "10.0.0.0/8",
		"fd00::1":        "fd00::1/128",
		"fe80::1%eth0":   "",
		"printer.local":  "",
		"10.1.2.3/33":    "",
		"192.168.1.0/24": "192.168.1.0/24",
	} {
		got, err := config.ParseNetwork(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q is %v, %v; want %q", text, got, err, want)
		}
	}
}
