package config

import "github.com/nanobot-go/nanobot/internal/base/httpsafe"

// Provider is one entry of providers. A zero field is unset, so that the
// catalog's own endpoint, headers and environment key can apply.
type Provider struct {
	APIKey             httpsafe.Secret            `json:"apiKey" doc:"API key."`
	APIBase            string                     `json:"apiBase" doc:"Base URL of the endpoint."`
	ExtraHeaders       map[string]httpsafe.Secret `json:"extraHeaders" doc:"HTTP headers added to every request."`
	ExtraBody          Raw                        `json:"extraBody" doc:"JSON merged over every request body."`
	ExtraQuery         map[string]httpsafe.Secret `json:"extraQuery" doc:"Query parameters added to every request."`
	Proxy              httpsafe.Secret            `json:"proxy" doc:"Proxy URL for this provider."`
	APIType            string                     `json:"apiType" enum:"auto|chat_completions|responses" doc:"OpenAI API to use; only for openai."`
	Wire               string                     `json:"wire" enum:"chat|responses|anthropic" doc:"Wire protocol of a custom endpoint."`
	ThinkingStyle      string                     `json:"thinkingStyle" enum:"thinking_type|enable_thinking|reasoning_split" doc:"How thinking is enabled."`
	DisplayName        string                     `json:"displayName" doc:"Name shown to users."`
	Region             string                     `json:"region" doc:"AWS region."`
	Profile            string                     `json:"profile" doc:"AWS profile."`
	StreamIdleTimeoutS int                        `json:"streamIdleTimeoutS" min:"0" max:"3600" doc:"Seconds a stream may stay silent; 0 uses the general limit."`
	FirstByteTimeoutS  int                        `json:"firstByteTimeoutS" min:"0" max:"3600" doc:"Seconds until the first byte of an answer; 0 uses the general limit."`
	RequestTimeoutS    int                        `json:"requestTimeoutS" min:"0" doc:"Seconds a request may take; 0 uses the general limit."`
	APIKeys            []httpsafe.Secret          `json:"apiKeys" doc:"Several API keys to distribute requests over."`
	KeyStrategy        string                     `json:"keyStrategy" enum:"rotate|order" doc:"How a key is selected from apiKeys: rotate distributes requests over all of them, order uses a later key only while the earlier ones are refused."`
	PerMinute          PerMinute                  `json:"perMinute" doc:"Limits of the account, for each key; further requests wait."`
	Claude             Claude                     `json:"claude" doc:"Settings of Claude models."`
	Caps               Caps                       `json:"caps" doc:"What the models of this provider can do, if nanobot is wrong about it; for single models use models.json next to this file."`
}

// Caps are abilities of models; nil leaves it to nanobot to find out.
type Caps struct {
	Vision *bool `json:"vision" doc:"The models read images; with false, none are sent."`
	Tools  *bool `json:"tools" doc:"The models call tools; with false, none are offered."`
}

// PerMinute bounds what an account may use in a minute; 0 is no limit.
type PerMinute struct {
	Requests int `json:"requests" min:"0" doc:"Requests per minute; 0 is no limit."`
	Tokens   int `json:"tokens" min:"0" doc:"Tokens per minute, of requests and answers; 0 is no limit."`
}

// Claude configures Claude models, whatever protocol they are reached with.
type Claude struct {
	Betas    []string `json:"betas" doc:"Names of beta features, sent as the anthropic-beta header."`
	CacheTTL string   `json:"cacheTtl" enum:"5m|1h" doc:"How long the provider keeps tools and system prompt in its cache; 5m if empty."`
}
