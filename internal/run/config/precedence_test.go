package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// The strongest source that gives a value wins, for every type of setting, and
// an empty text in the file or the environment is no value.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	types := []struct {
		path, env        string
		file, inEnv, arg string // value as JSON in the file, in the environment, on the command line
		want             [4]string
	}{
		{"agents.defaults.model", "NANOBOT_AGENTS__DEFAULTS__MODEL", `"f"`, "e", "a", [4]string{`"anthropic/claude-opus-4-5"`, `"f"`, `"e"`, `"a"`}},
		{"agents.defaults.maxTokens", "NANOBOT_AGENTS__DEFAULTS__MAX_TOKENS", `1`, "2", "3", [4]string{"8192", "1", "2", "3"}},
		{"agents.defaults.maxTokens", "nanobot_agents__defaults__maxtokens", `1`, "2", "3", [4]string{"8192", "1", "2", "3"}},
		{"agents.defaults.temperature", "NANOBOT_AGENTS__DEFAULTS__TEMPERATURE", `0.2`, "0.3", "0.4", [4]string{"0.1", "0.2", "0.3", "0.4"}},
		{"agents.defaults.unifiedSession", "NANOBOT_AGENTS__DEFAULTS__UNIFIED_SESSION", `false`, "yes", "false", [4]string{"false", "false", "true", "false"}},
		{"agents.defaults.disabledSkills", "NANOBOT_AGENTS__DEFAULTS__DISABLED_SKILLS", `["f"]`, `["e"]`, "a,b", [4]string{"null", `["f"]`, `["e"]`, `["a","b"]`}},
		{"agents.defaults.budget.dailyUsd", "NANOBOT_AGENTS__DEFAULTS__BUDGET__DAILY_USD", `1`, "2", "0", [4]string{"5", "1", "2", "0"}},
		{"agents.defaults.limits.llmTimeoutS", "NANOBOT_LLM_TIMEOUT_S", `1`, "2", "3", [4]string{"300", "1", "2", "3"}},
		{"agents.defaults.botIcon", "NANOBOT_AGENTS__DEFAULTS__BOT_ICON", `"f"`, "e", "a", [4]string{`"🐈"`, `"f"`, `"e"`, `"a"`}},
		{"providers.openai.apiBase", "NANOBOT_PROVIDERS__OPENAI__API_BASE", `"http://f"`, "http://e", "http://a", [4]string{`""`, `"http://f"`, `"http://e"`, `"http://a"`}},
		{"providers.azureOpenai.apiBase", "NANOBOT_PROVIDERS__AZURE_OPENAI__API_BASE", `"http://f"`, "http://e", "http://a", [4]string{`""`, `"http://f"`, `"http://e"`, `"http://a"`}},
		{"channels.telegram.groupPolicy", "NANOBOT_CHANNELS__TELEGRAM__GROUP_POLICY", `"f"`, "e", "a", [4]string{"null", `"f"`, `"e"`, `"a"`}},
		{"channels.telegram.enabled", "NANOBOT_CHANNELS__TELEGRAM__ENABLED", `false`, "true", "false", [4]string{"false", "false", "true", "false"}},
		{"channels.telegram.allowFrom", "NANOBOT_CHANNELS__TELEGRAM__ALLOW_FROM", `[1]`, `2, 3`, "[4]", [4]string{"null", `["1"]`, `["2","3"]`, `["4"]`}},
		{"channels.matrix.maxMediaBytes", "NANOBOT_CHANNELS__MATRIX__MAX_MEDIA_BYTES", `1`, "2", "3", [4]string{"null", "1", "2", "3"}},
		{"tools.mcpServers", "NANOBOT_TOOLS__MCP_SERVERS", `{"a":{"url":"http://f"}}`, `{"a":{"url":"http://e"}}`, `{"a":{"url":"http://a"}}`, [4]string{"null", `{"a":{"url":"http://f"}}`, `{"a":{"url":"http://e"}}`, `{"a":{"url":"http://a"}}`}},
	}
	for _, tt := range types {
		for mask := range 8 {
			t.Run(fmt.Sprintf("%s from %03b", tt.env, mask), func(t *testing.T) {
				t.Parallel()
				o := config.Options{Home: t.TempDir()}
				want, text := tt.want[0], "{}"
				if mask&1 != 0 {
					text, want = nested(tt.path, tt.file), tt.want[1]
				} else if strings.HasPrefix(tt.want[0], `"`) && !strings.Contains(tt.path, "botIcon") {
					text = nested(tt.path, `""`) // must not hide anything
				} else if strings.HasPrefix(tt.path, "channels.") || strings.HasPrefix(tt.path, "providers.") {
					want = "" // the section itself is not there
				}
				if mask&2 != 0 {
					o.Env, want = []string{tt.env + "=" + tt.inEnv}, tt.want[2]
				} else {
					o.Env = []string{tt.env + "="}
				}
				if mask&4 != 0 {
					o.Overrides, want = []config.Override{{Path: tt.path, Value: tt.arg}}, tt.want[3]
				}
				o.Path = write(t, text)
				l, err := config.Load(o)
				if err != nil {
					t.Fatal(err)
				}
				got, err := l.Get(tt.path)
				if err != nil || want != "" && got != want {
					t.Errorf("%s = %s, %v; want %s", tt.path, got, err, want)
				}
				if set := l.IsSet(tt.path); set != (mask != 0) {
					t.Errorf("IsSet = %v with sources %03b", set, mask)
				}
				if len(l.Warnings) > 0 {
					t.Errorf("warnings: %v", l.Warnings)
				}
			})
		}
	}
}

