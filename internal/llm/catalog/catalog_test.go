package catalog_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// providers reads "name" (a key), "name@" (a base URL of its own) or "name@url".
func providers(spec string) map[string]catalog.ProviderConfig {
	out := map[string]catalog.ProviderConfig{}
	for word := range strings.FieldsSeq(spec) {
		name, base, hasBase := strings.Cut(word, "@")
		var c catalog.ProviderConfig
		if !hasBase {
			c.Key = httpsafe.NewSecret("key-" + name)
		}
		if c.Base = base; hasBase && base == "" {
			c.Base = map[string]string{
				"ollama": "http://localhost:11434", "vllm": "http://10.0.0.1:9000/v1", "lm_studio": "http://localhost:1234/v1",
			}[name]
			if c.Base == "" {
				c.Base = "https://llm.example/v1"
			}
		}
		out[name] = c
	}
	return out
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model, provider, configured, env string
		want, wire                       string // want "" = an error
	}{
		{"anthropic/claude-opus-4-5", "", "anthropic", "", "anthropic", "claude-opus-4-5"},
		{"anthropic/claude-opus-4-5", "", "openrouter", "", "openrouter", "anthropic/claude-opus-4-5"},
		{"anthropic/claude-opus-4-5", "", "anthropic openrouter", "", "anthropic", "claude-opus-4-5"},
		{"claude-sonnet-4-5", "", "openrouter", "", "openrouter", "claude-sonnet-4-5"},
		{"openrouter/auto", "", "openrouter", "", "openrouter", "openrouter/auto"},
		{"openrouter/anthropic/claude-x", "", "openrouter", "", "openrouter", "anthropic/claude-x"},
		{"gpt-4o", "", "openai", "", "openai", "gpt-4o"},
		{"openai/gpt-4o", "", "openai", "", "openai", "gpt-4o"},
		{"openai/gpt-4o", "", "openai openrouter", "", "openai", "gpt-4o"},
		{"o3-mini", "", "openai groq", "", "openai", "o3-mini"},
		{"deepseek/deepseek-chat", "", "deepseek", "", "deepseek", "deepseek-chat"},
		{"deepseek/deepseek-chat", "", "siliconflow", "", "siliconflow", "deepseek/deepseek-chat"},
		{"ollama/llama3.2", "", "ollama@", "", "ollama", "llama3.2"},
		{"ollama/llama3.2", "", "", "", "ollama", "llama3.2"},
		{"llama3.2", "", "ollama@", "", "ollama", "llama3.2"},
		{"llama3.2", "", "vllm@ ollama@", "", "ollama", "llama3.2"},
		{"gpt-oss:20b", "", "ollama@", "", "ollama", "gpt-oss:20b"},
		{"gpt-oss:20b", "", "openai ollama@", "", "ollama", "gpt-oss:20b"},
		{"gemma3:4b", "", "gemini ollama@", "", "ollama", "gemma3:4b"},
		{"qwen3:8b", "", "dashscope ollama@", "", "ollama", "qwen3:8b"},
		{"qwen3-max", "", "dashscope openrouter", "", "dashscope", "qwen3-max"},
		{"deepseek/deepseek-r1:free", "", "openrouter ollama@", "", "openrouter", "deepseek/deepseek-r1:free"},
		{"nemotron-3-nano", "", "openrouter", "", "openrouter", "nemotron-3-nano"},
		{"nvidia/nemotron-3-super", "", "openrouter", "", "openrouter", "nvidia/nemotron-3-super"},
		{"gemini-2.5-pro", "", "gemini", "", "gemini", "gemini-2.5-pro"},
		{"kimi-k2.5", "", "moonshot", "", "moonshot", "kimi-k2.5"},
		{"moonshotai/kimi-k2.5", "", "openrouter", "", "openrouter", "moonshotai/kimi-k2.5"},
		{"spark-max", "", "openrouter", "", "openrouter", "spark-max"},
		{"step-by-steps", "", "stepfun groq", "", "stepfun", "step-by-steps"},
		{"footstep-1", "", "stepfun openrouter", "", "openrouter", "footstep-1"},
		{"anthropic.claude-sonnet-4-5", "", "anthropic", "", "anthropic", "anthropic.claude-sonnet-4-5"},
		{"gpt-mistral-merge", "", "openai mistral", "", "mistral", "gpt-mistral-merge"}, // the longest keyword
		{"my-azure-deployment", "", "", "", "", ""},
		{"companyProxy/gpt-4o", "", "companyProxy@", "", "companyProxy", "gpt-4o"},
		{"company-proxy/gpt-4o", "", "companyProxy@ openai", "", "companyProxy", "gpt-4o"},
		{"Qwen/Qwen3-32B", "", "siliconflow dashscope", "", "dashscope", "Qwen/Qwen3-32B"},
		{"mixtral-8x7b", "", "groq", "", "groq", "mixtral-8x7b"},
		{"groq/compound", "", "groq", "", "groq", "groq/compound"},
		{"groq/llama-3.3", "", "groq", "", "groq", "llama-3.3"},
		{"some-unknown", "", "groq deepseek", "", "", ""},
		{"some-unknown", "", "custom@", "", "custom", "some-unknown"},
		{"lm-studio/qwen", "", "", "", "lm_studio", "qwen"},
		{"lmStudio/qwen", "", "lmStudio@http://localhost:1234", "", "lm_studio", "qwen"},

		// Forced.
		{"claude-x", "openrouter", "anthropic openrouter", "", "openrouter", "claude-x"},
		{"m", "companyproxy", "companyProxy@", "", "companyProxy", "m"},
		{"m", "lm-studio", "", "", "lm_studio", "m"},
		{"m", "openai", "", "", "", ""},
		{"m", "nobody", "openai", "", "", ""},
		{"m", "custom", "openai", "", "", ""}, // no base URL

		// Keys from the environment.
		{"claude-sonnet-4-6", "", "", "ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-4-6"},
		{"", "", "", "ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-4-6"},
		{"", "", "", "GROQ_API_KEY OPENAI_API_KEY", "openai", "gpt-4.1"},
		{"", "", "ollama@", "", "", ""}, // which of the installed models?
		{"gpt-4o", "", "openrouter", "OPENAI_API_KEY", "openai", "gpt-4o"},
		{"openai/gpt-4o", "", "openrouter", "OPENAI_API_KEY", "openrouter", "openai/gpt-4o"},
		{"claude-x", "", "groq", "ANTHROPIC_API_KEY", "anthropic", "claude-x"},
		{"some-unknown", "", "groq", "ANTHROPIC_API_KEY", "groq", "some-unknown"},
		{"x", "", "", "OLLAMA_API_KEY", "ollama_cloud", "x"}, // a key does not make a server here
		{"x", "", "", "OLLAMA_HOST", "ollama", "x"},
		{"", "", "", "", "", ""},
	} {
		t.Run(c.model+" "+c.provider+" "+c.configured+" "+c.env, func(t *testing.T) {
			t.Parallel()
			got, err := catalog.Match(catalog.MatchInput{
				Model: c.model, Provider: c.provider, Providers: providers(c.configured),
				Getenv: func(k string) string {
					if slices.Contains(strings.Fields(c.env), k) {
						return "0.0.0.0"
					}
					return ""
				},
			})
			if c.want == "" {
				if err == nil || llm.AsError(err).Kind != llm.Configuration {
					t.Errorf("got %s (%s), %v; want a configuration error", got.Name, got.Why, err)
				}
				return
			}
			if err != nil || got.Name != c.want || got.WireModel != c.wire || got.Why == "" || got.Base == "" {
				t.Errorf("got %s %q (%s), %v; want %s %q", got.Name, got.WireModel, got.Why, err, c.want, c.wire)
			}
		})
	}
}

