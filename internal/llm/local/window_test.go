package local_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/local"
)

// answers serves fixed texts by "METHOD path" and counts the questions.
func answers(t *testing.T, texts map[string]string) (base string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/api/show" {
			if b, _ := io.ReadAll(r.Body); string(b) != `{"model":"m"}` {
				t.Errorf("body = %s", b)
			}
		}
		text, ok := texts[r.Method+" "+r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, asked
}

func TestWindows(t *testing.T) {
	t.Parallel()
	const show = `{"model_info":{"general.parameter_count":8,"llama.context_length":131072},"parameters":"stop \"x\"\n"}`
	for _, tt := range []struct {
		name  string
		texts map[string]string
		want  local.Window
	}{
		{"ollama, not loaded", map[string]string{"POST /api/show": show, "GET /api/ps": `{"models":[]}`}, local.Window{Kind: local.Ollama, Max: 131072}},
		{"ollama, loaded", map[string]string{"POST /api/show": show, "GET /api/ps": `{"models":[{"name":"other","context_length":7},{"name":"m:latest","context_length":4096}]}`}, local.Window{Kind: local.Ollama, Loaded: 4096, Max: 131072}},
		{"ollama, num_ctx of the Modelfile", map[string]string{"POST /api/show": `{"model_info":{"q.context_length":40960},"parameters":"num_ctx                        16384\ntop_k 5"}`}, local.Window{Kind: local.Ollama, Loaded: 16384, Max: 40960}},
		{"ollama also has the shared list", map[string]string{"POST /api/show": show, "GET /v1/models": `{"data":[{"id":"m","max_model_len":5}]}`}, local.Window{Kind: local.Ollama, Max: 131072}},
		{"lm studio", map[string]string{"GET /api/v1/models": `{"models":[{"key":"n","max_context_length":1},{"key":"m","max_context_length":32768,"loaded_instances":[{"id":"m","config":{"context_length":8192}}]}]}`}, local.Window{Kind: local.LMStudio, Loaded: 8192, Max: 32768}},
		{"lm studio, by instance", map[string]string{"GET /api/v1/models": `{"models":[{"key":"big/m","max_context_length":32768,"loaded_instances":[{"id":"a","config":{"context_length":1}},{"id":"m","config":{"context_length":8192}}]}]}`}, local.Window{Kind: local.LMStudio, Loaded: 8192, Max: 32768}},
		{"lm studio, old", map[string]string{"GET /api/v0/models": `{"data":[{"id":"m","state":"loaded","max_context_length":32768,"loaded_context_length":4096}]}`}, local.Window{Kind: local.LMStudio, Loaded: 4096, Max: 32768}},
		{"vllm", map[string]string{"GET /v1/models": `{"data":[{"id":"m","max_model_len":16384}]}`}, local.Window{Kind: local.VLLM, Loaded: 16384, Max: 16384}},
		{"llama.cpp", map[string]string{"GET /v1/models": `{"data":[{"id":"x.gguf","meta":{"n_ctx_train":131072}}]}`, "GET /props": `{"default_generation_settings":{"n_ctx":4096}}`}, local.Window{Kind: local.LlamaCPP, Loaded: 4096, Max: 131072}},
		{"llama.cpp, context in the list", map[string]string{"GET /v1/models": `{"data":[{"id":"m","meta":{"n_ctx":2048,"n_ctx_train":4096}}]}`, "GET /props": `{"default_generation_settings":{}}`}, local.Window{Kind: local.LlamaCPP, Loaded: 2048, Max: 4096}},
		{"something else", map[string]string{"GET /v1/models": `{"data":[{"id":"m"}]}`, "POST /api/show": `<html>`, "GET /props": `[]`}, local.Window{}},
		{"negative", map[string]string{"GET /props": `{"default_generation_settings":{"n_ctx":-1}}`}, local.Window{Kind: local.LlamaCPP}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base, asked := answers(t, tt.texts)
			w := local.NewWindows(local.Options{Timeout: 10 * time.Second})
			for _, suffix := range []string{"/v1", "/v1/", ""} {
				if got := w.Of(t.Context(), base+suffix, "m"); got != tt.want {
					t.Errorf("Of(%q) = %+v, want %+v", suffix, got, tt.want)
				}
			}
			before := asked.Load()
			w.Of(t.Context(), base, "m")
			if again := asked.Load() > before; again == (tt.want.Loaded > 0) {
				t.Errorf("asked again: %v; a known loaded window is remembered, others are not", again)
			}
		})
	}
}

func TestWindowOfNobody(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	if got := local.NewWindows(local.Options{}).Of(t.Context(), srv.URL, "m"); got != (local.Window{}) {
		t.Errorf("window = %+v, want none", got)
	}
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		w      local.Window
		needed int
		want   []string
	}{
		{"fits", local.Window{Kind: local.Ollama, Loaded: 4096, Max: 131072}, 4096, nil},
		{"not known", local.Window{Kind: local.Ollama, Max: 131072}, 9000, nil},
		{"others report an error", local.Window{Kind: local.LlamaCPP, Loaded: 4096}, 9000, nil},
		{"too long", local.Window{Kind: local.Ollama, Loaded: 4096, Max: 131072}, 9000, []string{"window of 4096", "about 9000", "OLLAMA_CONTEXT_LENGTH=16384", `"PARAMETER num_ctx 16384"`}},
		{"up to the model's limit", local.Window{Kind: local.Ollama, Loaded: 4096, Max: 8192}, 9000, []string{"OLLAMA_CONTEXT_LENGTH=8192"}},
		{"no room", local.Window{Kind: local.Ollama, Loaded: 8192, Max: 8192}, 9000, []string{"larger window", "/new"}},
	} {
		got := local.Truncation(tt.w, "m", tt.needed)
		if (got == "") != (tt.want == nil) {
			t.Errorf("%s: warning = %q", tt.name, got)
		}
		for _, part := range tt.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: warning = %q, want %q in it", tt.name, got, part)
			}
		}
	}
}
