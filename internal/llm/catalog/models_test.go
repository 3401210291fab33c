package catalog_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

func TestListModels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       []catalog.Offer
	}{
		{"OpenAI", `{"object":"list","data":[{"id":"gpt-b"},{"id":"gpt-a"},{"id":"gpt-a"}]}`, []catalog.Offer{{ID: "gpt-a"}, {ID: "gpt-b"}}},
		{"bare list of names", `["x","y"]`, []catalog.Offer{{ID: "x"}, {ID: "y"}}},
		{"other names", `{"models":[{"name":"n","max_model_len":10},{"model":"m","max_input_tokens":"20"}]}`, []catalog.Offer{{ID: "m", Window: 20}, {ID: "n", Window: 10}}},
		{"Gemini", `{"data":[{"id":"models/gemini-x"}]}`, []catalog.Offer{{ID: "gemini-x"}}},
		{"OpenRouter", `{"data":[{"id":"a/b","context_length":8000,"architecture":{"input_modalities":["text","image"]},"supported_parameters":["max_tokens"]}]}`, []catalog.Offer{{ID: "a/b", Window: 8000, Vision: catalog.Supported, Tools: catalog.Unsupported}}},
		{"Mistral", `{"data":[{"id":"m","max_context_length":32,"capabilities":{"function_calling":true,"vision":false}}]}`, []catalog.Offer{{ID: "m", Window: 32, Vision: catalog.Unsupported, Tools: catalog.Supported}}},
		{"abilities as a list", `{"data":[{"id":"m","capabilities":["completion","tools"]}]}`, []catalog.Offer{{ID: "m", Vision: catalog.Unsupported, Tools: catalog.Supported}}},
		{"llama.cpp", `{"data":[{"id":"m","meta":{"n_ctx_train":4096}}]}`, []catalog.Offer{{ID: "m", Window: 4096}}},
		{"prices per token", `{"data":[{"id":"a","pricing":{"prompt":"0.000003","completion":"0.000015"}},{"id":"b","pricing":{"prompt":"0","completion":"0"}},{"id":"c","pricing":{"prompt":"-1","completion":"-1"}},{"id":"d","pricing":{"prompt":"NaN","completion":"1e999"}},{"id":"e","pricing":"free"}]}`, []catalog.Offer{
			{ID: "a", Priced: true, In: 3, Out: 15}, {ID: "b", Priced: true}, {ID: "c"}, {ID: "d"}, {ID: "e"},
		}},
		{"names that do not show as they are", `{"data":["ok","a\u001b[2Jb","c\nd"," e","f\u202eg","","` + strings.Repeat("x", 201) + `",{"id":"h\u200bi"}]}`, []catalog.Offer{{ID: "ok"}}},
		{"nothing", `{"data":[]}`, []catalog.Offer{}},
		{"nonsense among them", `{"data":[1,null,{"id":7},{"id":"m","context_length":-1}]}`, []catalog.Offer{{ID: "m"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer k-123456" || r.Method != http.MethodGet {
					t.Errorf("got %s %s with %v", r.Method, r.URL, r.Header)
				}
				_, _ = w.Write([]byte(c.body))
			}))
			defer srv.Close()
			choice := catalog.Choice{Row: catalog.Row{Wire: catalog.ChatWire}, Base: srv.URL + "/v1", Key: httpsafe.NewSecret("k-123456")}
			got, err := catalog.ListModels(t.Context(), choice, catalog.ListOptions{Client: srv.Client()})
			if d := cmp.Diff(c.want, got); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestListModelsRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, row, base string
		header, value   string
		path            string
	}{
		{"Anthropic", "anthropic", "", "X-Api-Key", "k-123456", "/v1/models?limit=1000"},
		{"MiniMax", "minimax_anthropic", "/anthropic", "X-Api-Key", "k-123456", "/anthropic/v1/models?limit=1000"},
		{"Kimi", "kimi_coding", "/coding/v1", "Anthropic-Version", "2023-06-01", "/coding/v1/models?limit=1000"},
		{"Azure", "azure_openai", "/openai/v1", "Api-Key", "k-123456", "/openai/v1/models"},
		{"a whole endpoint", "custom", "/v1/chat/completions", "Authorization", "Bearer k-123456", "/v1/models"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RequestURI() != c.path || r.Header.Get(c.header) != c.value {
					t.Errorf("got %s with %s %q, want %s with %q", r.URL.RequestURI(), c.header, r.Header.Get(c.header), c.path, c.value)
				}
				_, _ = w.Write([]byte(`{"data":[]}`))
			}))
			defer srv.Close()
			row, ok := catalog.Lookup(c.row)
			if !ok {
				t.Fatal("no row")
			}
			choice := catalog.Choice{Row: row, Base: srv.URL + c.base, Key: httpsafe.NewSecret("k-123456")}
			if _, err := catalog.ListModels(t.Context(), choice, catalog.ListOptions{Client: srv.Client()}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestListModelsFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		kind   llm.Kind
		text   string
	}{
		{"wrong key", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"message":"bad key k-123456"}}`))
		}, llm.Auth, "bad key ***"},
		{"a web page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, llm.InvalidRequest, "base URL"},
		{"an object", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, llm.InvalidRequest, "base URL"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, "", "302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/models" {
					t.Errorf("got a request for %s", r.URL)
				}
				c.answer(w, r)
			}))
			defer srv.Close()
			_, err := catalog.ListModels(t.Context(), catalog.Choice{Row: catalog.Row{Wire: catalog.ChatWire}, Base: srv.URL, Key: httpsafe.NewSecret("k-123456")}, catalog.ListOptions{Client: srv.Client()})
			if err == nil || !strings.Contains(err.Error(), c.text) || c.kind != "" && llm.AsError(err).Kind != c.kind {
				t.Errorf("error %v, want kind %s with %q", err, c.kind, c.text)
			}
		})
	}
	bedrock, _ := catalog.Lookup("bedrock")
	if _, err := catalog.ListModels(t.Context(), catalog.Choice{Row: bedrock}, catalog.ListOptions{}); llm.AsError(err).Kind != llm.Configuration {
		t.Errorf("bedrock: error %v", err)
	}
	codex, _ := catalog.Lookup("openai-codex")
	got, err := catalog.ListModels(t.Context(), catalog.Choice{Row: codex}, catalog.ListOptions{})
	if err != nil || len(got) != 7 || got[0] != (catalog.Offer{ID: "gpt-5.6-sol", Window: 372_000}) {
		t.Errorf("codex: %v, %v", got, err)
	}
}

func TestSurvey(t *testing.T) {
	t.Parallel()
	in := catalog.MatchInput{
		Model: "ignored", Provider: "ignored", Providers: providers("openai mine@ together@https://proxy.example/v1"),
		Getenv: func(k string) string { return map[string]string{"GROQ_API_KEY": "gsk_1", "ASSEMBLYAI_API_KEY": "a"}[k] },
	}
	list, err := catalog.Survey(in)
	if err != nil {
		t.Fatal(err)
	}
	ready := map[string]string{}
	for _, s := range list {
		if s.Ready {
			ready[s.Name] = s.KeySource
		}
		if own := s.Name == "mine" || s.Name == "together"; s.Own != own {
			t.Errorf("%s: own = %v, want %v", s.Name, s.Own, own)
		}
	}
	want := map[string]string{
		"openai": "providers.openai.apiKey", "mine": "", "together": "", "groq": "environment variable GROQ_API_KEY",
		"assemblyai": "environment variable ASSEMBLYAI_API_KEY",
	}
	if d := cmp.Diff(want, ready); d != "" {
		t.Errorf("ready (-want +got):\n%s", d)
	}
	if len(list) != len(catalog.Rows())+1 { // mine is new, together took the name of a row
		t.Errorf("got %d providers, want one more than %d", len(list), len(catalog.Rows()))
	}
	in.Providers = providers("groq GROQ")
	if _, err := catalog.Survey(in); err == nil {
		t.Error("two spellings of a name gave no error")
	}
}

// TestSurveyShowsDisplayNames: the name that the user gave a provider is the one to show.
func TestSurveyShowsDisplayNames(t *testing.T) {
	t.Parallel()
	list, err := catalog.Survey(catalog.MatchInput{Providers: map[string]catalog.ProviderConfig{
		"mine": {Base: "https://example.com/v1", Display: "Our server"}, "openai": {Display: "Team account"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		want := map[string]string{"mine": "Our server", "openai": "Team account"}[s.Name]
		if want != "" && s.Row.Display != want {
			t.Errorf("%s is shown as %q", s.Name, s.Row.Display)
		}
	}
}

func TestNearestModels(t *testing.T) {
	t.Parallel()
	offers := []catalog.Offer{{ID: "anthropic/claude-sonnet-4.5"}, {ID: "anthropic/claude-haiku-4.5"}, {ID: "openai/gpt-4o"}, {ID: "openai/gpt-4o-mini"}, {ID: "x/whisper"}}
	for model, want := range map[string]string{
		"claude-sonet-4-5": "anthropic/claude-sonnet-4.5", "gpt4o": "openai/gpt-4o", "zzz": "", "": "",
	} {
		got := catalog.NearestModels(model, offers, 2)
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || got[0] != want) {
			t.Errorf("NearestModels(%q) = %v, want %q first", model, got, want)
		}
	}
}

func TestVision(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]catalog.Ability{
		"claude-sonnet-4-6": catalog.Supported, "us.anthropic.claude-opus-4-7": catalog.Supported, "openai/gpt-4o-mini": catalog.Supported, "o3": catalog.Supported, "o3-mini": catalog.Unsupported,
		"gpt-oss:20b": catalog.Unsupported, "qwen3-vl-plus": catalog.Supported, "deepseek-v4-flash-vision-exp": catalog.Supported, "llama3.2": "", "": "",
	} {
		if got := catalog.NewFacts("").Of(model).Vision; got != want {
			t.Errorf("the vision of %q = %q, want %q", model, got, want)
		}
	}
}
