package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// runCommand runs one command of a configuration and returns what it wrote.
func runCommand(t *testing.T, config string, env []string, name string, args ...string) (out, errOut string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := newPrinted(t), newPrinted(t)
	c := newProgram(Stdio{Now: time.Now, Out: stdout.File, Err: stderr.File, Env: env}, file, "")
	cmd := build(t, c, name)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

const twoProviders = `{
  "agents": {"defaults": {"model": "gpt-4o"}},
  "providers": {
    "openai": {"apiKey": "sk-file-secret"},
    "house": {"apiBase": "http://192.168.1.20:8000", "wire": "anthropic"},
    "moonshot": {"apiKey": "sk-ant-secret"}
  },
  "modelPresets": {"deep": {"model": "openai/gpt-4o", "reasoningEffort": "high"}}
}`

func TestProviderList(t *testing.T) {
	t.Parallel()
	env := []string{"GROQ_API_KEY=gsk_env_secret"}
	out, errOut, err := runCommand(t, twoProviders, env, "provider", "list")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"✓  openai ", "from providers.openai.apiKey", "✓  groq ", "from environment variable GROQ_API_KEY", "✓  house ", "http://192.168.1.20:8000",
		"set ANTHROPIC_API_KEY", "sign in: nanobot provider login github_copilot", "speech only", "needs providers.azure_openai.apiBase",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Index(out, "groq") > strings.Index(out, "openrouter") {
		t.Errorf("what is set up is not listed first:\n%s", out)
	}
	if strings.Contains(out+errOut, "secret") {
		t.Errorf("a key is shown:\n%s%s", out, errOut)
	}
	if !strings.Contains(errOut, "moonshot: the key from providers.moonshot.apiKey looks like one of Anthropic") {
		t.Errorf("no warning about the key: %q", errOut)
	}

	out, _, err = runCommand(t, twoProviders, env, "provider", "list", "--json", "--ready")
	var list []provider.State
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list) != 4 {
		t.Fatalf("%v, want 4 providers in JSON:\n%s", err, out)
	}
	for _, p := range list {
		if !p.Ready || p.Base == "" || p.Wire == "" {
			t.Errorf("incomplete: %+v", p)
		}
	}
	out, _, err = runCommand(t, `{}`, nil, "provider", "list", "--ready")
	if err != nil || !strings.Contains(out, "nanobot onboard") {
		t.Errorf("with nothing set up: %q, %v", out, err)
	}
}

func TestProviderExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want []string
		code int
	}{
		{"by keyword", []string{"gpt-4o"}, []string{
			"Provider    openai (OpenAI)", `Decided by  keyword: the model name contains "gpt"`, "Key         from providers.openai.apiKey",
			"Address     https://api.openai.com/v1", "Protocol    Chat Completions\n", "Sent as     gpt-4o", "Window      128000 tokens",
		}, 0},
		{"a preset", []string{"deep"}, []string{"Protocol    Responses, else Chat Completions", "Sent as     gpt-4o"}, 0},
		{"with an effort", []string{"gpt-4o", "--effort", "low"}, []string{"Protocol    Responses, else Chat Completions"}, 0},
		{"own endpoint", []string{"house/big-one"}, []string{"Provider    house\n", "Key         none", "Anthropic Messages", "Sent as     big-one", "Window      not known"}, 0},
		{"forced", []string{"gpt-4o", "--provider", "House"}, []string{"Provider    house\n", "Decided by  forced"}, 0},
		{"a sign-in", []string{"github-copilot/gpt-5"}, []string{"provider login github_copilot", "Protocol    Responses\n"}, 0},
		{"bedrock", []string{"bedrock/amazon.nova-lite-v1:0"}, []string{"by region", "Bedrock Converse"}, 0},
		{"a doubtful key", []string{"kimi-k2.5"}, []string{"Warning     the key from providers.moonshot.apiKey looks like one of Anthropic"}, 0},
		{"nobody", []string{"mystery"}, []string{"house, moonshot, openai"}, exitConfig},
		{"no key", []string{"claude-x"}, []string{"ANTHROPIC_API_KEY"}, exitConfig},
		{"no model", nil, []string{"usage"}, exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, _, err := runCommand(t, twoProviders, nil, "provider", append([]string{"explain"}, c.args...)...)
			code := 0
			if err != nil {
				out += err.Error()
				code = exitCode(err)
			}
			for _, want := range c.want {
				words := strings.Split(want, ", ")
				if c.code == 0 {
					words = []string{want}
				}
				for _, w := range words {
					if !strings.Contains(out, w) {
						t.Errorf("no %q in\n%s", w, out)
					}
				}
			}
			if code != c.code || strings.Contains(out, "secret") {
				t.Errorf("code %d, want %d, and no key:\n%s", code, c.code, out)
			}
		})
	}
	out, _, err := runCommand(t, twoProviders, nil, "provider", "explain", "gpt-5", "--json")
	var e choiceJSON
	if err != nil || json.Unmarshal([]byte(out), &e) != nil || e.Provider != "openai" || e.Step != "keyword" || len(e.Wires) != 2 || e.Window != 400_000 {
		t.Errorf("%v:\n%s", err, out)
	}
}
