package llm

import "strings"

// Wire is a protocol that a driver speaks.
type Wire string

// The wire protocols.
const (
	ChatWire      Wire = "chat"      // OpenAI Chat Completions
	AnthropicWire Wire = "anthropic" // Anthropic Messages
)

// ThinkingStyle is how a vendor wants thinking switched on and off.
type ThinkingStyle string

// The thinking styles; "" means the vendor has no switch.
const (
	ThinkingType   ThinkingStyle = "thinking_type"   // "thinking":{"type":"enabled"}
	EnableThinking ThinkingStyle = "enable_thinking" // "enable_thinking":true
	ReasoningSplit ThinkingStyle = "reasoning_split" // "reasoning_split":true
)

// Row describes a brand: where it is found, how its key is called and in what
// it deviates from its wire protocol. Rows are data; a driver reads the quirks
// and knows no names.
type Row struct {
	Name    string // as in the configuration, snake_case
	Display string
	Wire    Wire
	// Keywords identify models of the brand; they are compared with whole
	// words of a model name.
	Keywords []string
	EnvKeys  []string // environment variables that may hold the key
	BaseURL  string
	// DefaultModel is used when the user named none; "" for brands that serve
	// whatever was installed.
	DefaultModel string
	KeyPrefix    string // keys that start like this belong to the brand
	URLPart      string // base URLs that contain this belong to the brand

	Gateway bool // serves models of other brands
	Local   bool // runs on this machine or network; needs a base URL, no key
	Direct  bool // needs a base URL from the user; the key is optional
	Caching bool // takes prompt-cache markers for Anthropic models
	// StripPrefix sends only what follows the last slash of a model name.
	StripPrefix         bool
	MaxCompletionTokens bool // max_completion_tokens instead of max_tokens
	Thinking            ThinkingStyle
	GatewayReasoning    bool // takes "reasoning":{"effort"} for models with a thinking style
	ReasoningAsContent  bool // an answer without text is in the reasoning
	ReasoningBackfill   bool // thinking models reject assistant turns without reasoning_content
	NoReasoningBack     bool // rejects reasoning_content in history
	KeepSchemaSimple    bool // rejects $ref, unions and other rarely used JSON Schema
	ShortIDs            bool // tool call ids must be nine letters or digits
	FlatContent         bool // rejects lists of content blocks
	CacheKey            bool // takes prompt_cache_key
	ToolStream          bool // streams tool arguments only with tool_stream
	DeveloperRole       bool // o-series models want the system prompt as "developer"
	Attribution         bool // ranks callers by the attribution headers
	EffortAsSwitch      bool // knows only high effort and none
	FixedTemperature    bool // its thinking models choose their own temperature
	MinimumEffort       bool // spells the lowest effort "minimum"
}