func TestMatchDetails(t *testing.T) {
	t.Parallel()
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	match := func(in catalog.MatchInput) catalog.Choice {
		t.Helper()
		c, err := catalog.Match(in)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := match(catalog.MatchInput{Model: "gpt-4o", Getenv: env("OPENAI_API_KEY", "sk-1")})
	if c.Key.Reveal() != "sk-1" || c.KeySource != "environment variable OPENAI_API_KEY" || c.Base != "https://api.openai.com/v1" {
		t.Errorf("key from the environment: %+v", c)
	}
	c = match(catalog.MatchInput{Model: "gpt-4o", Providers: providers("openai"), Getenv: env("OPENAI_API_KEY", "sk-1")})
	if c.Key.Reveal() != "key-openai" || c.KeySource != "providers.openai.apiKey" {
		t.Errorf("the file goes before the environment: %+v", c)
	}
	c = match(catalog.MatchInput{Model: "x", Getenv: env("OPENAI_API_KEY", "sk-or-v1-abc")})
	if c.Row.Name != "openrouter" || c.Base != "https://openrouter.ai/api/v1" {
		t.Errorf("an OpenRouter key: %s at %s", c.Row.Name, c.Base)
	}
	c = match(catalog.MatchInput{Model: "x", Providers: providers("mine@https://openrouter.ai/api/v1/")})
	if c.Name != "mine" || !c.Row.Caching || !c.Row.Direct || c.Base != "https://openrouter.ai/api/v1" {
		t.Errorf("a custom block with OpenRouter's URL: %+v", c)
	}
	for host, want := range map[string]string{
		"0.0.0.0": "http://127.0.0.1:11434/v1", "box:1": "http://box:1/v1", "https://o.example": "https://o.example/v1",
	} {
		if c := match(catalog.MatchInput{Model: "ollama/x", Getenv: env("OLLAMA_HOST", host)}); c.Base != want {
			t.Errorf("OLLAMA_HOST %q: base %s, want %s", host, c.Base, want)
		}
	}
	c = match(catalog.MatchInput{Model: "ollama/x", Providers: providers("ollama@http://localhost:11434/")})
	if c.Base != "http://localhost:11434/v1" {
		t.Errorf("local base without a path: %s", c.Base)
	}
}

func TestMatchErrorsNameThePlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   catalog.MatchInput
		want []string
	}{
		{catalog.MatchInput{Model: "anthropic/claude-x"}, []string{"Anthropic", "providers.anthropic.apiKey", "ANTHROPIC_API_KEY"}},
		{catalog.MatchInput{Model: "gpt-4o"}, []string{"providers.openai.apiKey", "OPENAI_API_KEY"}},
		{catalog.MatchInput{Model: "x", Provider: "zhipu"}, []string{"ZAI_API_KEY or ZHIPUAI_API_KEY"}},
		{catalog.MatchInput{Model: "x"}, []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "providers"}},
		{catalog.MatchInput{Model: "x", Provider: "custom"}, []string{"providers.custom.apiBase"}},
		{catalog.MatchInput{Model: "x", Provider: "opnai"}, []string{`"opnai"`, "openai"}},
	} {
		_, err := catalog.Match(c.in)
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: error %v does not mention %q", c.in, err, w)
			}
		}
	}
}

