package config_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/config"
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

// TestDescribeKnowsEverySetting: every setting has a description, and the default
// that is shown is the one in effect.
func TestDescribeKnowsEverySetting(t *testing.T) {
	t.Parallel()
	text := `{"providers":{"mine":{"apiBase":"http://localhost:1"}},"modelPresets":{"p":{"model":"m"}}}`
	l, err := config.Load(config.Options{Path: "/nowhere/config.json", Home: "/home/u", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]config.Explanation{}
	for _, top := range []string{"agents", "channels", "providers", "modelPresets", "transcription", "api", "gateway", "tools"} {
		es, err := l.Describe(top)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			seen[e.Path] = e
			if e.Doc == "" && !strings.HasSuffix(e.Path, ".label") {
				t.Errorf("%s has no description", e.Path)
			}
			if e.Source.Layer == config.LayerDefault && e.Value != e.Source.Value && e.Path != "agents.defaults.workspace" {
				t.Errorf("%s is %s, but its default is shown as %s", e.Path, e.Value, e.Source.Value)
			}
		}
	}
	for _, path := range config.Paths(nil) {
		if _, ok := seen[path]; !ok && path != "providers" && path != "modelPresets" {
			t.Errorf("%s is not described", path)
		}
	}
	for path, want := range map[string]string{
		"agents.defaults.workspace": `"/home/u/.nanobot/workspace"`,
		"modelPresets.p.maxTokens":  "8192",
		"providers.mine.caps.tools": "null",
		"agents.defaults.maxTokens": "8192",
	} {
		e, ok := seen[path]
		if !ok {
			t.Errorf("%s is not described", path)
			continue
		}
		got := e.Source.Value
		if n := len(e.Shadowed); n > 0 {
			got = e.Shadowed[n-1].Value
		}
		if got != want {
			t.Errorf("the default of %s is shown as %s, want %s", path, got, want)
		}
	}

	es, err := l.Describe("modelPresets.other.temperature") // not there yet
	if err != nil || len(es) != 1 || es[0].Source.Value != "0.1" {
		t.Errorf("got %+v, %v", es, err)
	}
}
