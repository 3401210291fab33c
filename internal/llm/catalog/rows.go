package catalog

import "github.com/nanobot-go/nanobot/internal/llm/wire"

// appendPlatforms adds clouds where the user has an endpoint of their own.
func appendPlatforms(rows []Row) []Row {
	return append(rows,
		Row{
			Name: "azure_openai", Display: "Azure OpenAI", Wire: ResponsesWire, Keywords: "azure azure-openai", Alias: "azure",
			BasePath: "/openai/v1", DefaultModel: "gpt-5.2-chat", Direct: true, APIKeyHeader: true,
			Quirks: wire.Quirks{MaxCompletionTokens: true, NoReasoningBack: true, CacheKey: true, DeveloperRole: true},
		},
		Row{
			Name: "bedrock", Display: "AWS Bedrock", Wire: BedrockWire,
			Keywords: "bedrock anthropic.claude amazon.nova meta. mistral. cohere. qwen. deepseek. openai.gpt-oss ai21. moonshot. writer. zai.",
			EnvKeys:  []string{"AWS_BEARER_TOKEN_BEDROCK"}, DefaultModel: "global.anthropic.claude-opus-4-7", Direct: true,
			Quirks: wire.Quirks{Caching: true},
		},
	)
}

// appendGateways adds brands that serve models of others.
func appendGateways(rows []Row) []Row {
	return append(rows,
		Row{
			Name: "openrouter", Display: "OpenRouter", Wire: ChatWire, Keywords: "openrouter", EnvKeys: []string{"OPENROUTER_API_KEY"},
			BaseURL: "https://openrouter.ai/api/v1", DefaultModel: "anthropic/claude-sonnet-4.5", KeyPrefix: "sk-or-", URLPart: "openrouter",
			OwnModels: "*", Gateway: true, VendorNames: true,
			Quirks: wire.Quirks{Caching: true, GatewayReasoning: true, Attribution: true},
		},
		Row{
			Name: "orcarouter", Display: "OrcaRouter", Wire: ChatWire, Keywords: "orcarouter", EnvKeys: []string{"ORCAROUTER_API_KEY"},
			BaseURL: "https://api.orcarouter.ai/v1", KeyPrefix: "sk-orca-", URLPart: "orcarouter", OwnModels: "*", Gateway: true, Yields: true,
		},
		Row{
			Name: "edenai", Display: "Eden AI", Wire: ChatWire, Keywords: "edenai", EnvKeys: []string{"EDENAI_API_KEY"},
			BaseURL: "https://api.edenai.run/v3", URLPart: "edenai", Gateway: true,
		},
		Row{
			Name: "opencode", Display: "OpenCode Zen", Wire: ChatWire, Keywords: "opencode", EnvKeys: []string{"OPENCODE_API_KEY"},
			Alias: "opencode_zen", BaseURL: "https://opencode.ai/zen/v1", URLPart: "opencode.ai/zen", Gateway: true,
		},
		Row{
			Name: "opencode_zen", Display: "OpenCode Zen", Wire: ChatWire, Keywords: "opencode-zen", EnvKeys: []string{"OPENCODE_API_KEY"},
			Alias: "opencode", BaseURL: "https://opencode.ai/zen/v1", URLPart: "opencode.ai/zen", Gateway: true,
		},
		Row{
			Name: "opencode_go", Display: "OpenCode Go", Wire: ChatWire, Keywords: "opencode-go", EnvKeys: []string{"OPENCODE_API_KEY"},
			BaseURL: "https://opencode.ai/zen/go/v1", URLPart: "opencode.ai/zen/go", Gateway: true,
		},
		Row{
			Name: "huggingface", Display: "Hugging Face", Wire: ChatWire, Keywords: "huggingface hugging-face", EnvKeys: []string{"HF_TOKEN"},
			BaseURL: "https://router.huggingface.co/v1", KeyPrefix: "hf_", URLPart: "huggingface", Gateway: true,
		},
		Row{
			Name: "skywork", Display: "Skywork", Wire: ChatWire, Keywords: "skywork skyclaw apifree",
			EnvKeys: []string{"SKYWORK_API_KEY", "APIFREE_API_KEY"}, BaseURL: "https://api.apifree.ai/agent/v1", URLPart: "apifree.ai", Gateway: true,
		},
		Row{
			Name: "aihubmix", Display: "AiHubMix", Wire: ChatWire, Keywords: "aihubmix", EnvKeys: []string{"AIHUBMIX_API_KEY"},
			BaseURL: "https://aihubmix.com/v1", URLPart: "aihubmix", Gateway: true, StripPrefix: true,
		},
		Row{
			Name: "siliconflow", Display: "SiliconFlow", Wire: ChatWire, Keywords: "siliconflow", EnvKeys: []string{"SILICONFLOW_API_KEY"},
			BaseURL: "https://api.siliconflow.cn/v1", DefaultModel: "deepseek-ai/DeepSeek-V3", URLPart: "siliconflow", Gateway: true,
		},
		Row{
			Name: "novita", Display: "Novita AI", Wire: ChatWire, Keywords: "novita", EnvKeys: []string{"NOVITA_API_KEY"},
			BaseURL: "https://api.novita.ai/openai", URLPart: "novita", Gateway: true,
		},
		Row{
			Name: "volcengine", Display: "VolcEngine", Wire: ChatWire, Keywords: "volcengine volces ark", EnvKeys: []string{"VOLCENGINE_API_KEY", "ARK_API_KEY"},
			BaseURL: "https://ark.cn-beijing.volces.com/api/v3", URLPart: "volces", Gateway: true,
			Quirks: wire.Quirks{MaxCompletionTokens: true, Thinking: wire.ThinkingType},
		},
		Row{
			Name: "volcengine_coding_plan", Display: "VolcEngine Coding Plan", Wire: ChatWire, Keywords: "volcengine-plan", Alias: "volcengine_plan",
			EnvKeys: []string{"VOLCENGINE_CODING_PLAN_API_KEY"}, BaseURL: "https://ark.cn-beijing.volces.com/api/coding/v3",
			URLPart: "volces.com/api/coding", Gateway: true, StripPrefix: true,
			Quirks: wire.Quirks{MaxCompletionTokens: true, Thinking: wire.ThinkingType},
		},
		Row{
			Name: "byteplus", Display: "BytePlus", Wire: ChatWire, Keywords: "byteplus", EnvKeys: []string{"BYTEPLUS_API_KEY"},
			BaseURL: "https://ark.ap-southeast.bytepluses.com/api/v3", URLPart: "bytepluses", Gateway: true, StripPrefix: true,
			Quirks: wire.Quirks{Thinking: wire.ThinkingType},
		},
		Row{
			Name: "byteplus_coding_plan", Display: "BytePlus Coding Plan", Wire: ChatWire, Keywords: "byteplus-plan", Alias: "byteplus_plan",
			EnvKeys: []string{"BYTEPLUS_CODING_PLAN_API_KEY"}, BaseURL: "https://ark.ap-southeast.bytepluses.com/api/coding/v3",
			URLPart: "bytepluses.com/api/coding", Gateway: true, StripPrefix: true,
			Quirks: wire.Quirks{Thinking: wire.ThinkingType},
		},
	)
}