func TestRowsAreConsistent(t *testing.T) {
	t.Parallel()
	names, envs := map[string]bool{}, map[string]string{}
	for _, r := range catalog.Rows() {
		if names[r.Name] || r.Name != strings.ToLower(r.Name) || strings.Contains(r.Name, "-") || r.Display == "" {
			t.Errorf("row %q: bad or repeated name, or no display name", r.Name)
		}
		names[r.Name] = true
		switch r.Wire {
		case catalog.ChatWire, catalog.ResponsesWire, catalog.AnthropicWire, catalog.BedrockWire:
		default:
			if !r.Speech {
				t.Errorf("row %s: wire %q", r.Name, r.Wire)
			}
		}
		if r.BaseURL == "" && !r.Direct || strings.HasSuffix(r.BaseURL, "/") {
			t.Errorf("row %s: base URL %q", r.Name, r.BaseURL)
		}
		for _, e := range r.EnvKeys {
			family, _, _ := strings.Cut(r.Name, "_")
			if other := envs[e]; other != "" && !strings.HasPrefix(other, family) {
				t.Errorf("rows %s and %s share %s", other, r.Name, e)
			}
			envs[e] = r.Name
		}
		for k := range strings.FieldsSeq(r.Keywords) {
			if k != strings.ToLower(k) || strings.Contains(k, "_") {
				t.Errorf("row %s: keyword %q", r.Name, k)
			}
		}
	}
	for _, n := range []string{"anthropic", "openai", "openrouter", "deepseek", "custom", "ollama"} {
		if !names[n] {
			t.Errorf("no row %s in %v", n, slices.Sorted(maps.Keys(names)))
		}
	}
}

func TestContextWindow(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]int{
		"anthropic/claude-opus-4-5": 200_000, "gpt-4o-mini": 128_000, "gpt-4.1": 1_047_576, "gpt-4": 8_192, "openai/gpt-5.1": 400_000,
		"deepseek-chat": 128_000, "llama3.2": 0, "": 0,
	} {
		if got := catalog.NewFacts("").Of(model).Window; got != want {
			t.Errorf("the window of %q = %d, want %d", model, got, want)
		}
	}
}

// The page must tell of every brand, its variables and its address.
func TestProvidersPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(line, "| `") {
			lines[name] = line
		}
	}
	for _, r := range catalog.Rows() {
		_, address, _ := strings.Cut(r.BaseURL, "://")
		for _, want := range append([]string{string(r.Wire), address}, r.EnvKeys...) {
			if !strings.Contains(lines[r.Name], want) {
				t.Errorf("docs/reference/providers.md: no %q in the line of %s: %q", want, r.Name, lines[r.Name])
			}
		}
		delete(lines, r.Name)
	}
	if len(lines) > 0 {
		t.Errorf("docs/reference/providers.md lists what is not in the catalog: %v", slices.Sorted(maps.Keys(lines)))
	}
}