// nested wraps a JSON value in the objects of a path.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	for _, p := range slices.Backward(parts) {
		value = `{"` + p + `": ` + value + `}`
	}
	return value
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		text     string
		env      []string
		want     map[string]string
		warnings []string
	}{
		{
			name: "switches of the process are not settings",
			text: "{}",
			env: []string{
				"NANOBOT_CONFIG=", "NANOBOT_HOME=", "NANOBOT_RESTART_NOTIFY_CHANNEL=x", "NANOBOT_GITHUB_USER_URL=x",
				"NANOBOT_OPENAI_COMPAT_TIMEOUT_S=9", "NANOBOT_WORKSPACE_SANDBOX_ENFORCED=1", "NANOBOT_=1", "NANOBOT=1", "OTHER__X=1",
			},
		},
		{
			name: "short names of older versions",
			text: `{"agents":{"defaults":{"limits":{"streamIdleTimeoutS":5}}}}`,
			env:  []string{"NANOBOT_MAX_CONCURRENT_REQUESTS=-1", "NANOBOT_STREAM_IDLE_TIMEOUT_S=99999", "NANOBOT_LLM_TIMEOUT_S=1", "NANOBOT_AGENTS__DEFAULTS__LIMITS__LLM_TIMEOUT_S=2"},
			want: map[string]string{
				"agents.defaults.limits.maxConcurrentRequests": "-1 from env",
				"agents.defaults.limits.streamIdleTimeoutS":    "3600 from env",
				"agents.defaults.limits.llmTimeoutS":           "2 from env",
			},
		},
		{
			name:     "unknown name below a section",
			text:     "{}",
			env:      []string{"NANOBOT_AGENTS__DEFAULTS__MAX_TOKEN=5", "NANOBOT_API__PORT__X=5"},
			warnings: []string{"agents.defaults.maxToken: unknown setting, ignored (from NANOBOT_AGENTS__DEFAULTS__MAX_TOKEN); did you mean maxTokens?", "api.port.x: unknown setting, ignored (from NANOBOT_API__PORT__X); api.port is a single value"},
		},
		{
			name: "objects are merged key by key, single keys win",
			text: `{"tools": {"mcpServers": {"a": {"command": "x", "toolTimeout": 1}}}, "api": {"port": 1, "host": "localhost"}}`,
			env:  []string{`NANOBOT_TOOLS__MCP_SERVERS={"a": {"tool_timeout": 2}, "b": {"url": "http://b"}}`, `NANOBOT_API={"port": 2, "timeout": 3}`, "NANOBOT_API__PORT=4"},
			want: map[string]string{
				"tools.mcpServers.a.command":     `"x" from file`,
				"tools.mcpServers.a.toolTimeout": "2 from env",
				"tools.mcpServers.b.url":         `"http://b" from env`,
				"api.port":                       "4 from env",
				"api.host":                       `"localhost" from file`,
				"api.timeout":                    "3 from env",
			},
		},
		{
			name: "spelling in the file is found",
			text: `{"channels": {"my_plugin": {"some_thing": "f"}}, "modelPresets": {"Fast": {"model": "f"}}}`,
			env:  []string{"NANOBOT_CHANNELS__MY_PLUGIN__SOME_THING=e", "NANOBOT_MODEL_PRESETS__FAST__MODEL=e", "NANOBOT_MODEL_PRESETS__OTHER__MODEL=o"},
			want: map[string]string{
				"channels.my_plugin.someThing": `"e" from env`,
				"modelPresets.Fast.model":      `"e" from env`,
				"modelPresets.other.model":     `"o" from env`,
			},
		},
		{
			name: "values are taken literally",
			text: `{}`,
			env:  []string{"NANOBOT_AGENTS__DEFAULTS__BOT_NAME=${X}", "NANOBOT_CHANNELS__QQ__ACK_MESSAGE=${X}"},
			want: map[string]string{"agents.defaults.botName": `"${X}" from env`, "channels.qq.ackMessage": `"${X}" from env`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := load(t, tt.text, tt.env...)
			var paths []string
			for p := range tt.want {
				paths = append(paths, p)
			}
			if diff := cmp.Diff(tt.want, facts(t, l, paths...), emptyIsNil()); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, lines(l.Warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
	for env, want := range map[string]string{
		"NANOBOT_API__PORT=SECRET":                          "api.port: must be a whole number (from NANOBOT_API__PORT)",
		"NANOBOT_API=SECRET":                                "api: must be a JSON object (from NANOBOT_API)",
		"NANOBOT_AGENTS__DEFAULTS__DISABLED_SKILLS=[SECRET": "agents.defaults.disabledSkills: must be a JSON list (from NANOBOT_AGENTS__DEFAULTS__DISABLED_SKILLS)",
	} {
		_, err := config.Load(config.Options{Path: write(t, "{}"), Env: []string{env}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, want %s", env, err, want)
		}
	}
	_, err := config.Load(config.Options{Path: write(t, "{}"), Overrides: []config.Override{{Path: "agents.defaults.modle", Value: "x"}, {Path: "a..b", Value: ""}}})
	if err == nil || !strings.Contains(err.Error(), "unknown setting (from the command line); did you mean model?") {
		t.Errorf("override of an unknown setting: %v", err)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("from file\r\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secrets", "kept"), []byte("from a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"A=one", "B=two", "EMPTY=", "NANOBOT_NO_KEYRING=1"}
	tests := []struct{ text, want string }{
		{"${A}", "one"},
		{"x${A}y${B}z", "xoneytwoz"},
		{"${A:-d}${NO:-d}${EMPTY:-e}${NO:-}", "onede"},
		{"${NO:-${A}-${NO:-n}}", "one-n"},
		{"$${A}", "${A}"},
		{"$${A} ${A}", "${A} one"},
		{"$A ${1A} ${A B} ${} ${A", "$A ${1A} ${A B} ${} ${A"},
		{"${A:+x}", "${A:+x}"},
		{"${A:?must be}", "one"},
		{"${file:secret}", "from file"},
		{"${file:" + filepath.ToSlash(filepath.Join(dir, "secret")) + "}", "from file"},
		{"${other:x}", "${other:x}"},
		{"${keyring:kept}", "from a key"},
		{"a ${keyring:kept} b", "a from a key b"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			q, err := json.Marshal(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, fmt.Sprintf("%x.json", tt.text))
			if err := os.WriteFile(file, []byte(`{"agents":{"defaults":{"botName":`+string(q)+`}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := config.Load(config.Options{Path: file, Env: env})
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Config.Agents.Defaults.BotName; got != tt.want {
				t.Errorf("%s = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
	for text, want := range map[string]string{
		"${NO}":               "environment variable NO is not set",
		"${NO:?set it first}": "environment variable NO is not set: set it first",
		"${EMPTY:?}":          "environment variable EMPTY is not set",
		"${file:/no/such}":    "the file of ${file:...} cannot be read: ",
		"${file:.}":           "the file of ${file:...} is not a regular file of at most 64 KiB",
		"${cmd:date}":         "${cmd:...} is not allowed here",
		"${keyring:a/b}":      "there is no system keyring to look for a/b in: NANOBOT_NO_KEYRING",
		"${keyring:mine}":     "key mine: there is no such key; store it with: nanobot keys set mine",
		"${keyring:../x y}":   "there is no system keyring",
		"${keyring:}":         `"" cannot be the name of a key`,
	} {
		_, err := config.Load(config.Options{Path: write(t, `{"agents":{"defaults":{"model":"`+text+`"}}}`), Env: env})
		e, ok := errors.AsType[*config.Error](err)
		if !ok || e.Kind != config.MissingEnv || !strings.Contains(err.Error(), "agents.defaults.model: "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	l := load(t, `{"api": {"port": "${PORT}"}, "agents": {"defaults": {"model": "${EMPTY}"}}}`, "PORT=77", "EMPTY=")
	if l.Config.API.Port != 77 || l.IsSet("agents.defaults.model") || l.Config.Agents.Defaults.Model == "" {
		t.Errorf("port %d, model %q", l.Config.API.Port, l.Config.Agents.Defaults.Model)
	}
}

// Which missing references stop the start.
func TestUnusedProviders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, agent, rest string
		fatal             bool
	}{
		{"auto, nothing to go by", `"model": "gpt-5"`, ``, true},
		{"auto, the model names a provider with a key", `"model": "openai/gpt-5"`, ``, false},
		{"auto, the model names a provider without credentials", `"model": "anthropic/claude"`, ``, true},
		{"explicit other", `"provider": "openai"`, ``, false},
		{"explicit this", `"provider": "groq"`, ``, true},
		{"spelled differently", `"provider": "Groq"`, ``, true},
		{"by the active preset", `"modelPreset": "p", "provider": "groq"`, `,"modelPresets": {"p": {"model": "m", "provider": "openai"}}`, false},
		{"by another preset", `"provider": "openai"`, `,"modelPresets": {"p": {"model": "m", "provider": "groq"}}`, true},
		{"by a fallback", `"provider": "openai", "fallbackModels": [{"model": "m", "provider": "groq"}]`, ``, true},
		{"by transcription", `"provider": "openai"`, `,"transcription": {"provider": "groq"}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := `{"providers": {"groq": {"apiKey": "${NO}"}, "openai": {"apiKey": "k"}, "anthropic": {"apiKey": ""}},
				"agents": {"defaults": {` + tt.agent + `}}` + tt.rest + `}`
			l, err := config.Load(config.Options{Path: write(t, text)})
			if (err != nil) != tt.fatal {
				t.Fatalf("error = %v, want fatal %v", err, tt.fatal)
			}
			if err == nil && (len(l.Warnings) != 1 || !l.Config.Providers["groq"].APIKey.IsZero()) {
				t.Errorf("warnings = %v", l.Warnings)
			}
		})
	}
}