// Catalogue lists the brands in order of priority: when nothing else decides,
// the first configured one is used, and gateways can serve most models.
func Catalogue() []Row {
	return []Row{
		{Name: "custom", Display: "Custom", Wire: ChatWire, Direct: true},
		{
			Name: "openrouter", Display: "OpenRouter", Wire: ChatWire, Keywords: []string{"openrouter"}, EnvKeys: []string{"OPENROUTER_API_KEY"},
			BaseURL: "https://openrouter.ai/api/v1", DefaultModel: "anthropic/claude-sonnet-4.5", KeyPrefix: "sk-or-", URLPart: "openrouter",
			Gateway: true, Caching: true, GatewayReasoning: true, Attribution: true,
		},
		{
			Name: "siliconflow", Display: "SiliconFlow", Wire: ChatWire, Keywords: []string{"siliconflow"}, EnvKeys: []string{"SILICONFLOW_API_KEY"},
			BaseURL: "https://api.siliconflow.cn/v1", DefaultModel: "deepseek-ai/DeepSeek-V3", URLPart: "siliconflow", Gateway: true,
		},
		{
			Name: "anthropic", Display: "Anthropic", Wire: AnthropicWire, Keywords: []string{"anthropic", "claude"}, EnvKeys: []string{"ANTHROPIC_API_KEY"},
			BaseURL: "https://api.anthropic.com", DefaultModel: "claude-sonnet-4-6", KeyPrefix: "sk-ant-", URLPart: "api.anthropic.com", Caching: true,
		},
		{
			Name: "openai", Display: "OpenAI", Wire: ChatWire, Keywords: []string{"openai", "gpt", "chatgpt", "o1", "o3", "o4"}, EnvKeys: []string{"OPENAI_API_KEY"},
			BaseURL: "https://api.openai.com/v1", DefaultModel: "gpt-4.1", URLPart: "api.openai.com",
			MaxCompletionTokens: true, NoReasoningBack: true, CacheKey: true, DeveloperRole: true,
		},
		{
			Name: "deepseek", Display: "DeepSeek", Wire: ChatWire, Keywords: []string{"deepseek"}, EnvKeys: []string{"DEEPSEEK_API_KEY"},
			BaseURL: "https://api.deepseek.com", DefaultModel: "deepseek-chat", URLPart: "api.deepseek.com",
			Thinking: ThinkingType, ReasoningBackfill: true, FlatContent: true,
		},
		{
			Name: "gemini", Display: "Gemini", Wire: ChatWire, Keywords: []string{"gemini", "gemma"}, EnvKeys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
			BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", DefaultModel: "gemini-2.5-flash", KeyPrefix: "AIza",
			URLPart: "generativelanguage.googleapis.com", NoReasoningBack: true, KeepSchemaSimple: true,
		},
		{
			Name: "zhipu", Display: "Zhipu AI", Wire: ChatWire, Keywords: []string{"zhipu", "glm", "zai"}, EnvKeys: []string{"ZAI_API_KEY", "ZHIPUAI_API_KEY"},
			BaseURL: "https://open.bigmodel.cn/api/paas/v4", DefaultModel: "glm-4.6", URLPart: "bigmodel.cn", ToolStream: true,
		},
		{
			Name: "dashscope", Display: "DashScope", Wire: ChatWire, Keywords: []string{"qwen", "dashscope"}, EnvKeys: []string{"DASHSCOPE_API_KEY"},
			BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1", DefaultModel: "qwen-plus", URLPart: "dashscope",
			Thinking: EnableThinking, MinimumEffort: true,
		},
		{
			Name: "moonshot", Display: "Moonshot", Wire: ChatWire, Keywords: []string{"moonshot", "kimi"}, EnvKeys: []string{"MOONSHOT_API_KEY"},
			BaseURL: "https://api.moonshot.ai/v1", DefaultModel: "kimi-k2.5", URLPart: "moonshot", ReasoningBackfill: true, FixedTemperature: true,
		},
		{
			Name: "mistral", Display: "Mistral", Wire: ChatWire, Keywords: []string{"mistral", "magistral", "ministral", "codestral", "devstral"},
			EnvKeys: []string{"MISTRAL_API_KEY"}, BaseURL: "https://api.mistral.ai/v1", DefaultModel: "mistral-large-latest", URLPart: "mistral.ai",
			NoReasoningBack: true, ShortIDs: true, EffortAsSwitch: true,
		},
		{
			Name: "stepfun", Display: "Step Fun", Wire: ChatWire, Keywords: []string{"stepfun", "step"}, EnvKeys: []string{"STEPFUN_API_KEY"},
			BaseURL: "https://api.stepfun.com/v1", URLPart: "stepfun", ReasoningAsContent: true,
		},
		{
			Name: "xai", Display: "xAI", Wire: ChatWire, Keywords: []string{"xai", "grok"}, EnvKeys: []string{"XAI_API_KEY"},
			BaseURL: "https://api.x.ai/v1", DefaultModel: "grok-4", KeyPrefix: "xai-", URLPart: "api.x.ai", NoReasoningBack: true,
		},
		{
			Name: "vllm", Display: "vLLM", Wire: ChatWire, Keywords: []string{"vllm"}, EnvKeys: []string{"HOSTED_VLLM_API_KEY"},
			BaseURL: "http://localhost:8000/v1", URLPart: ":8000", Local: true,
		},
		{
			Name: "ollama", Display: "Ollama", Wire: ChatWire, Keywords: []string{"ollama"}, EnvKeys: []string{"OLLAMA_API_KEY"},
			BaseURL: "http://localhost:11434/v1", URLPart: "11434", Local: true,
		},
		{
			Name: "lm_studio", Display: "LM Studio", Wire: ChatWire, Keywords: []string{"lm-studio", "lmstudio"}, EnvKeys: []string{"LM_STUDIO_API_KEY"},
			BaseURL: "http://localhost:1234/v1", URLPart: ":1234", Local: true,
		},
		{
			Name: "llamacpp", Display: "llama.cpp", Wire: ChatWire, Keywords: []string{"llamacpp"}, BaseURL: "http://localhost:8080/v1",
			URLPart: ":8080", Local: true,
		},
		{
			Name: "groq", Display: "Groq", Wire: ChatWire, Keywords: []string{"groq"}, EnvKeys: []string{"GROQ_API_KEY"},
			BaseURL: "https://api.groq.com/openai/v1", DefaultModel: "llama-3.3-70b-versatile", KeyPrefix: "gsk_", URLPart: "api.groq.com",
			NoReasoningBack: true,
		},
	}
}

// ContextWindow is the usual window, in tokens, of a model family; 0 if it is
// not known. Servers that report the real one are right instead.
func ContextWindow(model string) int {
	m := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
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
		{"gpt-5", 400_000},
		{"gpt-oss", 131_072},
		{"o1", 200_000},
		{"o3", 200_000},
		{"o4", 200_000},
		{"deepseek", 128_000},
		{"gemini", 1_048_576},
		{"kimi-k2", 256_000},
		{"glm-4.6", 200_000},
		{"glm-4", 128_000},
		{"grok-4", 256_000},
		{"grok-3", 131_072},
		{"mistral-large", 128_000},
		{"qwen-plus", 131_072},
	} {
		if strings.HasPrefix(m, f.prefix) {
			return f.window
		}
	}
	return 0
}
