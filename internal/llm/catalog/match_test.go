package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// The names that users type and what must become of them.
func TestMatchTable(t *testing.T) {
	t.Parallel()
	cases := []struct {
		model, configured string
		want              string // "" = an error
		wire              string
		step              catalog.Step
		note              string // in the error, or in a warning
	}{
		{"anthropic/claude-opus-4-5", "anthropic", "anthropic", "claude-opus-4-5", catalog.ByPrefix, ""},
		{"anthropic/claude-opus-4-5", "openrouter", "openrouter", "anthropic/claude-opus-4-5", catalog.ByGateway, ""},
		{"anthropic/claude-opus-4-5", "anthropic openrouter", "anthropic", "claude-opus-4-5", catalog.ByPrefix, ""},
		{"anthropic/claude-opus-4-5", "aihubmix", "aihubmix", "claude-opus-4-5", catalog.ByGateway, ""},
		{"claude-sonnet-4-5", "openrouter", "openrouter", "claude-sonnet-4-5", catalog.ByGateway, `"anthropic/claude-sonnet-4-5"`},
		{"openrouter/auto", "openrouter", "openrouter", "openrouter/auto", catalog.ByPrefix, ""},
		{"gpt-4o", "openai", "openai", "gpt-4o", catalog.ByKeyword, ""},
		{"openai/gpt-4o", "openai", "openai", "gpt-4o", catalog.ByPrefix, ""},
		{"openai/gpt-4o", "openai openrouter", "openai", "gpt-4o", catalog.ByPrefix, ""},
		{"deepseek/deepseek-chat", "deepseek", "deepseek", "deepseek-chat", catalog.ByPrefix, ""},
		{"deepseek/deepseek-chat", "siliconflow", "siliconflow", "deepseek/deepseek-chat", catalog.ByGateway, ""},
		{"ollama/llama3.2", "ollama@", "ollama", "llama3.2", catalog.ByPrefix, ""},
		{"ollama/llama3.2", "", "ollama", "llama3.2", catalog.ByPrefix, ""},
		{"llama3.2", "ollama@", "ollama", "llama3.2", catalog.ByLocal, ""},
		{"llama3.2", "vllm@http://localhost:8000/v1 ollama@", "ollama", "llama3.2", catalog.ByLocal, ""},
		{"gpt-oss:20b", "ollama@", "ollama", "gpt-oss:20b", catalog.ByTag, ""},
		{"gpt-oss:20b", "openai ollama@", "ollama", "gpt-oss:20b", catalog.ByTag, ""},
		{"gemma3:4b", "gemini ollama@", "ollama", "gemma3:4b", catalog.ByTag, ""},
		{"qwen3:8b", "dashscope ollama@", "ollama", "qwen3:8b", catalog.ByTag, ""},
		{"nemotron-3-nano", "openrouter", "openrouter", "nemotron-3-nano", catalog.ByGateway, `"nvidia/nemotron-3-nano"`},
		{"nvidia/nemotron-3-super", "openrouter", "openrouter", "nvidia/nemotron-3-super", catalog.ByGateway, ""},
		{"nvidia/nemotron-3-super", "nvidia", "nvidia", "nvidia/nemotron-3-super", catalog.ByPrefix, ""},
		{"gemini-2.5-pro", "gemini", "gemini", "gemini-2.5-pro", catalog.ByKeyword, ""},
		{"kimi-k2.5", "moonshot", "moonshot", "kimi-k2.5", catalog.ByKeyword, ""},
		{"moonshotai/kimi-k2.5", "openrouter", "openrouter", "moonshotai/kimi-k2.5", catalog.ByGateway, ""},
		{"kimi-for-coding", "kimi_coding moonshot", "kimi_coding", "kimi-for-coding", catalog.ByKeyword, ""},
		{"github-copilot/gpt-5.3-codex", "", "github_copilot", "gpt-5.3-codex", catalog.ByPrefix, ""},
		{"openai-codex/gpt-5.1-codex", "", "openai_codex", "gpt-5.1-codex", catalog.ByPrefix, ""},
		{"gpt-5.3-codex", "openai", "openai", "gpt-5.3-codex", catalog.ByKeyword, ""},
		{"spark-max", "volcengine openrouter", "openrouter", "spark-max", catalog.ByGateway, ""},
		{"spring-7b", "ant_ling", "ant_ling", "spring-7b", catalog.ByDefault, ""}, // not by "ring"
		{"volcengine-plan/doubao-seed", "volcengine_coding_plan", "volcengine_coding_plan", "doubao-seed", catalog.ByPrefix, ""},
		{"bedrock/amazon.nova-lite-v1:0", "", "bedrock", "amazon.nova-lite-v1:0", catalog.ByPrefix, ""},
		{"anthropic.claude-sonnet-4-5", "anthropic", "anthropic", "anthropic.claude-sonnet-4-5", catalog.ByKeyword, ""},
		{"my-azure-deployment", "", "", "", "", "providers.azure_openai.apiBase"},
		{"companyProxy/gpt-4o", "companyProxy@", "companyProxy", "gpt-4o", catalog.ByPrefix, ""},
		{"xai-grok/grok-4.5", "", "xai_grok", "grok-4.5", catalog.ByPrefix, ""},
		{"opencode-go/deepseek-v4-flash", "opencode opencode_go", "opencode_go", "deepseek-v4-flash", catalog.ByPrefix, ""},
		{"modelscope/Qwen/Qwen3-32B", "modelscope", "modelscope", "Qwen/Qwen3-32B", catalog.ByPrefix, ""},
		{"Qwen/Qwen3-32B", "modelscope dashscope", "dashscope", "Qwen/Qwen3-32B", catalog.ByKeyword, ""},
		{"minimax_anthropic/MiniMax-M2", "minimax_anthropic", "minimax_anthropic", "MiniMax-M2", catalog.ByPrefix, ""},
		{"mixtral-8x7b", "groq", "groq", "mixtral-8x7b", catalog.ByDefault, ""},
		{"some-unknown", "groq deepseek", "", "", "", "deepseek, groq"},
		{"some-unknown", "custom@", "custom", "some-unknown", catalog.ByOwn, ""},
	}
	if len(cases) != 44 {
		t.Errorf("got %d examples, want 44", len(cases))
	}
	for _, c := range cases {
		t.Run(c.model+" with "+c.configured, func(t *testing.T) {
			t.Parallel()
			got, err := catalog.Match(catalog.MatchInput{Model: c.model, Providers: providers(c.configured), Getenv: func(string) string { return "" }})
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), c.note) {
					t.Errorf("got %s, error %v; want an error with %q", got.Name, err, c.note)
				}
				return
			}
			if err != nil || got.Name != c.want || got.WireModel != c.wire || got.Step != c.step {
				t.Errorf("got %s %q by %s (%s), %v; want %s %q by %s", got.Name, got.WireModel, got.Step, got.Why, err, c.want, c.wire, c.step)
			}
			if warned := strings.Join(got.Warnings, "\n"); !strings.Contains(warned, c.note) || c.note == "" && warned != "" {
				t.Errorf("warnings %q, want %q", warned, c.note)
			}
		})
	}
}

