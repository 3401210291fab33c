package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runConfig runs one command line in a home of its own.
func runConfig(t *testing.T, dir, stdin string, env []string, args ...string) (code int, out, errOut string) {
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
	read := func(f *os.File) string {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), dir, "HOME")
	}
	io := Stdio{In: open("in", stdin), Out: open("out", ""), Err: open("err", ""), Env: append(env, "NANOBOT_HOME="+dir)}
	code = Main(t.Context(), args, io)
	return code, read(io.Out), read(io.Err)
}

func TestConfigCommands(t *testing.T) {
	t.Parallel()
	const file = `{
  // mine
  "agents": {"defaults": {"model": "m", "max_tokens": 5}},
  "providers": {"groq": {"apiKey": "SECRET"}}
}
`
	tests := []struct {
		name  string
		args  string
		stdin string
		env   []string
		code  int
		out   string // all of standard output, or a part of it after "~"
		err   string // a part of standard error
		text  string // a part of the file afterwards
	}{
		{name: "path", args: "config path", out: "HOME/config.json\n"},
		{name: "get text", args: "config get agents.defaults.model", out: "m\n"},
		{name: "get as JSON", args: "config get agents.defaults.model --json", out: "\"m\"\n"},
		{name: "get number", args: "config get agents.defaults.maxTokens", out: "5\n"},
		{name: "get section", args: "config get gateway.reload", out: "{\"enabled\":true,\"debounceMs\":300}\n"},
		{name: "get secret", args: "config get providers.groq.apiKey", out: "***\n"},
		{name: "get unknown", args: "config get agents.defaults.modle", code: exitUsage, err: "did you mean model?"},
		{name: "get nothing", args: "config get", code: exitUsage, err: "usage: nanobot config get PATH"},
		{name: "show", args: "config show", out: "~\"contextWindowTokens\": 200000,"},
		{name: "show set", args: "config show --set", out: "{\n  \"agents\": {\n    \"defaults\": {\n      \"model\": \"m\",\n      \"maxTokens\": 5\n    }\n  },\n  \"providers\": {\n    \"groq\": {\n      \"apiKey\": \"***\"\n    }\n  }\n}\n"},
		{name: "set", args: "config set agents.defaults.maxTokens 7", out: "Set agents.defaults.maxTokens in HOME/config.json\n", text: `"max_tokens": 7`},
		{name: "set keeps comments", args: "config set api.port 7", out: "~Set api.port", text: "// mine"},
		{name: "set from stdin", args: "config set providers.groq.apiKey -", stdin: "FRESH\n", out: "~Set", text: `"apiKey": "FRESH"`},
		{name: "set a reference", args: "config set providers.groq.apiKey ${K}", env: []string{"K=x"}, out: "~Set", text: `"apiKey": "${K}"`},
		{name: "set without effect", args: "config set agents.defaults.model n", env: []string{"NANOBOT_AGENTS__DEFAULTS__MODEL=e"}, out: "~Set", err: "NANOBOT_AGENTS__DEFAULTS__MODEL takes precedence", text: `"model": "n"`},
		{name: "set for another environment", args: "config set agents.defaults.model ${NO}", out: "~Set", err: "not valid yet", text: "${NO}"},
		{name: "set dry", args: "config set agents.defaults.maxTokens 7 --dry-run", out: "~not saved", text: `"max_tokens": 5`},
		{name: "set wrong value", args: "config set agents.defaults.maxTokens SECRET", code: exitUsage, err: "must be a whole number", text: `"max_tokens": 5`},
		{name: "set unknown", args: "config set mystery 1", code: exitUsage, err: "unknown setting mystery"},
		{name: "unset", args: "config unset agents.defaults.model", out: "~Removed", text: `{"defaults": {"max_tokens": 5}}`},
		{name: "unset nothing", args: "config unset api.port", out: "~Nothing to remove"},
		{name: "validate", args: "config validate", out: "ok: HOME/config.json\n"},
		{name: "validate no file", args: "config validate HOME/none.json", code: exitConfig, err: "nanobot onboard -c HOME/none.json"},
		{name: "validate strict environment", args: "config validate --strict", env: []string{"NANOBOT_API__PROT=1"}, code: exitConfig, err: "did you mean port?"},
		{name: "validate doubtful", args: "config validate", env: []string{"NANOBOT_API__PROT=1"}, out: "~warning: api.prot: unknown setting"},
		{name: "validate JSON", args: "config validate --json", env: []string{"NANOBOT_API__PORT=x"}, code: exitConfig, out: "~\"kind\": \"invalid_schema\""},
		{name: "explain", args: "config explain agents.defaults.max_tokens", env: []string{"NANOBOT_AGENTS__DEFAULTS__MAX_TOKENS=9"}, out: "agents.defaults.maxTokens = 9\n  Longest answer, in tokens.\n  from  environment variable NANOBOT_AGENTS__DEFAULTS__MAX_TOKENS\n  hides HOME/config.json:3:55: 5\n  hides default: 8192\n"},
		{name: "explain section", args: "config explain providers", out: "~providers.groq.apiKey = \"***\""},
		{name: "explain unset section", args: "config explain api", out: "~api.port = 8900\n  Port to listen on; 0 picks a free one.\n  from  default\n"},
		{name: "explain JSON", args: "config explain agents.defaults.model --json", out: "~\"layer\": \"file\""},
		{name: "schema", args: "config schema", out: "~json-schema.org/draft/2020-12"},
		{name: "help", args: "config", out: "~nanobot config explain agents.defaults.model"},
		{name: "completion", args: "__complete config get agents.defaults.m", out: "~agents.defaults.maxTokens\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "config.json")
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			args := strings.Fields(strings.ReplaceAll(tt.args, "HOME", dir))
			code, out, errOut := runConfig(t, dir, tt.stdin, tt.env, args...)
			if code != tt.code {
				t.Errorf("exit code = %d, want %d; %s", code, tt.code, errOut)
			}
			out = strings.ReplaceAll(out, `\`, "/")
			if part, ok := strings.CutPrefix(tt.out, "~"); ok && !strings.Contains(out, part) || !ok && out != tt.out {
				t.Errorf("output = %s\nwant %s", out, tt.out)
			}
			if !strings.Contains(strings.ReplaceAll(errOut, `\`, "/"), tt.err) || tt.err == "" && tt.code == 0 && errOut != "" && tt.name != "completion" {
				t.Errorf("errors = %s\nwant %s", errOut, tt.err)
			}
			if strings.Contains(out+errOut, "SECRET") {
				t.Errorf("a value is shown: %s%s", out, errOut)
			}
			after, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(after), tt.text) {
				t.Errorf("file = %s, %v\nwant %s", after, err, tt.text)
			}
		})
	}
}

// Setting something is a way to start: the file gets the safe defaults.
func TestConfigSetMakesFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, errOut := runConfig(t, dir, "", nil, "config", "set", "agents.defaults.model", "m"); code != 0 {
		t.Fatalf("exit code = %d: %s", code, errOut)
	}
	code, out, _ := runConfig(t, dir, "", nil, "config", "validate", "--json", "--strict")
	var v validation
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || !v.OK || !v.Exists {
		t.Errorf("validate = %d %s, %v", code, out, err)
	}
	if _, out, _ := runConfig(t, dir, "", nil, "config", "get", "tools.exec.sandbox"); out != "auto\n" {
		t.Errorf("sandbox = %s", out)
	}
}

// A file that cannot be read as JSON is told with line and caret, exit 78.
func TestConfigBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{\n  \"api\": {\"apiKey\": \"SECRET\"}\n  \"x\": 1\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"config", "validate"}, {"config", "show"}, {"config", "set", "api.port", "1"}} {
		code, _, errOut := runConfig(t, dir, "", nil, args...)
		if code != exitConfig || !strings.Contains(errOut, "line 3, column 3") || !strings.Contains(errOut, "  ^") || strings.Contains(errOut, "SECRET") {
			t.Errorf("%v: exit code %d\n%s", args, code, errOut)
		}
	}
}
