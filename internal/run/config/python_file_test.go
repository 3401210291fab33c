package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// What a person writes by hand is contained, however it looks; what Python nanobot
// wrote keeps its meaning, also after the person removed a few things.
func TestPythonFiles(t *testing.T) {
	t.Parallel()
	dump := func(name string, change func(root map[string]any)) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var root map[string]any
		if err := json.Unmarshal(data, &root); err != nil {
			t.Fatal(err)
		}
		change(root)
		if data, err = json.Marshal(root); err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	at := func(root map[string]any, path string) map[string]any {
		for part := range strings.SplitSeq(path, ".") {
			root, _ = root[part].(map[string]any)
		}
		return root
	}
	const provider = `"agents":{"defaults":{"model":"m","provider":"custom"}},"providers":{"custom":{"apiKey":"k","apiBase":"http://127.0.0.1:1/v1"}}`
	for name, c := range map[string]struct {
		text   string
		python bool
	}{
		"as it was written":         {dump("v0.1.5.json", func(map[string]any) {}), true},
		"of the newer version":      {dump("head.json", func(map[string]any) {}), true},
		"channels removed":          {dump("v0.1.5.json", func(r map[string]any) { delete(r, "channels") }), true},
		"gateway section removed":   {dump("v0.1.5.json", func(r map[string]any) { delete(r, "gateway") }), true},
		"unused providers removed":  {dump("v0.1.5.json", func(r map[string]any) { r["providers"] = map[string]any{"custom": map[string]any{"apiKey": "k"}} }), true},
		"another model":             {dump("v0.1.5.json", func(r map[string]any) { at(r, "agents.defaults")["model"] = "x" }), true},
		"empty":                     {`{}`, false},
		"no text":                   {``, false},
		"a provider":                {`{` + provider + `}`, false},
		"snake case":                {`{"agents":{"defaults":{"max_tokens":9}},"tools":{"mcp_servers":{}}}`, false},
		"sections that are empty":   {`{` + provider + `,"tools":{},"gateway":{},"channels":{},"api":{}}`, false},
		"a small file from Python":  {`{` + provider + `,"gateway":{"host":"0.0.0.0","port":18790},"tools":{"exec":{"timeout":60},"web":{"search":{"apiKey":"","maxResults":5}}}}`, false},
		"named like its workspace":  {`{"agents":{"defaults":{"workspace":"~/.nanobot/workspace"}},` + `"tools":{"exec":{"timeout":60}}}`, false},
		"an empty sandbox":          {`{"tools":{"exec":{"sandbox":""}}}`, false},
		"null for what is not said": {`{"tools":{"restrictToWorkspace":null,"exec":{"sandbox":null,"network":null},"approval":null}}`, false},
	} {
		l, err := config.Load(config.Options{Path: write(t, c.text)})
		if c.text == "" {
			l, err = config.Load(config.Options{Home: t.TempDir()})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tools := l.Config.Tools
		open := !tools.RestrictToWorkspace && tools.Exec.Sandbox == "" && tools.Exec.Network == "host" && tools.Approval.Mode == "off"
		contained := tools.RestrictToWorkspace && tools.Exec.Sandbox == "auto" && tools.Exec.Network == "proxy" && tools.Approval.Mode == "auto"
		if l.Python != c.python || open != c.python || contained == c.python {
			t.Errorf("%s: python %v, restrict %v, sandbox %q, network %q, approval %q", name, l.Python, tools.RestrictToWorkspace, tools.Exec.Sandbox, tools.Exec.Network, tools.Approval.Mode)
		}
	}
}

// The environment does not make a file one of Python.
func TestPythonFileByEnvironment(t *testing.T) {
	t.Parallel()
	env := []string{
		"NANOBOT_AGENTS__DEFAULTS__WORKSPACE=/w", "NANOBOT_AGENTS__DEFAULTS__MODEL=m", "NANOBOT_AGENTS__DEFAULTS__MAX_TOKENS=9", "NANOBOT_AGENTS__DEFAULTS__TEMPERATURE=1",
		"NANOBOT_AGENTS__DEFAULTS__MAX_TOOL_ITERATIONS=9", "NANOBOT_GATEWAY__HOST=127.0.0.1", "NANOBOT_GATEWAY__PORT=1", "NANOBOT_TOOLS__WEB__SEARCH__API_KEY=k",
		"NANOBOT_TOOLS__WEB__SEARCH__MAX_RESULTS=3", "NANOBOT_TOOLS__EXEC__TIMEOUT=3", "NANOBOT_TOOLS__MCP_SERVERS={}", "NANOBOT_PROVIDERS__ANTHROPIC__API_KEY=k",
	}
	l, err := config.Load(config.Options{Home: t.TempDir(), Env: env})
	if err != nil || l.Python || !l.Config.Tools.RestrictToWorkspace {
		t.Errorf("python %v, restrict %v, %v", l != nil && l.Python, l != nil && l.Config.Tools.RestrictToWorkspace, err)
	}
}
