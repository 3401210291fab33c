package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

func loadText(t *testing.T, text string) *config.Loaded {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const correctChannels = `{"channels": {
  "telegram": {"enabled": true, "token": "123456:abcdefghijklmnopqrstuvwxyz012345678", "allowFrom": ["1"]},
  "websocket": {"enabled": true},
  "email": {
    "enabled": true, "consentGranted": true, "allowFrom": ["a@example.com"],
    "imapHost": "imap.example.com", "imapUsername": "u", "imapPassword": "p",
    "smtpHost": "smtp.example.com", "smtpUsername": "u", "smtpPassword": "p", "fromAddress": "u@example.com"
  }
}}`

func TestCorrectChannelsAreValid(t *testing.T) {
	l := loadText(t, correctChannels)
	if err := CheckSettings(l, true); err != nil {
		t.Errorf("strict: %v", err)
	}

	d := Checkup(t.Context(), app.Options{Config: config.Options{Path: l.File, Home: t.TempDir()}, Version: "1", Now: time.Now})
	for _, name := range []string{"telegram", "websocket", "email"} {
		if health, detail := stateOf(d, "channel."+name); health != Well {
			t.Errorf("%s: %s, %s", name, health, detail)
		}
	}
}

func TestMistakesInSections(t *testing.T) {
	for name, c := range map[string]struct{ text, path, message string }{
		"key of a disabled channel":     {`{"channels":{"telegram":{"enabled":false,"tokn":"x"}}}`, "channels.telegram", `unknown key "tokn", did you mean "token"?`},
		"name of a disabled channel":    {`{"channels":{"telegrm":{"enabled":false}}}`, "channels.telegrm", `did you mean "telegram"?`},
		"key of an MCP server":          {`{"tools":{"mcpServers":{"a":{"command":"x","comand":"y"}}}}`, "tools.mcpServers.a.comand", "did you mean command?"},
		"MCP server without a command":  {`{"tools":{"mcpServers":{"a":{}}}}`, "tools.mcpServers.a", "command"},
		"search provider":               {`{"tools":{"web":{"search":{"provider":"altavista"}}}}`, "tools.web.search.provider", "use one of duckduckgo"},
		"image provider":                {`{"tools":{"imageGeneration":{"provider":"opnai"}}}`, "tools.imageGeneration.provider", "did you mean openai?"},
		"transcription provider":        {`{"transcription":{"provider":"dragon"}}`, "transcription.provider", "use one of groq"},
		"older place of that provider":  {`{"channels":{"transcriptionProvider":"dragon"}}`, "channels.transcriptionProvider", "use one of groq"},
		"provider of models":            {`{"agents":{"defaults":{"provider":"antropic"}}}`, "agents.defaults.provider", "did you mean anthropic?"},
		"provider of a preset":          {`{"modelPresets":{"p":{"model":"m","provider":"antropic"}}}`, "modelPresets.p.provider", "did you mean anthropic?"},
		"provider of a fallback":        {`{"agents":{"defaults":{"fallbackModels":[{"model":"m","provider":"antropic"}]}}}`, "agents.defaults.fallbackModels.0.provider", "did you mean anthropic?"},
		"key of an enabled channel too": {`{"channels":{"websocket":{"enabled":true,"prot":1}}}`, "channels.websocket", "unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			l := loadText(t, c.text)
			if err := CheckSettings(l, false); err != nil {
				t.Fatal(err)
			}
			found := false
			for _, w := range l.Warnings {
				found = found || w.Path == c.path && strings.Contains(w.String(), c.message)
			}
			if !found {
				t.Errorf("no warning about %s with %q in %v", c.path, c.message, l.Warnings)
			}
			if err := CheckSettings(loadText(t, c.text), true); err == nil {
				t.Error("strict accepts it")
			}
		})
	}
}

func TestSettingsOfOlderVersionsAreKnown(t *testing.T) {
	for _, name := range []string{"v0.1.5.json", "head.json"} {
		text, err := os.ReadFile(filepath.Join("..", "config", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := settings(loadText(t, string(text)))
		if err != nil || len(wrong) > 0 {
			t.Errorf("%s: %v, %v", name, wrong, err)
		}
	}
}

// Names that a provider of one's own has, in any spelling, are accepted.
func TestOwnProviderIsKnown(t *testing.T) {
	l := loadText(t, `{"agents":{"defaults":{"provider":"myServer"}},"providers":{"my-server":{"apiBase":"http://localhost:1/v1"}}}`)
	if err := CheckSettings(l, true); err != nil {
		t.Error(err)
	}
}
