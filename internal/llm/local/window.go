package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Window holds what a server tells about the context of one model, in tokens.
// A zero means that the server does not say.
type Window struct {
	Kind   Kind // "" if the server is of no known kind
	Loaded int  // what requests really get now
	Max    int  // what the model could have
}

// Usable returns the window to plan with: the loaded one, else the largest.
func (w Window) Usable() int {
	if w.Loaded > 0 {
		return w.Loaded
	}
	return w.Max
}

// Windows asks servers for context windows and remembers what will not change:
// the answer for a model that is loaded. It is safe for concurrent use. Make
// one per process and use it for servers of the user's own only.
type Windows struct {
	opts  Options
	mu    sync.Mutex
	known map[string]Window
}

// NewWindows makes an empty memory. Of the options, Timeout and Client are used.
func NewWindows(o Options) *Windows {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return &Windows{opts: o, known: map[string]Window{}}
}

// Of asks the server at base, which is the base URL of its OpenAI-compatible
// API, about a model. It takes at most the timeout; a server that does not
// answer, or not like one we know, gives the zero Window.
func (w *Windows) Of(ctx context.Context, base, model string) Window {
	base = strings.TrimRight(base, "/")
	for _, v := range []string{"/v1", "/v3"} {
		base = strings.TrimSuffix(base, v)
	}

	key := base + "\x00" + model
	w.mu.Lock()
	win, ok := w.known[key]
	w.mu.Unlock()
	if ok {
		return win
	}

	client := w.opts.Client
	if client == nil {
		c, err := httpsafe.Client(httpsafe.Options{Direct: true})
		if err != nil {
			return Window{}
		}
		defer c.CloseIdleConnections()
		client = c
	}

	ctx, cancel := context.WithTimeout(ctx, w.opts.Timeout)
	defer cancel()
	win = probe{client: client, base: base}.window(ctx, model)
	if win.Loaded > 0 {
		w.mu.Lock()
		w.known[key] = win
		w.mu.Unlock()
	}
	return win
}

// window puts the question in every dialect at once; the first that is
// understood, in this order, counts.
func (p probe) window(ctx context.Context, model string) Window {
	ask := []func(context.Context, string) Window{p.ollamaWindow, p.lmStudioWindow, p.sharedWindow}
	got := make([]Window, len(ask))
	var wg sync.WaitGroup
	for i, f := range ask {
		wg.Go(func() { got[i] = f(ctx, model) })
	}

	wg.Wait()
	for _, w := range got {
		if w.Kind != "" {
			return w
		}
	}
	return Window{}
}

// ollamaWindow: /api/show knows the model's own limit and the num_ctx of its
// Modelfile, /api/ps what it was loaded with.
func (p probe) ollamaWindow(ctx context.Context, model string) Window {
	var show struct {
		Info       map[string]json.RawMessage `json:"model_info"`
		Parameters string                     `json:"parameters"`
	}
	if !p.post(ctx, "/api/show", map[string]string{"model": model}, &show) || show.Info == nil {
		return Window{}
	}

	win := Window{Kind: Ollama}
	for k, v := range show.Info {
		if n := 0; strings.HasSuffix(k, ".context_length") && json.Unmarshal(v, &n) == nil {
			win.Max = max(win.Max, n)
		}
	}

	var ps struct {
		Models []struct {
			Name    string `json:"name"`
			Model   string `json:"model"`
			Context int    `json:"context_length"`
		} `json:"models"`
	}
	if p.get(ctx, "/api/ps", &ps) {
		for _, m := range ps.Models {
			if tagged(m.Name) == tagged(model) || tagged(m.Model) == tagged(model) {
				win.Loaded = max(0, m.Context)
			}
		}
	}

	if win.Loaded == 0 {
		for line := range strings.Lines(show.Parameters) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "num_ctx" {
				n, _ := strconv.Atoi(f[1]) // anything else is not a number of tokens
				win.Loaded = max(0, n)
			}
		}
	}

	return win
}

// tagged returns a model's full name: Ollama adds a tag to a name without one.
func tagged(model string) string {
	if model != "" && !strings.Contains(model[strings.LastIndexByte(model, '/')+1:], ":") {
		return model + ":latest"
	}
	return model
}