// What the examples leave open.
func TestMatchRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, model, provider, configured, env string
		want, wire                             string // want "" = an error that contains wire
	}{
		{"names are folded", "Open_AI/gpt-4o", "", "openai", "", "openai", "gpt-4o"},
		{"blocks are folded", "deepseek-chat", "", "Deep_Seek", "", "deepseek", "deepseek-chat"},
		{"forced names are folded", "m", "DeepSeek", "deep-seek", "", "deepseek", "m"},
		{"auto in capitals", "gpt-4o", "AUTO", "openai", "", "openai", "gpt-4o"},
		{"a sign-in is not taken by keyword", "copilot-x", "", "github_copilot", "", "", "no provider"},
		{"a sign-in is not the only one", "m", "", "openai_codex", "", "", "no provider"},
		{"a sign-in is taken by force", "gpt-4o", "github_copilot", "", "", "github_copilot", "gpt-4o"},
		{"a sign-in by its short name", "copilot/gpt-4.1", "", "", "", "github_copilot", "gpt-4.1"},
		{"speech is not chat", "universal", "", "assemblyai", "", "", "no provider"},
		{"speech by prefix", "assemblyai/universal", "", "assemblyai", "", "", "speech"},
		{"speech by force", "m", "assemblyai", "assemblyai", "", "", "speech"},
		{"azure", "my-azure-deployment", "", "azure_openai@https://x.openai.azure.com", "", "azure_openai", "my-azure-deployment"},
		{"azure by prefix", "azure/prod", "", "azure_openai@https://x.openai.azure.com", "", "azure_openai", "prod"},
		{"bedrock set up", "anthropic.claude-sonnet-4-5", "", "bedrock anthropic", "", "bedrock", "anthropic.claude-sonnet-4-5"},
		{"bedrock by region of the model", "us.anthropic.claude-sonnet-4-5-v1:0", "", "bedrock ollama@", "", "bedrock", "us.anthropic.claude-sonnet-4-5-v1:0"},
		{"bedrock from the environment", "meta.llama4", "", "", "AWS_BEARER_TOKEN_BEDROCK", "bedrock", "meta.llama4"},
		{"bedrock's words need their dot", "mistral-large", "", "bedrock mistral", "", "mistral", "mistral-large"},
		{"a vendor's other name", "google/gemini-2.5-pro", "", "gemini", "", "gemini", "gemini-2.5-pro"},
		{"a vendor's other name at a gateway", "google/gemini-2.5-pro", "", "openrouter", "", "openrouter", "google/gemini-2.5-pro"},
		{"a gateway's own name", "volcengine/doubao-seed", "", "volcengine", "", "volcengine", "doubao-seed"},
		{"a gateway's own models", "openrouter/anthropic/claude-x", "", "openrouter", "", "openrouter", "anthropic/claude-x"},
		{"opencode under its longer name", "opencode-zen/gpt-5", "", "opencode", "", "opencode", "gpt-5"},
		{"fireworks", "fireworks/accounts/fireworks/models/x", "", "fireworks", "", "fireworks", "accounts/fireworks/models/x"},
		{"one variable for two rows", "m", "", "", "MINIMAX_API_KEY", "minimax", "m"},
		{"two variables", "m", "", "", "GROQ_API_KEY CEREBRAS_API_KEY", "", "groq, cerebras"},
		{"a brand without a key and several others", "claude-x", "", "groq deepseek", "", "", "ANTHROPIC_API_KEY"},
		{"the custom endpoint before other keys", "house-model", "", "custom@ groq", "", "custom", "house-model"},
		{"own endpoints are asked about", "house-model", "", "mine@ groq", "", "", "groq, mine"},
		{"the only own endpoint", "house-model", "", "mine@", "", "mine", "house-model"},
		{"a name that yields", "m", "", "orcarouter@https://proxy.example/v1", "", "orcarouter", "m"},
		{"a name that yields, at its own address", "m", "", "orcarouter@https://api.orcarouter.ai/v2", "", "", "no provider"},
		{"a name that yields, by prefix", "together/m", "", "together@https://proxy.example/v1", "", "together", "m"},
		{"no model, a key before a server", "", "", "", "OLLAMA_HOST OPENAI_API_KEY", "openai", "gpt-4.1"},
		{"no model, brands with a default first", "", "", "", "LONGCAT_API_KEY GROQ_API_KEY", "groq", "llama-3.3-70b-versatile"},
		{"two blocks of one name", "m", "", "openai OpenAI", "", "", "the same provider"},
		{"a typo", "m", "antropic", "", "", "", "did you mean anthropic?"},
	} {
		t.Run(c.name, func(t *testing.T) {
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
				if err == nil || !strings.Contains(err.Error(), c.wire) || llm.AsError(err).Kind != llm.Configuration {
					t.Errorf("got %s (%s), error %v; want a configuration error with %q", got.Name, got.Why, err, c.wire)
				}
				return
			}
			if err != nil || got.Name != c.want || got.WireModel != c.wire {
				t.Errorf("got %s %q (%s), %v; want %s %q", got.Name, got.WireModel, got.Why, err, c.want, c.wire)
			}
		})
	}
}

func TestMatchEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, model, block string
		config             catalog.ProviderConfig
		wire               catalog.Wire
		base               string
	}{
		{"azure", "m", "azureOpenai", catalog.ProviderConfig{Base: "https://x.openai.azure.com/"}, catalog.ResponsesWire, "https://x.openai.azure.com/openai/v1"},
		{"azure, half a path", "m", "azure_openai", catalog.ProviderConfig{Base: "https://x.openai.azure.com/openai"}, catalog.ResponsesWire, "https://x.openai.azure.com/openai/v1"},
		{"azure by chat", "m", "azure_openai", catalog.ProviderConfig{Base: "https://x.openai.azure.com/openai/v1", Wire: catalog.ChatWire}, catalog.ChatWire, "https://x.openai.azure.com/openai/v1"},
		{"own by messages", "m", "mine", catalog.ProviderConfig{Base: "http://127.0.0.1:9", Wire: catalog.AnthropicWire}, catalog.AnthropicWire, "http://127.0.0.1:9"},
		{"own by responses", "m", "mine", catalog.ProviderConfig{Base: "https://x.example/v1", Wire: catalog.ResponsesWire}, catalog.ResponsesWire, "https://x.example/v1"},
		{"own at home", "m", "mine", catalog.ProviderConfig{Base: "http://192.168.1.9:9000"}, catalog.ChatWire, "http://192.168.1.9:9000/v1"},
		{"own elsewhere", "m", "mine", catalog.ProviderConfig{Base: "https://x.example"}, catalog.ChatWire, "https://x.example"},
		{"openvino", "m", "ovms", catalog.ProviderConfig{Base: "http://localhost:8000"}, catalog.ChatWire, "http://localhost:8000/v3"},
		{"a plan behind its URL", "m", "mine", catalog.ProviderConfig{Base: "https://opencode.ai/zen/go/v1"}, catalog.ChatWire, "https://opencode.ai/zen/go/v1"},
		{"bedrock", "m", "bedrock", catalog.ProviderConfig{Region: "eu-west-1"}, catalog.BedrockWire, ""},
		{"kimi coding", "kimi-for-coding", "kimi_coding", catalog.ProviderConfig{Key: httpsafe.NewSecret("k")}, catalog.AnthropicWire, "https://api.kimi.com/coding/v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := catalog.Match(catalog.MatchInput{Model: c.model, Providers: map[string]catalog.ProviderConfig{c.block: c.config}})
			if err != nil || got.Wires("")[0] != c.wire || got.Row.Wire != c.wire || got.Base != c.base || got.Block != c.block {
				t.Errorf("got %v at %q (block %q), %v; want %s at %q", got.Wires(""), got.Base, got.Block, err, c.wire, c.base)
			}
		})
	}
	got, err := catalog.Match(catalog.MatchInput{Model: "m", Providers: providers("mine@https://opencode.ai/zen/go/v1")})
	if err != nil || got.Row.Name != "opencode_go" {
		t.Errorf("got %s, %v; want the row with the longest part of the URL", got.Row.Name, err)
	}
	for _, c := range []struct{ block, wire string }{{"deepseek", "anthropic"}, {"openai", "anthropic"}, {"Groq", "responses"}, {"bedrock", "chat"}, {"mine", "smoke"}} {
		_, err := catalog.Match(catalog.MatchInput{Model: "m", Providers: map[string]catalog.ProviderConfig{c.block: {Base: "https://x.example", Wire: catalog.Wire(c.wire)}}})
		if err == nil || !strings.Contains(err.Error(), "providers."+c.block+".wire") {
			t.Errorf("%s with wire %s: error %v, want one about it", c.block, c.wire, err)
		}
	}
}

