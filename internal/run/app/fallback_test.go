package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// endpoint is a provider that answers with a status and remembers what it was asked.
type endpoint struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // model names
	keys  []string
}

func newEndpoint(t *testing.T, reply func(key string) (status int, body string)) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Model     string `json:"model"`
			MaxTokens int    `json:"max_tokens"`
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		e.mu.Lock()
		e.asked = append(e.asked, fmt.Sprintf("%s/%d", req.Model, req.MaxTokens))
		e.keys = append(e.keys, key)
		e.mu.Unlock()
		status, body := reply(key)
		if status == http.StatusOK {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(e.Close)
	return e
}

// A provider that refuses is left for the fallback, with the fallback's own
// model and settings; presets may name their own.
func TestFallbackChain(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{
		"for all":      `"fallbackModels":[{"model":"second/b","provider":"second","maxTokens":77}]}},"modelPresets":{}`,
		"of a preset":  `"modelPreset":"p"}},"modelPresets":{"p":{"model":"first/a","provider":"first","fallbacks":[{"model":"second/b","provider":"second","maxTokens":77}]}}`,
		"by its name":  `"fallbackModels":["q"]}},"modelPresets":{"q":{"model":"second/b","provider":"second","maxTokens":77}}`,
		"of two names": `"fallbackModels":["q",{"model":"nowhere/x","provider":"nowhere"}]}},"modelPresets":{"q":{"model":"second/b","provider":"second","maxTokens":77}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newEndpoint(t, func(string) (int, string) { return 401, `{"error":{"message":"no"}}` })
			second := newEndpoint(t, func(string) (int, string) { return 200, fine })
			a, err := open(t, fmt.Sprintf(`{"agents":{"defaults":{"model":"first/a","provider":"first",%s,
				"providers":{"first":{"apiBase":%q,"apiKey":"test-key-1"},"second":{"apiBase":%q,"apiKey":"test-key-2"}}}`, conf, first.URL+"/v1", second.URL+"/v1"))
			if err != nil {
				t.Fatal(err)
			}
			serve(t, a)
			if got := finalOf(t, a, "hello"); got.Text != "fine" || got.Turn.Model != "first/a" || got.Turn.Fallback != "second/b" {
				t.Errorf("answer = %q of %+v", got.Text, got.Turn)
			}
			if len(first.asked) == 0 || len(second.asked) != 1 || second.asked[0] != "b/77" || second.keys[0] != "test-key-2" {
				t.Errorf("first was asked for %v, second for %v with %v", first.asked, second.asked, second.keys)
			}
		})
	}
}

// Several keys of one provider: a rejected one is left for the next.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(key string) (int, string) {
		if key == "test-key-bad" {
			return 401, `{"error":{"message":"no"}}`
		}
		return 200, fine
	})
	a, err := open(t, fmt.Sprintf(`{"agents":{"defaults":{"model":"many/a","provider":"many"}},
		"providers":{"many":{"apiBase":%q,"apiKeys":["test-key-bad","test-key-good"]}}}`, e.URL+"/v1"))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	for range 3 {
		if got := final(t, a, "hello"); got != "fine" {
			t.Fatalf("answer = %q", got)
		}
	}
	if bad := strings.Count(strings.Join(e.keys, " "), "test-key-bad"); bad > 1 {
		t.Errorf("a rejected key was used %d times: %v", bad, e.keys)
	}
}

// The budget stops a turn before it is paid for, and says how to go on.
func TestBudgetStops(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(string) (int, string) { return 200, fine })
	// Calls of local servers are free, so this one has a name that no resolver knows.
	a, err := open(t, fmt.Sprintf(`{"agents":{"defaults":{"model":"paid/a","provider":"paid","budget":{"dailyTokens":10}}},
		"providers":{"paid":{"apiBase":%q,"apiKey":"test-key"}}}`, strings.Replace(e.URL, "127.0.0.1", "127.0.0.1.nip.invalid", 1)+"/v1"))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	var got string
	for out, err := range a.Agent.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "test", ChatID: "1"}, Text: "hello"}) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Kind == bus.Final {
			got = out.Text
		}
	}
	if !strings.Contains(got, "dailyTokens") || len(e.asked) != 0 {
		t.Errorf("reply %q after %d requests", got, len(e.asked))
	}
}

// Pictures are counted and bounded like answers.
func TestPicturesAreMetered(t *testing.T) {
	t.Parallel()
	for name, budget := range map[string]string{"allowed": "100000", "used up": "10"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pictures := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				pictures++
				_, _ = io.WriteString(w, `{"data":[{"b64_json":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}]}`)
			}))
			t.Cleanup(srv.Close)
			asked := 0
			model := llm.ModelFunc(func(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
				return func(yield func(llm.Event, error) bool) {
					asked++
					m := llm.Message{Role: llm.Assistant, Content: llm.Text("done: " + req.Messages[len(req.Messages)-1].Content.String())}
					finish := llm.FinishStop
					if asked == 1 {
						m = llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "1", Name: "generate_image", Arguments: `{"prompt":"a cat"}`}}}
						finish = llm.FinishToolCalls
					}
					yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: m, Finish: finish}}, nil)
				}
			})
			a, err := openWith(t, model, fmt.Sprintf(`{"agents":{"defaults":{"budget":{"dailyTokens":%s}}},"providers":{"custom":{"apiBase":%q,"apiKey":"test-key"}},
				"tools":{"imageGeneration":{"enabled":true,"provider":"custom","model":"pic-1"}}}`, budget, srv.URL+"/v1"))
			if err != nil {
				t.Fatal(err)
			}
			serve(t, a)
			got := final(t, a, "draw a cat")
			if allowed := name == "allowed"; allowed != (pictures == 1) || allowed == strings.Contains(got, "dailyTokens") {
				t.Errorf("%d pictures, answer %q", pictures, got)
			}
		})
	}
}
