package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/trial"
)

// fakeModel answers the calls of models test as told: each field is the text
// of an answer, or an HTTP status.
type fakeModel struct {
	list               string // body of /models
	text, tools, image string
	calls              atomic.Int32
}

func (f *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		if f.list == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(f.list))
		return
	}
	f.calls.Add(1)
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	answer := f.text
	switch {
	case strings.Contains(body.String(), `"image_url"`):
		answer = f.image
	case strings.Contains(body.String(), `"add"`):
		answer = f.tools
	}
	if status, text, ok := strings.Cut(answer, "!"); ok {
		code := 0
		_, _ = fmt.Sscan(status, &code)
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": text}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	finish := "stop"
	if arguments, ok := strings.CutPrefix(answer, "call "); ok {
		finish = "tool_calls"
		call, _ := json.Marshal([]any{map[string]any{"index": 0, "id": "c1", "type": "function", "function": map[string]string{"name": "add", "arguments": arguments}}})
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":%s}}]}\n\n", call)
	} else {
		for word := range strings.FieldsSeq(answer) {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word+" ")
		}
	}
	_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n", finish)
}

func houseConfig(url string) string {
	return fmt.Sprintf(`{"agents": {"defaults": {"model": "house-vl", "provider": "custom"}}, "providers": {"custom": {"apiBase": %q, "apiKey": "k-secret"}}}`, url+"/v1")
}

func TestModelsTest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		model *fakeModel
		args  []string
		want  []string
		code  int
		calls int32
	}{
		{"all well", &fakeModel{text: "1 2 3", tools: `call {"a":17,"b":25}`, image: "Red."}, nil, []string{
			"Testing house-vl at custom", `✓ text       "1 2 3"`, "✓ streaming  3 pieces", "✓ tools      add(17, 25)", "✓ vision     it saw", "Tokens: 30 in, 9 out",
		}, 0, 3},
		{"no abilities", &fakeModel{text: "123", tools: "forty-two", image: "400!image input is not supported by this model"}, nil, []string{
			"✗ streaming  the text came in one piece", "✗ tools      it answered in words", "✗ vision     the provider refuses images",
		}, 0, 3},
		{"wrong arguments", &fakeModel{text: "1 2", tools: `call {"a":1}`, image: "blue"}, nil, []string{"wrong arguments", `said \"blue\"`}, 0, 3},
		{"a name that promises no eyes", &fakeModel{text: "1 2", tools: `call {"a":17,"b":25}`}, []string{"plain"}, []string{"- vision     it is not known to support images"}, 0, 2},
		{"asked for eyes", &fakeModel{text: "1 2", tools: `call {"a":17,"b":25}`, image: "red"}, []string{"plain", "--vision"}, []string{"✓ vision"}, 0, 3},
		{"the list knows better", &fakeModel{
			list: `{"data":[{"id":"house-vl","capabilities":["completion"]}]}`, text: "1 2",
		}, nil, []string{"- tools      it is reported not to support tools", "- vision     it is reported not to support images"}, 0, 1},
		{"wrong key", &fakeModel{text: "401!no such key"}, nil, []string{"✗ text       custom rejected the API key", "providers.custom.apiKey", "no such key"}, exitAuth, 1},
		{"wrong model", &fakeModel{
			list: `{"data":[{"id":"house-v1"},{"id":"whisper"}]}`, text: "404!The model house-vl does not exist",
		}, nil, []string{"does not know the model", "Note: it offers house-v1\n"}, exitFailure, 1},
		{"nothing comes", &fakeModel{text: ""}, nil, []string{"✗ text"}, exitFailure, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(c.model)
			defer srv.Close()
			out, errOut, err := runCommand(t, houseConfig(srv.URL), nil, "models", append([]string{"test"}, c.args...)...)
			code := 0
			if err != nil {
				code = exitCode(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) && !strings.Contains(out, strings.ReplaceAll(want, `\"`, `"`)) {
					t.Errorf("no %q in\n%s%s", want, out, errOut)
				}
			}
			if code != c.code || c.model.calls.Load() != c.calls || strings.Contains(out, "secret") {
				t.Errorf("code %d, %d calls; want %d and %d (%v)\n%s", code, c.model.calls.Load(), c.code, c.calls, err, out)
			}
		})
	}
}