func TestWires(t *testing.T) {
	t.Parallel()
	const chat, both, only = "chat", "responses chat", "responses"
	for _, c := range []struct {
		model, effort, block string
		config               catalog.ProviderConfig
		want                 string
	}{
		{"gpt-4o", "", "openai", catalog.ProviderConfig{}, chat},
		{"gpt-4o", "none", "openai", catalog.ProviderConfig{}, chat},
		{"gpt-4o", "low", "openai", catalog.ProviderConfig{}, both},
		{"gpt-5", "", "openai", catalog.ProviderConfig{}, both},
		{"openai/gpt-5.1-mini", "none", "openai", catalog.ProviderConfig{}, both},
		{"o3", "", "openai", catalog.ProviderConfig{}, both},
		{"o3-mini", "", "openai", catalog.ProviderConfig{}, both},
		{"o30-large", "", "openai", catalog.ProviderConfig{}, chat},
		{"gpt-50", "", "openai", catalog.ProviderConfig{}, chat},
		{"gpt-5", "", "openai", catalog.ProviderConfig{APIType: "chat_completions"}, chat},
		{"gpt-4o", "", "openai", catalog.ProviderConfig{APIType: "responses"}, only},
		{"gpt-4o", "", "openai", catalog.ProviderConfig{Wire: catalog.ResponsesWire}, only},
		{"gpt-5", "high", "openai", catalog.ProviderConfig{Wire: catalog.ChatWire}, chat},
		{"gpt-5", "high", "openai", catalog.ProviderConfig{Base: "https://api.openai.com/v1"}, both},
		{"gpt-5", "high", "openai", catalog.ProviderConfig{Base: "https://proxy.example/v1"}, chat},
		{"gpt-5", "high", "openai", catalog.ProviderConfig{Base: "https://proxy.example/v1", APIType: "responses"}, only},
		{"gpt-5", "high", "mine", catalog.ProviderConfig{Base: "https://proxy.example/v1"}, chat},
		{"copilot/gpt-5.3-codex", "", "github_copilot", catalog.ProviderConfig{}, only},
		{"copilot/gpt-4.1", "high", "github_copilot", catalog.ProviderConfig{}, chat},
		{"deepseek-v4-flash-vision-exp", "", "deepseek", catalog.ProviderConfig{}, both},
		{"deepseek-chat", "high", "deepseek", catalog.ProviderConfig{}, chat},
		{"openai-codex/gpt-5.5", "", "openai_codex", catalog.ProviderConfig{}, only},
	} {
		c.config.Key = httpsafe.NewSecret("k")
		got, err := catalog.Match(catalog.MatchInput{Model: c.model, Providers: map[string]catalog.ProviderConfig{c.block: c.config}})
		if err != nil {
			t.Errorf("%s at %s: %v", c.model, c.block, err)
			continue
		}
		var words []string
		for _, w := range got.Wires(c.effort) {
			words = append(words, string(w))
		}
		if s := strings.Join(words, " "); s != c.want {
			t.Errorf("%s with effort %q at %s %+v: got %s, want %s", c.model, c.effort, c.block, c.config, s, c.want)
		}
	}
}

