package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// runLogin runs provider login, logout or status in a home of its own.
func runLogin(t *testing.T, dir, stdin string, env []string, args ...string) (out string, err error) {
	t.Helper()
	open := func(name, text string) *os.File {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	io := Stdio{
		In: open("in", stdin), Out: open("out", ""), Err: open("err", ""),
		Env: append(env, "NANOBOT_HOME="+dir, "HOME="+dir, "USERPROFILE="+dir, "NANOBOT_NO_KEYRING=1"),
	}
	c := newProgram(io, "", "")
	root := &cobra.Command{Use: "provider", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand((&providerCommand{c.console, c.home, &settings{c.console, c.home}, &signIns{c.console, c.home}}).signinCommands()...)
	root.SetArgs(args)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	err = root.ExecuteContext(t.Context())
	b, readErr := os.ReadFile(io.Out.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	return strings.ReplaceAll(string(b), dir, "HOME"), err
}

// codexServer gives a token for every code.
func codexServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/oauth/token" || r.FormValue("code") != "pasted-code" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
			return
		}
		// {"https://api.openai.com/auth":{"chatgpt_account_id":"acc"}}
		claims := "eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjIn19"
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "e30." + claims + ".x", "refresh_token": "r", "expires_in": 3600})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestLoginCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte(`{"agents": {"defaults": {"modelPreset": "p"}}, "modelPresets": {"p": {"model": "m"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"NANOBOT_OPENAI_CODEX_AUTH_URL=" + codexServer(t), "NANOBOT_OPENAI_CODEX_CALLBACK_PORT=0"}
	steps := []struct {
		name, stdin, args string
		code              int
		want              []string // parts of what is printed, or of the error
	}{
		{"nobody yet", "", "status", exitOK, []string{"openai-codex       not signed in\n", "github-copilot     not signed in\n"}},
		{"wrong code", "wrong\n", "login openai-codex", exitAuth, []string{"not accepted"}},
		{"unknown", "", "login openai-codecs", exitUsage, []string{"did you mean openai-codex?"}},
		{"has keys", "", "login anthropic", exitUsage, []string{"providers.anthropic.apiKey"}},
		{"model alone", "", "login openai-codex -m x", exitUsage, []string{"--set-main"}},
		{
			"sign in", "pasted-code\n", "login openai_codex", exitOK,
			[]string{"/oauth/authorize?", "Signed in to OpenAI Codex (ChatGPT subscription) as acc. Stored in: HOME/auth/openai-codex.json\n", "--set-main"},
		},
		{"status", "", "status", exitOK, []string{"openai-codex     ✓ signed in as acc (HOME/auth/openai-codex.json)\n"}},
		{"as JSON", "", "status --json", exitOK, []string{`"signed_in": true`, `"account": "acc"`}},
		{"again", "", "login openai-codex --main", exitOK, []string{"Already signed in", "openai-codex/gpt-5.6-sol is now the default. Set in HOME/config.json"}},
		{"other model", "", "login openai-codex --set-main -m gpt-5.5", exitOK, []string{"openai-codex/gpt-5.5 is now the default"}},
		{"forced", "pasted-code\n", "login openai-codex --force", exitOK, []string{"Signed in to"}},
		{"sign out", "", "logout openai-codex", exitOK, []string{"Signed out", "Removed HOME/auth/openai-codex.json.\n"}},
		{"again out", "", "logout openai-codex", exitOK, []string{"You were not signed in"}},
	}
	for _, st := range steps {
		out, err := runLogin(t, dir, st.stdin, env, strings.Fields(st.args)...)
		code := exitOK
		if err != nil {
			code, out = exitCode(err), out+err.Error()
		}
		if code != st.code {
			t.Errorf("%s: exit code %d, want %d: %v", st.name, code, st.code, err)
		}
		for _, want := range st.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: got %q, want %q in it", st.name, out, want)
			}
		}
	}
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Agents struct{ Defaults map[string]any }
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	d := got.Agents.Defaults
	if d["provider"] != "openai_codex" || d["model"] != "openai-codex/gpt-5.5" || d["modelPreset"] != nil {
		t.Errorf("config = %v, want provider and model set and the preset gone", d)
	}
}
