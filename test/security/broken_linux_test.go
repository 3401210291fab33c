package security_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// closedPort is an address on which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // that is the point
	return l.Addr().String()
}

// TestBrokenParts takes parts away. The model is told what is missing, the
// user can find out why, and the turn goes on.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		set   func(t *testing.T, h *house)
		calls []call
		// model and user say what each must be told.
		model, user []string
		status      []string // in nanobot status, where the user looks
	}{
		{
			name: "dead search backend", calls: []call{{"web_search", `{"query":"hours"}`}},
			set: func(t *testing.T, h *house) {
				// The proxy is dead, too, so that the fallback finds nothing either.
				h.tools()["web"] = map[string]any{
					"proxy":  "http://" + closedPort(t),
					"search": map[string]any{"provider": "searxng", "baseUrl": "http://" + closedPort(t)},
				}
			},
			model: []string{"searxng", "Error"},
		},
		{
			name: "dead MCP server", calls: []call{{"mcp_gone_lookup", `{}`}},
			set: func(t *testing.T, h *house) {
				h.tools()["mcpServers"] = map[string]any{
					"gone": map[string]any{"url": "http://" + closedPort(t) + "/mcp"}, "wrong": map[string]any{"command": "/no/such/program"},
				}
			},
			model: []string{"is not available now", "tell the user"}, user: []string{"MCP server gone is not connected", "MCP server wrong is not connected"},
		},
		{
			name: "no bubblewrap", calls: []call{{"exec", `{"command":"echo ran > ran.txt"}`}},
			set: func(t *testing.T, h *house) {
				h.path = without(t, "bwrap")
				h.exec()["sandbox"] = "bwrap"
			},
			model: []string{"was not run", "bwrap"}, status: []string{"bwrap", "off"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "auto", "none")
			level(t, sandbox.Auto)
			c.set(t, h)
			h.model.opening = append(c.calls, call{"read_file", `{"path":"notes.txt"}`})
			o := h.ask("go on")
			o.ended(t)
			results := h.model.lastResults()
			if len(results) != 2 || !strings.Contains(results[1], "Buy milk") {
				t.Fatalf("the turn did not go on: %q\n%s", results, o.stderr)
			}
			for _, want := range c.model {
				if !strings.Contains(results[0], want) {
					t.Errorf("the model was told %q, want %q in it", results[0], want)
				}
			}
			var notices strings.Builder
			for _, e := range o.events {
				if e.Kind == bus.Notice {
					notices.WriteString(e.Text + "\n")
				}
			}
			told := notices.String()
			for _, want := range c.user {
				if !strings.Contains(told, want) {
					t.Errorf("the user was told %q, want %q in it", told, want)
				}
			}
			if _, err := os.Stat(filepath.Join(h.ws, "ran.txt")); err == nil {
				t.Error("the command ran without its sandbox")
			}
			status := h.wait(h.command(t.Context(), "status"))
			for _, want := range c.status {
				if !strings.Contains(status.stdout, want) {
					t.Errorf("status says %q, want %q in it", status.stdout, want)
				}
			}
			h.intact(o)
		})
	}
}

// without is a PATH on which everything is but one program.
func without(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(from)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Name() != program {
				_ = os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())) // the first of a name counts
			}
		}
	}
	return dir
}