func TestMatchWarnings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ model, block, key, base, want string }{
		{"claude-x", "anthropic", "sk-ant-1", "", ""},
		{"gpt-4o", "openai", "sk-proj-1", "", ""},
		{"gpt-4o", "openai", "sk-ant-1", "", "Anthropic"},
		{"claude-x", "anthropic", "sk-or-v1-1", "", "OpenRouter"},
		{"claude-x", "anthropic", "gsk_1", "", "Groq"},
		{"claude-x", "anthropic", "AIzaX", "", "Gemini"},
		{"claude-x", "anthropic", "nvapi-1", "", "NVIDIA"},
		{"claude-x", "anthropic", "hf_1", "", "Hugging Face"},
		{"claude-x", "anthropic", "xai-1", "", "xAI"},
		{"kimi-k2.5", "moonshot", "sk-kimi-1", "", "Kimi Coding"},
		{"claude-x", "anthropic", "sk-or-v1-1", "https://proxy.example", ""}, // a proxy may want any key
		{"m", "mine", "sk-ant-1", "https://proxy.example/v1", ""},
		{"claude-x", "anthropic", `"sk-ant-1"`, "", "quotes"},
		{"claude-x", "groq", "gsk_1", "", "model of Anthropic"},
		{"openai/gpt-4o", "openrouter", "sk-or-1", "", ""},
		{"gemini-2.5-pro", "openrouter", "sk-or-1", "", `"google/gemini-2.5-pro"`},
	} {
		got, err := catalog.Match(catalog.MatchInput{
			Model: c.model, Providers: map[string]catalog.ProviderConfig{c.block: {Key: httpsafe.NewSecret(c.key), Base: c.base}},
		})
		warned := strings.Join(got.Warnings, "\n")
		if err != nil || !strings.Contains(warned, c.want) || c.want == "" && warned != "" {
			t.Errorf("%s at %s with %s: warnings %q, %v; want %q", c.model, c.block, c.key, warned, err, c.want)
		}
		if strings.Contains(warned, c.key) {
			t.Errorf("%s: the key is in %q", c.block, warned)
		}
	}
}