// appendMakers adds brands that serve the models they made.
func appendMakers(rows []Row) []Row {
	return appendLaterMakers(append(rows,
		Row{
			Name: "anthropic", Display: "Anthropic", Wire: AnthropicWire, Keywords: "anthropic claude", EnvKeys: []string{"ANTHROPIC_API_KEY"},
			BaseURL: "https://api.anthropic.com", DefaultModel: "claude-sonnet-4-6", KeyPrefix: "sk-ant-", URLPart: "api.anthropic.com",
			Quirks: wire.Quirks{Caching: true},
		},
		Row{
			Name: "openai", Display: "OpenAI", Wire: ChatWire, Keywords: "openai gpt chatgpt o1 o3 o4", EnvKeys: []string{"OPENAI_API_KEY"},
			BaseURL: "https://api.openai.com/v1", DefaultModel: "gpt-4.1", URLPart: "api.openai.com",
			Responses: "gpt-5 o1 o3 o4", ResponsesEffort: true,
			Quirks: wire.Quirks{MaxCompletionTokens: true, NoReasoningBack: true, CacheKey: true, DeveloperRole: true},
		},
		Row{
			Name: "openai_codex", Display: "OpenAI Codex", Wire: ResponsesWire, Auth: "codex", Keywords: "openai-codex",
			BaseURL: "https://chatgpt.com/backend-api", DefaultModel: "gpt-5.6-sol",
			Models: "gpt-5.6-sol gpt-5.6-terra gpt-5.6-luna gpt-5.5 gpt-5.4 gpt-5.4-mini gpt-5.3-codex-spark",
			Quirks: wire.Quirks{NoReasoningBack: true, CacheKey: true},
		},
		Row{
			Name: "xai_grok", Display: "xAI Grok", Wire: ResponsesWire, Auth: "xai", Keywords: "xai-grok",
			BaseURL: "https://cli-chat-proxy.grok.com/v1", DefaultModel: "grok-4.5", Models: "grok-4.5",
			Quirks: wire.Quirks{NoReasoningBack: true},
		},
		Row{
			Name: "github_copilot", Display: "GitHub Copilot", Wire: ChatWire, Auth: "copilot", Keywords: "github-copilot copilot", Alias: "copilot",
			BaseURL: "https://api.githubcopilot.com", DefaultModel: "gpt-4.1", Responses: "gpt-5 o1 o3 o4", ResponsesOnly: true,
			StripPrefix: true,
			Quirks:      wire.Quirks{MaxCompletionTokens: true, NoReasoningBack: true},
		},
		Row{
			Name: "deepseek", Display: "DeepSeek", Wire: ChatWire, Keywords: "deepseek", EnvKeys: []string{"DEEPSEEK_API_KEY"},
			BaseURL: "https://api.deepseek.com", DefaultModel: "deepseek-chat", URLPart: "api.deepseek.com",
			Responses: "deepseek-v4-flash deepseek-v4-pro",
			Quirks:    wire.Quirks{Thinking: wire.ThinkingType, ReasoningBackfill: true, FlatContent: true},
		},
		Row{
			Name: "gemini", Display: "Gemini", Wire: ChatWire, Keywords: "gemini gemma", Vendor: "google", EnvKeys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
			BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", DefaultModel: "gemini-2.5-flash", KeyPrefix: "AIza",
			URLPart: "generativelanguage.googleapis.com",
			Quirks:  wire.Quirks{NoReasoningBack: true, KeepSchemaSimple: true},
		},
		Row{
			Name: "zhipu", Display: "Zhipu AI", Wire: ChatWire, Keywords: "zhipu glm zai", Vendor: "z-ai", EnvKeys: []string{"ZAI_API_KEY", "ZHIPUAI_API_KEY"},
			BaseURL: "https://open.bigmodel.cn/api/paas/v4", DefaultModel: "glm-4.6", URLPart: "bigmodel.cn",
			Quirks: wire.Quirks{ToolStream: true},
		},
		Row{
			Name: "dashscope", Display: "DashScope", Wire: ChatWire, Keywords: "qwen dashscope", EnvKeys: []string{"DASHSCOPE_API_KEY"},
			BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1", DefaultModel: "qwen-plus", URLPart: "dashscope",
			Quirks: wire.Quirks{Thinking: wire.EnableThinking, MinimumEffort: true},
		},
		Row{
			Name: "dashscope_intl", Display: "DashScope International", Wire: ChatWire, Keywords: "qwen dashscope-intl", EnvKeys: []string{"DASHSCOPE_INTL_API_KEY"},
			BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", DefaultModel: "qwen-plus", URLPart: "dashscope-intl",
			Yields: true,
			Quirks: wire.Quirks{Thinking: wire.EnableThinking, MinimumEffort: true},
		},
		Row{
			Name: "modelscope", Display: "ModelScope", Wire: ChatWire, Keywords: "modelscope", EnvKeys: []string{"MODELSCOPE_API_KEY"},
			BaseURL: "https://api-inference.modelscope.cn/v1", URLPart: "modelscope", Gateway: true,
			Quirks: wire.Quirks{Thinking: wire.EnableThinking},
		},
		Row{
			Name: "moonshot", Display: "Moonshot", Wire: ChatWire, Keywords: "moonshot kimi", Vendor: "moonshotai", EnvKeys: []string{"MOONSHOT_API_KEY"},
			BaseURL: "https://api.moonshot.ai/v1", DefaultModel: "kimi-k2.5", URLPart: "moonshot",
			Quirks: wire.Quirks{ReasoningBackfill: true, FixedTemperature: true},
		},
		Row{
			Name: "kimi_coding", Display: "Kimi Coding", Wire: AnthropicWire, Keywords: "kimi-coding kimi-for-coding",
			EnvKeys: []string{"KIMI_CODING_API_KEY"}, BaseURL: "https://api.kimi.com/coding/v1", DefaultModel: "kimi-for-coding",
			KeyPrefix: "sk-kimi-", URLPart: "api.kimi.com/coding",
		},
	))
}

