package gateway_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// Who watches a turn sees what happens to files, without the keys in them; a
// chat platform that could only show it as text is spared.
func TestFileEditsAreShown(t *testing.T) {
	t.Parallel()
	edit := llmtest.Call("write_file", map[string]any{"path": "a.txt", "content": "one\nold-key-552188\n"})
	h := newHost(t, llmtest.NewScript(t, edit, llmtest.Reply("done"), edit, llmtest.Reply("done again")))
	h.configure(strings.Replace(partyConfig, `{"agents"`, `{"providers": {"custom": {"apiKey": "old-key-552188", "apiBase": "http://127.0.0.1:1/v1"}}, "agents"`, 1))
	h.start()
	<-h.party.joined
	var edits []bus.Edit
	for out, err := range h.g.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "cli", ChatID: "x"}, Text: "write it"}) {
		h.must(err)
		if out.Kind == bus.FileEdit {
			edits = append(edits, out.Edits...)
		}
	}
	if len(edits) != 1 || edits[0].Path != "a.txt" || edits[0].What != "created" || edits[0].Added != 2 || edits[0].CallID == "" {
		t.Fatalf("edits = %+v", edits)
	}
	if d := edits[0].Diff; strings.Contains(d, "552188") || !strings.Contains(d, "+one\n") {
		t.Errorf("diff = %q", d)
	}
	h.must(h.party.write(t, "ann", "1", "write it"))
	for {
		out := h.party.hear(t, "")
		if out.Kind == bus.FileEdit {
			t.Errorf("the chat got %+v", out)
		}
		if out.Kind == bus.Final {
			break
		}
	}
	h.must(h.end())
}
