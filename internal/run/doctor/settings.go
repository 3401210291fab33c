package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/tool/image"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// CheckSettings adds to the warnings what only the parts of the program know about
// their settings: channels, MCP servers, and names of providers. With strict it is
// an error.
func CheckSettings(l *config.Loaded, strict bool) error {
	wrong, err := settings(l)
	if err != nil {
		return err
	}

	people, err := gateway.CheckPeople(l)
	if err != nil {
		return err
	}

	states, err := gateway.CheckChannels(l)
	if err != nil {
		return err
	}

	for _, s := range states {
		if s.Enabled && s.Error != "" {
			wrong = append(wrong, config.Problem{Path: "channels." + s.Name, Message: s.Error, Hint: "this channel stays off; see docs/how-to/channels"})
		}
	}

	if strict && len(wrong) > 0 {
		return &config.Error{Kind: config.InvalidSchema, File: l.File, Issues: wrong}
	}

	l.Warnings = append(append(l.Warnings, wrong...), people...)
	return nil
}

// settings finds what has no effect, or another one than it seems; channels that
// are enabled are judged elsewhere.
func settings(l *config.Loaded) ([]config.Problem, error) {
	wrong, err := gateway.CheckDisabled(l)
	if err != nil {
		return nil, err
	}

	for _, e := range app.MCPEntries(l) {
		path := "tools.mcpServers." + e.Name
		if e.Problem != nil {
			wrong = append(wrong, config.Problem{Path: path, Message: e.Problem.Error(), Hint: "this server is left out; see docs/how-to/mcp.md"})
		}
		for _, w := range e.Warnings {
			wrong = append(wrong, config.Problem{Path: path + "." + w.Key, Message: w.Text})
		}
	}

	wrong = append(wrong, providerNames(l)...)
	slices.SortStableFunc(wrong, func(a, b config.Problem) int { return cmp.Compare(a.Path, b.Path) })
	return wrong, nil
}

// providerNames finds names of providers that do not exist.
func providerNames(l *config.Loaded) (wrong []config.Problem) {
	c := &l.Config
	judge := func(path, name string, names []string) {
		same := func(n string) bool { return plain(n) == plain(name) }
		if name == "" || slices.ContainsFunc(names, same) {
			return
		}

		hint := "use one of " + strings.Join(names, ", ")
		if near := text.Nearest(name, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		wrong = append(wrong, config.Problem{Path: path, Message: "there is no provider " + name, Hint: hint})
	}

	judge("tools.web.search.provider", c.Tools.Web.Search.Provider, web.Providers())
	judge("tools.imageGeneration.provider", c.Tools.ImageGeneration.Provider, image.Providers())
	for path, name := range map[string]string{
		"transcription.provider":         c.Transcription.Provider,
		"channels.transcriptionProvider": c.Channels.TranscriptionProvider,
	} {
		if _, ok := speech.Canonical(name); !ok {
			judge(path, name, speech.Providers())
		}
	}

	models := append([]string{"auto"}, slices.Sorted(maps.Keys(c.Providers))...)
	for _, row := range catalog.Rows() {
		models = append(models, row.Name)
	}

	judge("agents.defaults.provider", c.Agents.Defaults.Provider, models)
	for i, f := range c.Agents.Defaults.FallbackModels {
		judge(fmt.Sprintf("agents.defaults.fallbackModels.%d.provider", i), f.Provider, models)
	}

	for name, preset := range c.ModelPresets {
		judge("modelPresets."+name+".provider", preset.Provider, models)
	}
	return wrong
}

// plain returns a name without the differences between its spellings.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}
