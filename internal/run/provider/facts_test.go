package provider

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// TestFactsShapeRequests: what models.json in the data folder says about a model
// decides what it is asked for; the settings of its provider go first. A damaged
// file is told about and changes nothing.
func TestFactsShapeRequests(t *testing.T) {
	t.Parallel()
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(b)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(srv.Close)

	for _, c := range []struct {
		file, caps string
		window     int
		sent       map[string]bool
		note       string
	}{
		{"", "{}", 65536, map[string]bool{"image_url": true, `"tools"`: true, "reasoning_effort": true}, ""},
		{
			file: `{"models":[{"model":"m","window":9000,"vision":false,"tools":false,"thinking":"no"}]}`, caps: "{}", window: 9000,
			sent: map[string]bool{"image_url": false, `"tools"`: false, "reasoning_effort": false, `"temperature"`: true},
		},
		{
			file: `{"models":[{"model":"m","vision":false,"thinking":"always"}]}`, caps: `{"vision":true}`, window: 65536,
			sent: map[string]bool{"image_url": true, "reasoning_effort": true, `"temperature"`: false},
		},
		{`{"models":[{"model":"m","vison":false}]}`, "{}", 65536, map[string]bool{"image_url": true}, `unknown field "vison"`},
	} {
		loaded := modelsOf(t, `{"agents":{"defaults":{"model":"m","provider":"mine","reasoningEffort":"low"}},"providers":{"mine":{"apiBase":"`+srv.URL+`","caps":`+c.caps+`}}}`).loaded
		loaded.DataDir = t.TempDir()
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(loaded.DataDir, "models.json"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m := New(Options{Config: loaded, Getenv: func(string) string { return "" }})
		notes, err := m.SelectDefault(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(notes, "\n"); !strings.Contains(got, c.note) || c.note != "" && !strings.Contains(got, "models.json is ignored") {
			t.Errorf("%s: notes %q", c.file, got)
		}
		rt, err := m.Runtime(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if rt.Window != c.window {
			t.Errorf("%s: window %d, want %d", c.file, rt.Window, c.window)
		}
		_, err = llm.Collect(t.Context(), rt.Model, llm.Request{
			Model: "m", Tools: []llm.ToolDef{{Name: "f"}}, Effort: rt.Effort, Temperature: rt.Temperature,
			Messages: []llm.Message{{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "see"}, {Type: "image_url", ImageURL: "data:image/png;base64,AAAA"}}}}},
		})
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		for word, want := range c.sent {
			if strings.Contains(body, word) != want {
				t.Errorf("%s: %s in the request is %v, want %v: %s", c.file, word, !want, want, body)
			}
		}
	}
}