func appendLaterMakers(rows []Row) []Row {
	return append(rows,
		Row{
			Name: "minimax", Display: "MiniMax", Wire: ChatWire, Keywords: "minimax", EnvKeys: []string{"MINIMAX_API_KEY"},
			BaseURL: "https://api.minimax.io/v1", DefaultModel: "MiniMax-M2", URLPart: "api.minimax",
			Quirks: wire.Quirks{Thinking: wire.ReasoningSplit},
		},
		Row{
			Name: "minimax_anthropic", Display: "MiniMax (Anthropic)", Wire: AnthropicWire, Keywords: "minimax-anthropic", EnvKeys: []string{"MINIMAX_API_KEY"},
			BaseURL: "https://api.minimax.io/anthropic", DefaultModel: "MiniMax-M2", URLPart: "api.minimax",
		},
		Row{
			Name: "mistral", Display: "Mistral", Wire: ChatWire, Keywords: "mistral magistral ministral codestral devstral",
			Vendor: "mistralai", EnvKeys: []string{"MISTRAL_API_KEY"}, BaseURL: "https://api.mistral.ai/v1", DefaultModel: "mistral-large-latest",
			URLPart: "mistral.ai",
			Quirks:  wire.Quirks{NoReasoningBack: true, ShortIDs: true, EffortAsSwitch: true},
		},
		Row{
			Name: "stepfun", Display: "Step Fun", Wire: ChatWire, Keywords: "stepfun step", EnvKeys: []string{"STEPFUN_API_KEY"},
			BaseURL: "https://api.stepfun.com/v1", URLPart: "stepfun",
			Quirks: wire.Quirks{ReasoningAsContent: true},
		},
		Row{
			Name: "xai", Display: "xAI", Wire: ChatWire, Keywords: "xai grok", Vendor: "x-ai", EnvKeys: []string{"XAI_API_KEY"},
			BaseURL: "https://api.x.ai/v1", DefaultModel: "grok-4", KeyPrefix: "xai-", URLPart: "api.x.ai", Yields: true,
			Quirks: wire.Quirks{NoReasoningBack: true},
		},
		Row{
			Name: "xiaomi_mimo", Display: "Xiaomi MiMo", Wire: ChatWire, Keywords: "xiaomi-mimo mimo", EnvKeys: []string{"XIAOMIMIMO_API_KEY"},
			BaseURL: "https://api.xiaomimimo.com/v1", DefaultModel: "mimo-v2.5-pro", URLPart: "xiaomimimo",
			Quirks: wire.Quirks{Thinking: wire.ThinkingType, ReasoningBackfill: true},
		},
		Row{
			Name: "longcat", Display: "LongCat", Wire: ChatWire, Keywords: "longcat", EnvKeys: []string{"LONGCAT_API_KEY"},
			BaseURL: "https://api.longcat.chat/openai/v1", URLPart: "longcat",
		},
		Row{
			Name: "ant_ling", Display: "Ant Ling", Wire: ChatWire, Keywords: "ant-ling ling ring", EnvKeys: []string{"ANT_LING_API_KEY"},
			BaseURL: "https://api.ant-ling.com/v1", URLPart: "ant-ling.com",
		},
	)
}