func TestModelsTestJSON(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(&fakeModel{text: "1 2", tools: `call {"a":17,"b":25}`, image: "red"})
	defer srv.Close()
	out, _, err := runCommand(t, houseConfig(srv.URL), nil, "models", "test", "--json")
	var got trial.Trial
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(got.Verdicts) != 4 || got.Verdicts[3].Result != "yes" || got.Provider != "custom" || got.Usage.Prompt != 30 {
		t.Errorf("got %+v", got)
	}
}

func TestModelsList(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(&fakeModel{list: `{"data":[{"id":"big","context_length":8000},{"id":"small"}]}`})
	t.Cleanup(srv.Close)
	for _, c := range []struct {
		name string
		args []string
		want string
		not  string
		code int
	}{
		{"one", []string{"custom"}, "custom    big    8000", "", 0},
		{"filtered", []string{"custom", "--filter", "SMA"}, "custom    small  -", "big", 0},
		{"unknown", []string{"custm"}, "did you mean custom?", "", exitConfig},
		{"no key", []string{"groq"}, "GROQ_API_KEY", "", exitConfig},
		{"bedrock", []string{"bedrock"}, "no list of models", "", exitConfig},
		{"built-in list", []string{"openai_codex"}, "gpt-5.6-sol", "", 0},
		{"sign-in", []string{"github_copilot"}, "only after sign-in", "", exitFailure},
		{"two", []string{"a", "b"}, "usage", "", exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, _, err := runCommand(t, houseConfig(srv.URL), nil, "models", append([]string{"list"}, c.args...)...)
			code := 0
			if err != nil {
				code = exitCode(err)
				out += err.Error()
			}
			if code != c.code || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("code %d, want %d and %q:\n%s", code, c.code, c.want, out)
			}
		})
	}
}

// Of several providers, one that does not answer is only told about.
func TestModelsListOfAll(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(&fakeModel{list: `{"data":[{"id":"big"}]}`})
	defer srv.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	conf := fmt.Sprintf(`{"providers": {"custom": {"apiBase": %q}, "house": {"apiBase": %q}}}`, srv.URL, gone.URL)
	out, errOut, err := runCommand(t, conf, []string{"ASSEMBLYAI_API_KEY=x"}, "models", "list")
	if err != nil || !strings.Contains(out, "custom ") || !strings.Contains(errOut, "nanobot: house: ") || strings.Contains(out+errOut, "assemblyai") {
		t.Errorf("%v:\n%s%s", err, out, errOut)
	}
}

// A server at home is asked in its own way, which tells the window in use.
func TestModelsOfOllama(t *testing.T) {
	t.Parallel()
	model := &fakeModel{text: "1 2", tools: `call {"a":17,"b":25}`}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/tags":
			_, _ = w.Write([]byte(`{"models":[{"name":"qwen3:8b","digest":"d"}]}`))
		case "/api/ps":
			_, _ = w.Write([]byte(`{"models":[{"name":"qwen3:8b","context_length":4096}]}`))
		default:
			model.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	conf := fmt.Sprintf(`{"providers": {"ollama": {"apiBase": %q}}}`, srv.URL)
	out, _, err := runCommand(t, conf, nil, "models", "list", "ollama", "--json")
	if err != nil || !strings.Contains(out, `"id": "qwen3:8b"`) || !strings.Contains(out, `"context_window": 4096`) {
		t.Errorf("list: %v:\n%s", err, out)
	}
	out, _, err = runCommand(t, conf, nil, "models", "test", "qwen3:8b")
	if err != nil || !strings.Contains(out, "✓ tools") || !strings.Contains(out, "window of 4096 tokens") || !strings.Contains(out, "OLLAMA_CONTEXT_LENGTH") {
		t.Errorf("test: %v:\n%s", err, out)
	}
}

// The groups teach like every other command.
func TestProviderAndModelsHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"provider", "models"} {
		cmd := build(t, newProgram(Stdio{}, "", ""), name)
		for _, sub := range cmd.Commands() {
			if sub.Short == "" || sub.Example == "" {
				t.Errorf("%s %s has no description or example", cmd.Name(), sub.Name())
			}
		}
	}
}