// lmStudioWindow reads LM Studio's own lists, the current one or the one before.
func (p probe) lmStudioWindow(ctx context.Context, model string) Window {
	var v1 struct {
		Models []struct {
			Key    string `json:"key"`
			Max    int    `json:"max_context_length"`
			Loaded []struct {
				ID     string `json:"id"`
				Config struct {
					Context int `json:"context_length"`
				} `json:"config"`
			} `json:"loaded_instances"`
		} `json:"models"`
	}
	if p.get(ctx, "/api/v1/models", &v1) {
		for _, m := range v1.Models {
			win := Window{Kind: LMStudio, Max: max(0, m.Max)}
			mine := m.Key != "" && m.Key == model
			for _, l := range m.Loaded {
				if mine && win.Loaded == 0 || l.ID != "" && l.ID == model {
					win.Loaded, mine = max(0, l.Config.Context), true
				}
			}

			if mine {
				return win
			}
		}
	}

	var v0 struct {
		Data []struct {
			ID     string `json:"id"`
			State  string `json:"state"`
			Max    int    `json:"max_context_length"`
			Loaded int    `json:"loaded_context_length"`
		} `json:"data"`
	}
	if p.get(ctx, "/api/v0/models", &v0) {
		for _, m := range v0.Data {
			if m.ID == model && m.State != "" {
				return Window{Kind: LMStudio, Loaded: max(0, m.Loaded), Max: max(0, m.Max)}
			}
		}
	}

	return Window{}
}

// sharedWindow reads /v1/models as vLLM and llama.cpp extend it; llama.cpp
// tells in /props what one request gets.
func (p probe) sharedWindow(ctx context.Context, model string) Window {
	var list struct {
		Data []struct {
			ID   string `json:"id"`
			Max  int    `json:"max_model_len"`
			Meta *struct {
				Context int `json:"n_ctx"`
				Trained int `json:"n_ctx_train"`
			} `json:"meta"`
		} `json:"data"`
	}

	var props struct {
		Settings *struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}

	listed := p.get(ctx, "/v1/models", &list)
	for _, m := range list.Data {
		if listed && m.Max > 0 && m.ID == model {
			return Window{Kind: VLLM, Loaded: m.Max, Max: m.Max}
		}
	}

	if !p.get(ctx, "/props", &props) || props.Settings == nil {
		return Window{}
	}

	win := Window{Kind: LlamaCPP, Loaded: max(0, props.Settings.Context)}
	for _, m := range list.Data {
		if m.Meta != nil && (m.ID == model || len(list.Data) == 1) { // it serves one model under any name
			win.Max = max(0, m.Meta.Trained)
			if win.Loaded == 0 {
				win.Loaded = max(0, m.Meta.Context)
			}
		}
	}

	return win
}

// post sends a JSON object and decodes the answer like get.
func (p probe) post(ctx context.Context, path string, body, v any) bool {
	b, err := json.Marshal(body)
	if err != nil {
		return false
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+path, bytes.NewReader(b))
	if err != nil {
		return false
	}

	req.Header.Set("Content-Type", "application/json")
	return p.do(req, v)
}

// Truncation returns the warning for a prompt, its answer included, of about needed
// tokens that the server will cut without saying so; "" when it fits, the
// window is not known, or the server reports an error instead of cutting.
func Truncation(w Window, model string, needed int) string {
	if w.Kind != Ollama || w.Loaded <= 0 || needed <= w.Loaded {
		return ""
	}

	want := 4096
	for want < needed+needed/4 {
		want *= 2
	}

	if w.Max > 0 && want > w.Max {
		want = w.Max
	}

	s := fmt.Sprintf("Ollama runs %s with a window of %d tokens, but this conversation needs about %d: it drops the beginning without an error, so the model forgets its instructions.",
		model, w.Loaded, needed)
	if want <= w.Loaded {
		return s + " The model itself cannot take more: choose one with a larger window, or start over with /new."
	}
	return s + fmt.Sprintf(" Restart Ollama with OLLAMA_CONTEXT_LENGTH=%d, or make a variant of the model with \"PARAMETER num_ctx %d\" in its Modelfile.", want, want)
}
