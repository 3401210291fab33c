package provider

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/local"
)

// llamaServer is a llama.cpp server with one model.
func llamaServer(t *testing.T) local.Endpoint {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"qwen3-4b","object":"model","owned_by":"llamacpp","meta":{"n_ctx_train":40960}}]}`)
		case "/props":
			_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":8192},"total_slots":1,"model_path":"/m/qwen3-4b.gguf","build_info":"b1"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return local.Endpoint{Kind: local.LlamaCPP, URL: srv.URL}
}

// TestDiscoveredServerIsKnown: what the agent would use without any setting is
// known to trials and lists.
func TestDiscoveredServerIsKnown(t *testing.T) {
	t.Parallel()
	m := modelsOf(t, `{}`)
	o := Options{Config: m.loaded, Getenv: m.getenv, Servers: []local.Endpoint{llamaServer(t)}}

	models := New(o)
	if _, err := models.SelectDefault(t.Context()); err != nil || models.Info().Provider != "llamacpp" || models.Info().Base == "" {
		t.Fatalf("in use: %+v, %v", models.Info(), err)
	}
	for _, name := range []string{"", "qwen3-4b", "llamacpp/qwen3-4b"} {
		trial, err := OpenTrial(t.Context(), o, name)
		if err != nil {
			t.Errorf("trial of %q: %v", name, err)
		} else if c := trial.Choice(); c.Name != "llamacpp" || c.WireModel != "qwen3-4b" {
			t.Errorf("trial of %q: %+v", name, c)
		}
	}
	list, err := Survey(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var ready []catalog.Status
	for _, s := range list {
		if s.Ready {
			ready = append(ready, s)
		}
	}
	if len(ready) != 1 || ready[0].Name != "llamacpp" || ready[0].Base != o.Servers[0].URL+"/v1" {
		t.Errorf("ready: %+v", ready)
	}
}

// TestChosenModelIsNotReplaced: a model that was chosen and cannot be used is an
// error, whatever else runs here.
func TestChosenModelIsNotReplaced(t *testing.T) {
	t.Parallel()
	m := modelsOf(t, `{"agents":{"defaults":{"model":"anthropic/claude-sonnet-4-6"}}}`)
	o := Options{Config: m.loaded, Getenv: m.getenv, Servers: []local.Endpoint{llamaServer(t)}}
	if trial, err := OpenTrial(t.Context(), o, ""); err == nil {
		t.Errorf("tries %+v", trial.Choice())
	}
}
