package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// open builds an app in an empty home with nothing but the given environment.
func open(t *testing.T, conf string, env ...string) (*app.App, error) {
	t.Helper()
	return openWith(t, nil, conf, env...)
}

// openWith is open with a model of the test's own.
func openWith(t *testing.T, model llm.Model, conf string, env ...string) (*app.App, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	o := app.Options{UseModel: model, Env: append([]string{"NANOBOT_HOME=" + dir, "OLLAMA_HOST=127.0.0.1:1"}, env...), Config: config.Options{Home: dir}}
	if conf != "" {
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return app.New(t.Context(), o)
}

// With nothing configured: a key from the environment, else a server on this
// machine, else the demo model, in this order.
func TestFirstRunOrder(t *testing.T) {
	t.Parallel()
	ollama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/tags" {
			_, _ = io.WriteString(w, `{"models":[{"name":"llama3.2:3b","model":"llama3.2:3b","digest":"abc","modified_at":"2026-01-01T00:00:00Z","details":{"family":"llama"}}]}`)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(ollama.Close)
	host := "OLLAMA_HOST=" + strings.TrimPrefix(ollama.URL, "http://")
	for _, c := range []struct {
		name, provider string
		env            []string
	}{
		{"key beats server", "deepseek", []string{"DEEPSEEK_API_KEY=test-key", host}},
		{"server beats demo", "ollama", []string{host}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// A busy machine may miss the time that a server has for its answer.
			var a *app.App
			for try := 0; try == 0 || try < 20 && a.ModelInfo().Demo; try++ {
				var err error
				if a, err = open(t, "", c.env...); err != nil {
					t.Fatal(err)
				}
			}
			if got := a.ModelInfo().Provider; got != c.provider {
				t.Errorf("provider = %q, want %q (%s)", got, c.provider, a.ModelInfo().Why)
			}
			if len(a.Notes) == 0 {
				t.Error("the choice was not told")
			}
		})
	}
}

// The files that replace instructions are shown and made by commands of the owner,
// and count as the owner's.
func TestPromptCommands(t *testing.T) {
	t.Parallel()
	a, err := open(t, "")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	for name, usual := range map[string]string{"dream": "You look after the long-term memory", "evaluator": "worth interrupting the user"} {
		for _, c := range []struct{ args, want string }{
			{"", "The built-in instructions are used."},
			{" please", "Usage: /" + name + "-prompt"},
			{" init", "are in prompts/" + name + ".md now"},
			{" init", "is there already"},
			{"", "prompts/" + name + ".md replaces the built-in instructions"},
		} {
			if got := final(t, a, "/"+name+"-prompt"+c.args); !strings.Contains(got, c.want) || c.args == "" && !strings.Contains(got, usual) {
				t.Errorf("/%s-prompt%s: %q, want %q", name, c.args, got, c.want)
			}
		}
	}
}

// A model the user chose but that cannot be used is an error that names where
// a key was looked for, never a silent demo.
func TestChosenModelWithoutKey(t *testing.T) {
	t.Parallel()
	_, err := open(t, `{"agents":{"defaults":{"model":"openai/gpt-4o","provider":"openai"}}}`)
	if err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("err = %v", err)
	}
}

// Whoever says nothing about it has commands confined.
func TestPosture(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"no file":       {"", "on, in a sandbox (auto), network: proxy"},
		"an empty file": {`{}`, "on, in a sandbox (auto), network: proxy"},
		"bwrap":         {`{"tools":{"exec":{"sandbox":"bwrap","network":"none"}}}`, "on, in a sandbox (bwrap), network: none"},
		"switched off":  {`{"tools":{"exec":{"enable":false}}}`, "off"},
		"none on wish":  {`{"tools":{"exec":{"sandbox":"none"}}}`, "on, without a sandbox; only rules on the text of a command apply"},
	} {
		a, err := open(t, c.file, "DEEPSEEK_API_KEY=test-key-0123456789")
		if err != nil {
			t.Fatal(name, err)
		}
		if a.Exec != c.want {
			t.Errorf("%s: %q, want %q", name, a.Exec, c.want)
		}
	}
}

// A project that -w names gets no files that nobody asked for; onboard is asked.
func TestProjectGetsNoTemplates(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ws := filepath.Join(home, "project")
	names := func() (out []string) {
		entries, err := os.ReadDir(ws)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	if err := os.MkdirAll(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "AGENTS.md"} { // other agents follow one as well
		if err := os.WriteFile(filepath.Join(ws, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func() {
		a, err := app.New(t.Context(), app.Options{Workspace: ws, Env: []string{"NANOBOT_HOME=" + home, "OLLAMA_HOST=127.0.0.1:1"}, Config: config.Options{Home: home}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // also when the workspace is known
		start()
		if got := names(); !slices.Equal(got, []string{"AGENTS.md", "main.go"}) {
			t.Errorf("after a start the project holds %q", got)
		}
	}
	l, err := config.Load(config.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	written, err := app.SyncTemplates(l, ws)
	if err != nil || !slices.Contains(written, "SOUL.md") || slices.Contains(written, "AGENTS.md") {
		t.Errorf("onboard wrote %q, %v", written, err)
	}
	if err := os.Remove(filepath.Join(ws, "SOUL.md")); err != nil {
		t.Fatal(err)
	}
	start()
	if slices.Contains(names(), "SOUL.md") {
		t.Error("a deleted file came back")
	}
}

func TestTemplatesAreGivenOnce(t *testing.T) {
	t.Parallel()
	ws, data := t.TempDir(), &config.Loaded{DataDir: t.TempDir()}
	mine := filepath.Join(ws, "SOUL.md")
	if err := os.WriteFile(mine, []byte("my own"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := app.SyncTemplates(data, ws)
	if err != nil || len(first) == 0 {
		t.Fatalf("wrote %v, %v", first, err)
	}
	if err := os.Remove(filepath.Join(ws, "USER.md")); err != nil {
		t.Fatal(err)
	}
	again, err := app.SyncTemplates(data, ws)
	if err != nil || len(again) != 0 {
		t.Errorf("second time wrote %v, %v: a deleted file came back", again, err)
	}
	if b, _ := os.ReadFile(mine); string(b) != "my own" {
		t.Errorf("SOUL.md was overwritten: %q", b)
	}
	if _, err := os.Stat(filepath.Join(ws, ".nanobot")); err == nil {
		t.Error("the workspace holds what was given")
	}
}
