// Package catalog hides what is known about providers and models: where a brand is
// found, how its key is called, which protocol it speaks and how it deviates from
// that. Match decides which provider serves a model and says why, Survey lists the
// state of all providers, ListModels asks one for its models, and Facts holds what
// is known about a model without asking.
package catalog

import "github.com/nanobot-go/nanobot/internal/llm/wire"

// Wire is a protocol that a driver speaks.
type Wire string

// The wire protocols.
const (
	ChatWire      Wire = "chat"      // OpenAI Chat Completions
	ResponsesWire Wire = "responses" // OpenAI Responses
	AnthropicWire Wire = "anthropic" // Anthropic Messages
	BedrockWire   Wire = "bedrock"   // AWS Bedrock Converse
)

// Row describes a brand: where it is found, how its key is called and in what
// it deviates from its wire protocol. Rows are data; drivers get the Quirks and
// know no names.
type Row struct {
	Name    string // as in the configuration, snake_case
	Display string
	Wire    Wire
	// Auth names the sign-in that replaces a key: "copilot", "codex" or "xai".
	// Such rows are chosen only by name.
	Auth string
	// Keywords, separated by spaces like all lists here, identify models of
	// the brand; they are compared with whole words of a model name. One with
	// a dot is compared as it is, at the beginning of a word, because the dot
	// is part of the name there.
	Keywords string
	// Vendor is how gateways call the brand in front of a slash, if that is
	// not its name.
	Vendor  string
	Alias   string   // another name for it in front of a slash
	EnvKeys []string // environment variables that may hold the key
	BaseURL string
	// BasePath is added to a base URL that the user gave without a path.
	BasePath string
	// DefaultModel is used when the user named none; "" for brands that serve
	// whatever was installed.
	DefaultModel string
	Models       string // offered, for brands that have no list to ask for
	KeyPrefix    string // keys that start like this belong to the brand
	URLPart      string // base URLs that contain this belong to the brand
	// OwnModels tells names of models that begin with the brand's own name,
	// which otherwise is only a prefix: what follows the slash, or its
	// beginning, or "*" for everything without a further slash.
	OwnModels string
	// Responses lists the models, as whole words at the beginning of their
	// names, that are spoken to by ResponsesWire where the endpoint is the
	// brand's own.
	Responses       string
	ResponsesEffort bool // every model with a reasoning effort is, too
	ResponsesOnly   bool // the models listed in Responses do not exist on Wire

	Gateway     bool // serves models of other brands
	VendorNames bool // every model is called vendor/model
	Local       bool // runs on this machine or network; needs a base URL, no key
	Direct      bool // needs a base URL from the user; the key is optional
	Speech      bool // turns speech into text and does not chat
	Truncates   bool // cuts the beginning of a prompt that is too long and says nothing
	// Yields means that a block of this name with a base URL elsewhere is the
	// user's own endpoint: the name was free in older versions.
	Yields       bool
	APIKeyHeader bool // the key goes in the api-key header
	// StripPrefix sends only what follows the last slash of a model name.
	StripPrefix bool

	wire.Quirks
}

// Rows lists the brands in order of priority: when nothing else decides,
// the first configured gateway is used, because gateways serve most models. A
// new brand is a new row here and nothing else.
func Rows() []Row {
	rows := make([]Row, 0, 64)
	rows = append(rows, Row{Name: "custom", Display: "Custom", Wire: ChatWire, Direct: true})
	rows = appendPlatforms(rows)
	rows = appendGateways(rows)
	rows = appendMakers(rows)
	rows = appendLocal(rows)
	return appendHosts(rows)
}

// Lookup finds a row by its name, however it is spelled: lm-studio,
// lmStudio and LM_STUDIO are the same.
func Lookup(name string) (Row, bool) {
	for _, r := range Rows() {
		if sameName(r.Name, name) {
			return r, true
		}
	}
	return Row{}, false
}
