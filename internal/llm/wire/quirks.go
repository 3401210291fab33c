package wire

// ThinkingStyle is how a vendor wants thinking switched on and off.
type ThinkingStyle string

// The thinking styles; "" means the vendor has no switch.
const (
	ThinkingType   ThinkingStyle = "thinking_type"   // "thinking":{"type":"enabled"}
	EnableThinking ThinkingStyle = "enable_thinking" // "enable_thinking":true
	ReasoningSplit ThinkingStyle = "reasoning_split" // "reasoning_split":true
)

// Quirks are the ways in which a vendor deviates from its wire protocol. Drivers
// read them and know no names of vendors.
type Quirks struct {
	Caching             bool // takes prompt-cache markers for Anthropic models
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
