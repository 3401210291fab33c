package provider

// UsualProvider is a provider of the short list, with the page that gives keys.
type UsualProvider struct{ Name, About, Keys string }

// Usual returns the short list of providers.
func Usual() []UsualProvider {
	return []UsualProvider{
		{"openrouter", "one key for models of most makers", "https://openrouter.ai/keys"},
		{"anthropic", "Claude", "https://console.anthropic.com/settings/keys"},
		{"openai", "GPT", "https://platform.openai.com/api-keys"},
		{"gemini", "Google", "https://aistudio.google.com/apikey"},
		{"deepseek", "", "https://platform.deepseek.com/api_keys"},
		{"mistral", "", "https://console.mistral.ai/api-keys"},
		{"xai", "Grok", "https://console.x.ai"},
		{"groq", "open models, fast", "https://console.groq.com/keys"},
	}
}
