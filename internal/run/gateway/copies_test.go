package gateway_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// Tools read the configuration no more in its copies than in itself: the keys
// of yesterday are in them, also when they are no keys of ours any more.
func TestCopiesOfTheConfigurationAreClosed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"config.json", "config.json.bak-20260101T000000Z", "config.json.edit-20260101T000000Z.json", "config.last-good.json", "config.json~", ".config.json.swp",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, nil)
			path := filepath.Join(h.dir, name)
			args, err := json.Marshal(map[string]string{"path": path})
			h.must(err)
			h.model = llmtest.NewScript(t, llmtest.Call("read_file", string(args)), llmtest.Func(func(req llm.Request) llmtest.Step {
				return llmtest.Reply("got " + req.Messages[len(req.Messages)-1].Content.String())
			}))
			h.configure(strings.Replace(partyConfig, `{"agents"`, `{"tools": {"restrictToWorkspace": false}, "agents"`, 1))
			if name != "config.json" {
				h.must(os.WriteFile(path, []byte(`{"providers": {"custom": {"apiKey": "old-key-5521"}}}`), 0o600))
			}
			h.start()
			<-h.party.joined
			said := ""
			for out, err := range h.g.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "cli", ChatID: "x"}, Text: "read it"}) {
				h.must(err)
				if out.Kind == bus.Final {
					said = out.Text
				}
			}
			if strings.Contains(said, "old-key") || strings.Contains(said, "allowFrom") || !strings.Contains(said, "protected") {
				t.Errorf("read_file %s: %q", name, said)
			}
			h.must(h.end())
		})
	}
}