// appendLocal adds servers that run on the user's machine.
func appendLocal(rows []Row) []Row {
	return append(rows,
		Row{
			Name: "vllm", Display: "vLLM", Wire: ChatWire, Keywords: "vllm", EnvKeys: []string{"HOSTED_VLLM_API_KEY"},
			BaseURL: "http://localhost:8000/v1", BasePath: "/v1", Local: true,
		},
		Row{
			Name: "ollama", Display: "Ollama", Wire: ChatWire, Keywords: "ollama nemotron", EnvKeys: []string{"OLLAMA_API_KEY"},
			BaseURL: "http://localhost:11434/v1", BasePath: "/v1", URLPart: "11434", Local: true, Truncates: true,
		},
		Row{
			Name: "lm_studio", Display: "LM Studio", Wire: ChatWire, Keywords: "lm-studio lmstudio", EnvKeys: []string{"LM_STUDIO_API_KEY"},
			BaseURL: "http://localhost:1234/v1", BasePath: "/v1", URLPart: ":1234", Local: true,
		},
		Row{
			Name: "atomic_chat", Display: "Atomic Chat", Wire: ChatWire, Keywords: "atomic-chat atomicchat", EnvKeys: []string{"ATOMIC_CHAT_API_KEY"},
			BaseURL: "http://localhost:1337/v1", BasePath: "/v1", URLPart: ":1337", Local: true,
		},
		Row{
			Name: "ovms", Display: "OpenVINO Model Server", Wire: ChatWire, Keywords: "openvino ovms",
			BaseURL: "http://localhost:8000/v3", BasePath: "/v3", Local: true,
		},
		Row{
			Name: "llamacpp", Display: "llama.cpp", Wire: ChatWire, Keywords: "llamacpp", BaseURL: "http://localhost:8080/v1", BasePath: "/v1",
			URLPart: ":8080", Local: true,
		},
	)
}

