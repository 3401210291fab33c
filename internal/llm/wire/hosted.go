package wire

import (
	"encoding/json"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Bounds of what is told about a tool that the provider runs.
const (
	maxQueries = 4
	maxQuery   = 1000
	maxSources = 8
	maxURL     = 2048
	maxTitle   = 300
)

// Source is a page that a hosted search found.
type Source struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
}

// Hosted tells of a tool that the provider runs itself. Phase is start, end or
// error.
func Hosted(phase, id, name string, queries []string, sources []Source) llm.Event {
	part := &llm.ToolPart{ID: id, Name: name, Phase: phase}
	part.Arguments = text.Ellipsis(strings.Join(queries[:min(len(queries), maxQueries)], "; "), maxQuery)
	var shown []Source
	for _, s := range sources {
		if s.URL != "" && len(s.URL) <= maxURL && len(shown) < maxSources {
			shown = append(shown, Source{s.URL, text.Ellipsis(s.Title, maxTitle)})
		}
	}

	if len(shown) > 0 {
		b, _ := json.Marshal(shown) // texts only
		part.Result = string(b)
	}
	return llm.Event{Kind: llm.HostedTool, Tool: part}
}
