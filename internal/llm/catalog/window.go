package catalog

import "strings"

// ContextWindow is the usual window, in tokens, of a model family; 0 if it is
// not known. Servers that report the real one are right instead.
func ContextWindow(model string) int {
	m := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if _, name, ok := strings.Cut(m, "anthropic."); ok { // Bedrock: region.anthropic.model
		m = name
	}
	for _, f := range [...]struct {
		prefix string
		window int
	}{
		{"claude-2", 100_000},
		{"claude", 200_000},
		{"gpt-3.5", 16_385},
		{"gpt-4.1", 1_047_576},
		{"gpt-4o", 128_000},
		{"gpt-4-turbo", 128_000},
		{"gpt-4", 8_192},
		{"gpt-5.6", 372_000},
		{"gpt-5", 400_000},
		{"gpt-oss", 131_072},
		{"o1", 200_000},
		{"o3", 200_000},
		{"o4", 200_000},
		{"deepseek", 128_000},
		{"gemini", 1_048_576},
		{"kimi-k2", 256_000},
		{"kimi-for-coding", 256_000},
		{"glm-4.6", 200_000},
		{"glm-4", 128_000},
		{"grok-4.5", 500_000},
		{"grok-4", 256_000},
		{"grok-3", 131_072},
		{"mistral-large", 128_000},
		{"minimax-m2", 200_000},
		{"qwen-plus", 131_072},
		{"sonar-pro", 200_000},
		{"amazon.nova-micro", 128_000},
		{"amazon.nova", 300_000},
	} {
		if strings.HasPrefix(m, f.prefix) {
			return f.window
		}
	}
	return 0
}
