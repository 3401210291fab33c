package signin_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
)

func copilotWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.keep(t, "github-copilot", "gh-good", "", time.Now().AddDate(1, 0, 0))
	return w
}

func TestCopilotHeaders(t *testing.T) {
	t.Parallel()
	const user, assistant, tool = `{"role":"user","content":"a \"role\":\"tool\" b"}`, `{"role":"assistant","content":"b"}`, `{"role":"tool","content":"c"}`
	tests := []struct {
		name, body        string
		initiator, vision string
	}{
		{"first", `{"messages":[{"role":"system","content":"s"},` + user + `]}`, "user", ""},
		{"next question", `{"messages":[` + user + "," + assistant + "," + user + `]}`, "user", ""},
		{"after a tool", `{"messages":[` + user + "," + assistant + "," + tool + `]}`, "agent", ""},
		{"image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`, "user", "true"},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image"}]},{"type":"function_call_output","output":"x"}]}`, "agent", "true"},
		{"talk about images", `{"messages":[{"role":"user","content":"\"type\":\"image_url\""}]}`, "user", ""},
	}
	w := copilotWorld(t)
	a := w.account(t, "github_copilot")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req, err := sign(t, a, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range map[string]string{
				"Authorization": "Bearer pass-1", "X-Initiator": tt.initiator, "Copilot-Vision-Request": tt.vision,
				"Copilot-Integration-Id": "vscode-chat", "User-Agent": "nanobot/9", "Editor-Version": "vscode/1.99.0",
			} {
				if got := req.Header.Get(k); got != want {
					t.Errorf("%s = %q, want %q", k, got, want)
				}
			}
			if req.URL.String() != "https://api.githubcopilot.com/chat/completions" {
				t.Errorf("URL = %s", req.URL)
			}
		})
	}
}

func TestCopilotEndpoint(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, endpoint string
		change         func(*world, *signin.Options)
		want           string
	}{
		{"business plan", "https://api.business.githubcopilot.com", nil, "https://api.business.githubcopilot.com/chat/completions"},
		{"with a path", "https://ghe.example/copilot/", nil, "https://ghe.example/copilot/chat/completions"},
		{"not encrypted", "http://api.business.githubcopilot.com", nil, "https://api.githubcopilot.com/chat/completions"},
		{
			"user's address", "https://api.business.githubcopilot.com",
			func(_ *world, o *signin.Options) { o.BaseURL = "https://proxy.example" }, "https://proxy.example/chat/completions",
		},
		{
			"address from the environment", "https://api.business.githubcopilot.com",
			func(w *world, _ *signin.Options) { w.env["NANOBOT_COPILOT_BASE_URL"] = "https://env.example" }, "https://env.example/chat/completions",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := copilotWorld(t)
			w.endpoint = tt.endpoint
			o := w.options()
			if tt.change != nil {
				tt.change(w, &o)
			}
			a, err := signin.New("github-copilot", o)
			if err != nil {
				t.Fatal(err)
			}
			req, err := sign(t, a, "{}")
			if err != nil {
				t.Fatal(err)
			}
			if got := req.URL.String(); got != tt.want {
				t.Errorf("URL = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestCopilotOneExchange(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	a := w.account(t, "github-copilot")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := sign(t, a, "{}"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, n := w.count(); n != 1 {
		t.Errorf("exchanges = %d, want 1", n)
	}
	for range 20 {
		wg.Go(func() {
			if !a.Signer().Refused(t.Context()) {
				t.Error("Refused = false, want a new token")
			}
		})
	}
	wg.Wait()
	if _, n := w.count(); n != 2 {
		t.Errorf("exchanges after 401 = %d, want 2", n)
	}
	if req, err := sign(t, a, "{}"); err != nil || req.Header.Get("Authorization") != "Bearer pass-2" {
		t.Errorf("signed %q, %v; want the new token", req.Header.Get("Authorization"), err)
	}
}

func TestCopilotTrouble(t *testing.T) {
	t.Parallel()
	t.Run("signed out at GitHub", func(t *testing.T) {
		t.Parallel()
		w := copilotWorld(t)
		w.github = "another"
		_, err := sign(t, w.account(t, "github-copilot"), "{}")
		authError(t, err, "nanobot provider login github-copilot")
	})
	t.Run("signed in again by another process", func(t *testing.T) {
		t.Parallel()
		w := copilotWorld(t)
		a := w.account(t, "github-copilot")
		if err := a.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.github = "another"
		w.keep(t, "github-copilot", "another", "", time.Now().AddDate(1, 0, 0))
		if _, err := sign(t, a, "{}"); err != nil {
			t.Error(err)
		}
	})
	t.Run("no plan", func(t *testing.T) {
		t.Parallel()
		w := copilotWorld(t)
		w.denied = http.StatusForbidden
		_, err := sign(t, w.account(t, "github-copilot"), "{}")
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.Permission || !strings.Contains(e.Message, "Copilot") {
			t.Errorf("error = %v, want permission", err)
		}
	})
	t.Run("not signed in", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := sign(t, w.account(t, "github-copilot"), "{}")
		authError(t, err, "not signed in")
		if !errors.Is(err, signin.ErrNotSignedIn) {
			t.Errorf("error = %v, want ErrNotSignedIn in its chain", err)
		}
		if _, n := w.count(); n != 0 {
			t.Errorf("exchanges = %d, want none", n)
		}
	})
}

// A token never travels unencrypted, whatever the configuration says.
func TestPlainTextRefused(t *testing.T) {
	t.Parallel()
	for _, name := range signin.Names() {
		w := newWorld(t)
		w.keep(t, name, "gh-good", "r", time.Now().AddDate(1, 0, 0))
		o := w.options()
		o.BaseURL = "http://example.com"
		a, err := signin.New(name, o)
		if err != nil {
			t.Fatal(err)
		}
		req, err := sign(t, a, "{}")
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.Configuration || req.Header.Get("Authorization") != "" {
			t.Errorf("%s: error = %v with %q, want configuration and no token", name, err, req.Header.Get("Authorization"))
		}
	}
	for _, v := range []string{"NANOBOT_COPILOT_TOKEN_URL", "NANOBOT_GITHUB_ACCESS_TOKEN_URL", "NANOBOT_COPILOT_BASE_URL"} {
		w := newWorld(t)
		w.env[v] = "http://example.com/x"
		if _, err := signin.New("github-copilot", w.options()); err == nil || !strings.Contains(err.Error(), v) {
			t.Errorf("%s: error = %v, want one that names it", v, err)
		}
	}
}
