package nanobot_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot"
)

// The code in the documents must be code that is compiled and run.
func TestDocumentedCode(t *testing.T) {
	t.Parallel()
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	code := squeeze(string(examples))
	page, err := os.ReadFile("docs/how-to/sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/how-to/sdk.md shows no code")
	}
	for _, b := range blocks {
		if !strings.Contains(code, squeeze(b[1])) {
			t.Errorf("docs/how-to/sdk.md shows code that no example has:\n%s", b[1])
		}
	}
}

// A program tells apart why there is no answer.
func TestErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := nanobot.WithEnv([]string{"NANOBOT_HOME=" + dir, "OLLAMA_HOST=127.0.0.1:1"})
	_, err := nanobot.New(t.Context(), env, nanobot.WithModelName("anthropic/claude-x"))
	if !errors.Is(err, nanobot.ErrNoProvider) || errors.Is(err, nanobot.ErrBudget) || !strings.Contains(err.Error(), "anthropic") {
		t.Errorf("without a key: %v", err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error": {"message": "no such key"}}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	bot, err := nanobot.New(t.Context(), env, nanobot.WithWorkspace(dir+"/work"), nanobot.WithModelName("custom/m"),
		nanobot.WithSetting("providers.custom.apiBase", server.URL), nanobot.WithSetting("providers.custom.apiKey", "k"))
	if err != nil {
		t.Fatal(err)
	}
	defer bot.Close()
	res, err := bot.Run(t.Context(), nanobot.Input{Text: "hello"})
	failed, ok := errors.AsType[*nanobot.TurnError](err)
	if !ok || failed.Kind != "auth" || res.Turn.ErrorKind != "auth" || errors.Is(err, nanobot.ErrNoProvider) {
		t.Errorf("a wrong key: %v, %+v", err, res.Turn)
	}
	if !errors.Is(&nanobot.TurnError{Kind: "budget_exceeded"}, nanobot.ErrBudget) {
		t.Error("a spending limit is not ErrBudget")
	}
}

// A gateway that never ran gives back what it took, and one that was closed
// does not run.
func TestGatewayClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() (*nanobot.Gateway, error) {
		return nanobot.NewGateway(t.Context(), nanobot.WithEnv([]string{"NANOBOT_HOME=" + dir}), nanobot.WithWorkspace(dir+"/work"),
			nanobot.WithModel(nanobot.ModelFunc(parrot)), nanobot.WithListen("127.0.0.1:0"))
	}
	g, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if g.Addr() == "" {
		t.Error("it listens nowhere")
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "another gateway already works with") {
		t.Errorf("a second gateway: %v", err)
	}
	if err := g.Send(t.Context(), nanobot.Route{Channel: "desk", ChatID: "1"}, "hi"); err == nil || !strings.Contains(err.Error(), "not switched on") {
		t.Errorf("a message to a channel there is not: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Serve(t.Context()); err == nil {
		t.Error("a closed gateway runs")
	}
	again, err := open()
	if err != nil {
		t.Fatalf("the first one kept something: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
