package local_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm/local"
)

// serve answers paths with fixed bodies, everything else with 404.
func serve(t *testing.T, pages map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// patient is a limit that only a bug reaches.
const patient = 30 * time.Second

func TestIdentify(t *testing.T) {
	t.Parallel()
	ollama := map[string]string{
		"/api/version": `{"version":"0.12.3"}`,
		"/api/tags": `{"models":[{"name":"qwen3:8b","model":"qwen3:8b","modified_at":"2026-01-01T00:00:00Z","digest":"d"},
			{"name":"llama3.2:latest","digest":"e"},{"name":"nomic-embed-text:latest","digest":"f"},
			{"name":"gemma","digest":"g","capabilities":["embedding"]}]}`,
		"/api/ps":    `{"models":[{"name":"qwen3:8b","context_length":4096}]}`,
		"/v1/models": `{"object":"list","data":[{"id":"qwen3:8b","owned_by":"library"}]}`,
	}
	ollamaModels := []local.Model{{ID: "qwen3:8b", Context: 4096}, {ID: "llama3.2:latest"}}
	vllm := map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"Qwen/Qwen3-8B","owned_by":"vllm","max_model_len":32768}]}`,
	}
	llamacpp := map[string]string{
		"/health":    `{"status":"ok"}`,
		"/props":     `{"default_generation_settings":{"n_ctx":8192},"total_slots":1}`,
		"/v1/models": `{"object":"list","data":[{"id":"m.gguf","owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]}`,
	}
	cases := []struct {
		name  string
		guess local.Kind
		pages map[string]string
		kind  local.Kind // "" if nothing may be found
		want  []local.Model
	}{
		{"ollama", local.Ollama, ollama, local.Ollama, ollamaModels},
		{"ollama elsewhere", local.VLLM, ollama, local.Ollama, ollamaModels},
		{
			"ollama without models", local.Ollama,
			map[string]string{"/api/version": `{"version":"0.12.3"}`, "/api/tags": `{"models":[]}`},
			local.Ollama, nil,
		},
		{
			"lm studio", local.LMStudio,
			map[string]string{"/api/v1/models": `{"models":[
				{"key":"qwen/qwen3-8b","type":"llm","max_context_length":40960,"loaded_instances":[{"config":{"context_length":8192}}]},
				{"key":"idle","type":"llm","max_context_length":1000,"loaded_instances":[]},
				{"key":"nomic","type":"embedding","max_context_length":2048}]}`},
			local.LMStudio,
			[]local.Model{{ID: "qwen/qwen3-8b", Context: 8192}, {ID: "idle", Context: 1000}},
		},
		{
			"older lm studio", local.LMStudio,
			map[string]string{"/api/v0/models": `{"object":"list","data":[
				{"id":"a","type":"llm","state":"loaded","max_context_length":40960,"loaded_context_length":4096},
				{"id":"b","type":"embeddings","state":"not-loaded"}]}`},
			local.LMStudio,
			[]local.Model{{ID: "a", Context: 4096}},
		},
		{
			"oldest lm studio", local.LMStudio,
			map[string]string{"/v1/models": `{"object":"list","data":[{"id":"a","owned_by":"organization_owner"}]}`},
			local.LMStudio,
			[]local.Model{{ID: "a"}},
		},
		{"llama.cpp", local.LlamaCPP, llamacpp, local.LlamaCPP, []local.Model{{ID: "m.gguf", Context: 8192}}},
		{
			"llama.cpp without props", local.LlamaCPP,
			map[string]string{"/v1/models": llamacpp["/v1/models"]},
			local.LlamaCPP,
			[]local.Model{{ID: "m.gguf", Context: 131072}},
		},
		{"llama.cpp on the port of vllm", local.VLLM, llamacpp, local.LlamaCPP, []local.Model{{ID: "m.gguf", Context: 8192}}},
		{"vllm", local.VLLM, vllm, local.VLLM, []local.Model{{ID: "Qwen/Qwen3-8B", Context: 32768}}},
		{"vllm on the port of llama.cpp", local.LlamaCPP, vllm, local.VLLM, []local.Model{{ID: "Qwen/Qwen3-8B", Context: 32768}}},

		{
			"names that do not show as they are", local.Ollama,
			map[string]string{"/api/tags": `{"models":[{"name":"a\u001b[31mb","digest":"d"},{"name":"c\nd","digest":"d"},{"name":"ok","digest":"d"}]}`},
			local.Ollama,
			[]local.Model{{ID: "ok"}},
		},
		{"web page", local.LlamaCPP, map[string]string{"/props": "<html>", "/v1/models": "<html>"}, "", nil},
		{"other JSON", local.VLLM, map[string]string{"/v1/models": `{"data":[{"id":1}]}`}, "", nil},
		{"unknown owner", local.VLLM, map[string]string{"/v1/models": `{"data":[{"id":"gpt","owned_by":"acme"}]}`}, "", nil},
		{"a list that is not Ollama's", local.Ollama, map[string]string{"/api/tags": `{"models":[{"name":"car"}]}`}, "", nil},
		{"an empty list that is not Ollama's", local.Ollama, map[string]string{"/api/tags": `{"models":[]}`}, "", nil},
		{"a list that is not LM Studio's", local.LMStudio, map[string]string{"/api/v1/models": `{"models":[{"name":"car"}]}`}, "", nil},
		{"array", local.VLLM, map[string]string{"/v1/models": `[]`}, "", nil},
		{"nothing", local.Ollama, nil, "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, c.pages)
			got := local.Discover(t.Context(), local.Options{
				Timeout: patient, Endpoints: []local.Endpoint{{Kind: c.guess, URL: url + "/"}},
			})
			var want []local.Server
			if c.kind != "" {
				want = []local.Server{{Kind: c.kind, Base: url + "/v1", Models: c.want}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrderIsThatOfTheEndpoints(t *testing.T) {
	t.Parallel()
	page := func(id string) map[string]string {
		return map[string]string{"/v1/models": `{"data":[{"id":"` + id + `","owned_by":"vllm"}]}`}
	}
	var eps []local.Endpoint
	for _, id := range []string{"a", "b", "c", "d"} {
		eps = append(eps, local.Endpoint{Kind: local.VLLM, URL: serve(t, page(id))})
	}
	var got strings.Builder
	for _, s := range local.Discover(t.Context(), local.Options{Timeout: patient, Endpoints: eps}) {
		got.WriteString(s.Models[0].ID)
	}
	if got.String() != "abcd" {
		t.Errorf("order = %q, want abcd", got.String())
	}
}

func TestNothingListening(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	start := time.Now()
	got := local.Discover(t.Context(), local.Options{
		Timeout: patient, Endpoints: []local.Endpoint{{Kind: local.Ollama, URL: "http://" + addr}, {Kind: local.VLLM, URL: "http://" + addr}},
	})
	if len(got) != 0 {
		t.Errorf("servers = %v, want none", got)
	}
	if d := time.Since(start); d > patient/2 {
		t.Errorf("took %v: a refused connection must not wait for the timeout", d)
	}
}

// A foreign server that never stops sending is read only up to a bound.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("[", 64<<10))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	got := local.Discover(t.Context(), local.Options{Timeout: patient, Endpoints: []local.Endpoint{{Kind: local.VLLM, URL: s.URL}}})
	if len(got) != 0 {
		t.Errorf("servers = %v, want none", got)
	}
}

type recorder func(*http.Request)

func (f recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return nil, net.ErrClosed
}

func TestUsualEndpoints(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"":                           "127.0.0.1:11434",
		"0.0.0.0":                    "127.0.0.1:11434",
		"0.0.0.0:9999":               "127.0.0.1:9999",
		":9999":                      "127.0.0.1:9999",
		"[::]:9999":                  "[::1]:9999",
		"box":                        "box:11434",
		"box:1":                      "box:1",
		"http://box:1/":              "box:1",
		"http://box":                 "box:80",
		"https://box.example/ollama": "box.example:443",
		"http://%zz":                 "127.0.0.1:11434",
		"unix:///run/x":              "127.0.0.1:11434",
	} {
		seen := make(chan string, 32)
		local.Discover(t.Context(), local.Options{
			Timeout: patient,
			Getenv: func(k string) string {
				if k == "OLLAMA_HOST" {
					return host
				}
				return ""
			},
			Client: &http.Client{Transport: recorder(func(r *http.Request) { seen <- r.URL.Host })},
		})
		close(seen)
		hosts := map[string]bool{}
		for h := range seen {
			hosts[h] = true
		}
		wantHosts := map[string]bool{want: true, "127.0.0.1:1234": true, "127.0.0.1:8080": true, "127.0.0.1:8000": true}
		if diff := cmp.Diff(wantHosts, hosts); diff != "" {
			t.Errorf("OLLAMA_HOST=%q (-want +got):\n%s", host, diff)
		}
	}
}