// appendHosts adds brands that run open models of others on their machines.
func appendHosts(rows []Row) []Row {
	return append(rows,
		Row{
			Name: "nvidia", Display: "NVIDIA NIM", Wire: ChatWire, Keywords: "nvidia nemotron nvapi", EnvKeys: []string{"NVIDIA_NIM_API_KEY", "NVIDIA_API_KEY"},
			BaseURL: "https://integrate.api.nvidia.com/v1", KeyPrefix: "nvapi-", URLPart: "nvidia.com", OwnModels: "*",
		},
		Row{
			Name: "groq", Display: "Groq", Wire: ChatWire, Keywords: "groq", EnvKeys: []string{"GROQ_API_KEY"},
			BaseURL: "https://api.groq.com/openai/v1", DefaultModel: "llama-3.3-70b-versatile", KeyPrefix: "gsk_", URLPart: "api.groq.com",
			OwnModels: "compound",
			Quirks:    wire.Quirks{NoReasoningBack: true},
		},
		Row{
			Name: "assemblyai", Display: "AssemblyAI", Keywords: "assemblyai", EnvKeys: []string{"ASSEMBLYAI_API_KEY"},
			BaseURL: "https://api.assemblyai.com/v2", Speech: true,
		},
		Row{
			Name: "qianfan", Display: "Qianfan", Wire: ChatWire, Keywords: "qianfan ernie", EnvKeys: []string{"QIANFAN_API_KEY"},
			BaseURL: "https://qianfan.baidubce.com/v2", URLPart: "qianfan",
		},
		Row{
			Name: "cerebras", Display: "Cerebras", Wire: ChatWire, Keywords: "cerebras", EnvKeys: []string{"CEREBRAS_API_KEY"},
			BaseURL: "https://api.cerebras.ai/v1", DefaultModel: "gpt-oss-120b", KeyPrefix: "csk-", URLPart: "api.cerebras.ai", Yields: true,
			Quirks: wire.Quirks{NoReasoningBack: true},
		},
		Row{
			Name: "together", Display: "Together AI", Wire: ChatWire, Keywords: "together togethercomputer", EnvKeys: []string{"TOGETHER_API_KEY"},
			BaseURL: "https://api.together.xyz/v1", URLPart: "api.together.", Yields: true,
		},
		Row{
			Name: "fireworks", Display: "Fireworks AI", Wire: ChatWire, Keywords: "fireworks", EnvKeys: []string{"FIREWORKS_API_KEY"},
			BaseURL: "https://api.fireworks.ai/inference/v1", URLPart: "fireworks.ai", Yields: true,
		},
		Row{
			Name: "deepinfra", Display: "DeepInfra", Wire: ChatWire, Keywords: "deepinfra", EnvKeys: []string{"DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"},
			BaseURL: "https://api.deepinfra.com/v1/openai", URLPart: "deepinfra.com", Yields: true,
		},
		Row{
			Name: "perplexity", Display: "Perplexity", Wire: ChatWire, Keywords: "perplexity sonar", EnvKeys: []string{"PERPLEXITY_API_KEY"},
			BaseURL: "https://api.perplexity.ai", DefaultModel: "sonar-pro", KeyPrefix: "pplx-", URLPart: "api.perplexity.ai", Yields: true,
		},
		Row{
			Name: "sambanova", Display: "SambaNova", Wire: ChatWire, Keywords: "sambanova", EnvKeys: []string{"SAMBANOVA_API_KEY"},
			BaseURL: "https://api.sambanova.ai/v1", URLPart: "sambanova.ai", Yields: true,
		},
		Row{
			Name: "ollama_cloud", Display: "Ollama Cloud", Wire: ChatWire, Keywords: "ollama-cloud", EnvKeys: []string{"OLLAMA_CLOUD_API_KEY", "OLLAMA_API_KEY"},
			BaseURL: "https://ollama.com/v1", URLPart: "ollama.com", Yields: true,
		},
	)
}
