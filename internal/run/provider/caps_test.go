package provider

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// TestCapsShapeRequests: what the user says a provider cannot do is not asked of it.
func TestCapsShapeRequests(t *testing.T) {
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

	for caps, sent := range map[string]map[string]bool{
		`{}`:                              {"image_url": true, `"tools"`: true},
		`{"vision":false}`:                {"image_url": false, `"tools"`: true},
		`{"tools":false}`:                 {"image_url": true, `"tools"`: false},
		`{"vision":true,"tools":true}`:    {"image_url": true, `"tools"`: true},
		`{"vision": false,"tools":false}`: {"image_url": false, `"tools"`: false},
	} {
		o := Options{
			Config: modelsOf(t, `{"agents":{"defaults":{"model":"m","provider":"mine"}},"providers":{"mine":{"apiBase":"`+srv.URL+`","caps":`+caps+`}}}`).loaded,
			Getenv: func(string) string { return "" },
		}
		m := New(o)
		if _, err := m.SelectDefault(t.Context()); err != nil {
			t.Fatal(err)
		}
		rt, err := m.Runtime(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = llm.Collect(t.Context(), rt.Model, llm.Request{
			Model: "m", Tools: []llm.ToolDef{{Name: "f"}},
			Messages: []llm.Message{{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "see"}, {Type: "image_url", ImageURL: "data:image/png;base64,AAAA"}}}}},
		})
		if err != nil {
			t.Errorf("%s: %v", caps, err)
		}
		for word, want := range sent {
			if strings.Contains(body, word) != want {
				t.Errorf("%s: %s in the request is %v, want %v: %s", caps, word, !want, want, body)
			}
		}
	}
}
