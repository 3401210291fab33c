package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// write puts a config file into a fresh folder.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t *testing.T, text string, env ...string) *config.Loaded {
	t.Helper()
	l, err := config.Load(config.Options{Path: write(t, text), Env: env, Home: t.TempDir()})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return l
}

// facts shows some settings as "value from layer".
func facts(t *testing.T, l *config.Loaded, paths ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range paths {
		es, err := l.Explain(p)
		if err != nil || len(es) != 1 {
			t.Fatalf("Explain(%s) = %v, %v", p, es, err)
		}
		out[p] = es[0].Value + " from " + string(es[0].Source.Layer)
	}
	return out
}

func lines(ps []config.Problem) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return out
}

func TestLoadAccepts(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tests := []struct {
		name     string
		text     string
		env      []string
		want     map[string]string
		warnings []string
	}{
		{
			name: "default dump of v0.1.5",
			text: read("v0.1.5.json"),
			want: map[string]string{
				"agents.defaults.contextWindowTokens":     "65536 from file",
				"agents.defaults.idleCompactAfterMinutes": "0 from file",
				"agents.defaults.contextBlockLimit":       "0 from default",
				"agents.defaults.timezoneMode":            `"manual" from default`,
				"channels.sendToolHints":                  "false from file",
				"channels.telegram.reactEmoji":            `"👀" from file`,
				"providers.azureOpenai.apiKey":            `"" from default`,
				"tools.exec.sandbox":                      `"" from default`,
				"api.timeout":                             "120 from file",
			},
		},
		{
			name: "default dump of the newer version",
			text: read("head.json"),
			want: map[string]string{
				"agents.defaults.contextWindowTokens": "200000 from file",
				"agents.defaults.timezoneMode":        `"auto" from file`,
				"agents.defaults.modelPreset":         `"" from default`,
				"agents.defaults.botIcon":             `"🐈" from file`,
				"providers.openai.apiType":            `"auto" from file`,
				"channels.websocket.enabled":          "true from file",
				"tools.web.fetch.useJinaReader":       "true from file",
				"tools.imageGeneration.saveDir":       `"generated" from file`,
			},
		},
		{
			name: "snake_case",
			text: `{"agents": {"defaults": {"max_tokens": 5, "session_ttl_minutes": 7, "dream": {"interval_h": 3}}},
				"model_presets": {"fast": {"model": "m", "context_window_tokens": 9}},
				"tools": {"restrict_to_workspace": true, "mcp_servers": {"a_b": {"tool_timeout": 3, "env": {"A_B": "c"}}}}}`,
			want: map[string]string{
				"agents.defaults.maxTokens":               "5 from file",
				"agents.defaults.idleCompactAfterMinutes": "7 from file",
				"agents.defaults.dream.intervalH":         "3 from file",
				"modelPresets.fast.contextWindowTokens":   "9 from file",
				"modelPresets.fast.maxTokens":             "8192 from default",
				"tools.restrictToWorkspace":               "true from file",
				"tools.mcpServers.a_b.toolTimeout":        "3 from file",
			},
		},
		{
			name: "mixed spellings, camelCase wins in any order",
			text: `{"agents": {"defaults": {"max_tokens": 1, "maxTokens": 2, "temperature": 0.5,
				"maxToolIterations": 3, "max_tool_iterations": 4}},
				"providers": {"azure_openai": {"apiBase": "http://a"}, "azureOpenai": {"apiBase": "http://b"}},
				"channels": {"telegram": {"allow_from": ["a"], "allowFrom": ["b"]}}}`,
			want: map[string]string{
				"agents.defaults.maxTokens":         "2 from file",
				"agents.defaults.maxToolIterations": "3 from file",
				"providers.azureOpenai.apiBase":     `"http://b" from file`,
				"channels.telegram.allowFrom":       `["b"] from file`,
			},
			warnings: []string{
				"agents.defaults.maxTokens: two spellings of the same key are present; the camelCase one counts (line 1, column 56)",
				"agents.defaults.maxToolIterations: two spellings of the same key are present; the camelCase one counts (line 2, column 52)",
				"providers.azure_openai: two spellings of the same key are present; the camelCase one counts (line 3, column 75)",
				"channels.telegram.allowFrom: two spellings of the same key are present; the camelCase one counts (line 4, column 65)",
			},
		},
		{
			name: "alias, the newer name wins",
			text: `{"agents":{"defaults":{"sessionTtlMinutes":1,"idle_compact_after_minutes":2}}}`,
			want: map[string]string{"agents.defaults.idleCompactAfterMinutes": "2 from file"},
			warnings: []string{
				"agents.defaults.idleCompactAfterMinutes: two spellings of the same key are present; the camelCase one counts (line 1, column 75)",
			},
		},
		{
			name: "byte order mark",
			text: "\xef\xbb\xbf{\"api\": {\"port\": 1}}",
			want: map[string]string{"api.port": "1 from file"},
		},
		{
			name: "comments and trailing commas",
			text: "{\n// one\n\"api\": {/* two */ \"port\": 1,},\n} // end",
			want: map[string]string{"api.port": "1 from file"},
		},
		{
			name:     "duplicate key",
			text:     "{\"api\": {\"port\": 1},\n\"gateway\": {},\n\"api\": {\"port\": 2}}",
			want:     map[string]string{"api.port": "2 from file"},
			warnings: []string{"api: the key appears twice, in lines 1 and 3; the last one counts (line 3, column 1)"},
		},
		{
			name: "numeric identifiers keep their digits",
			text: `{"channels": {"qq": {"appId": 12345678901234567890, "allowFrom": [9007199254740993, "x"], "enabled": true}},
				"agents": {"defaults": {"disabledSkills": [7], "botName": 5}}}`,
			want: map[string]string{
				"channels.qq.appId":              `"12345678901234567890" from file`,
				"channels.qq.allowFrom":          `["9007199254740993","x"] from file`,
				"agents.defaults.disabledSkills": `["7"] from file`,
				"agents.defaults.botName":        `"5" from file`,
			},
		},
		{
			name: "null is unset everywhere",
			text: `{"providers": {"openai": {"apiKey": null, "extraHeaders": null}, "groq": null}, "api": null,
				"agents": {"defaults": {"maxTokens": null, "disabledSkills": [null, "a"]}}, "channels": {"slack": {"dm": null}}}`,
			want: map[string]string{
				"providers.openai.apiKey":        `"" from default`,
				"agents.defaults.maxTokens":      "8192 from default",
				"agents.defaults.disabledSkills": `["a"] from file`,
				"api.port":                       "8900 from default",
				"channels.slack.dm":              "null from default",
			},
		},
		{
			name: "unknown keys",
			text: `{"$schema": "x", "agnets": {}, "agents": {"defaults": {"maxToken": 1, "x-note": 1, "max-tokens": 2, "wholly": 3}},
				"channels": {"telegram": {"anything": 1}, "sendProgres": false}, "providers": {"mine": {"apikey": "v"}}}`,
			want: map[string]string{"agents.defaults.maxTokens": "8192 from default"},
			warnings: []string{
				"agnets: unknown key, ignored (line 1, column 18); did you mean agents?",
				"agents.defaults.maxToken: unknown key, ignored (line 1, column 56); did you mean maxTokens?",
				"agents.defaults.max-tokens: unknown key, ignored (line 1, column 84); did you mean maxTokens?",
				"agents.defaults.wholly: unknown key, ignored (line 1, column 101)",
				"channels.sendProgres: unknown key, ignored (line 2, column 47); did you mean sendProgress?",
				"providers.mine.apikey: unknown key, ignored (line 2, column 93); did you mean apiKey?",
			},
		},
		{
			name: "reference in a disabled channel or an unused provider",
			text: `{"channels": {"slack": {"botToken": "${NO_SLACK}"}, "telegram": {"enabled": "yes", "token": "${TG}"}},
				"agents": {"defaults": {"provider": "openai"}},
				"providers": {"groq": {"apiKey": "${NO_GROQ}"}, "openai": {"apiKey": "${OA}"}}}`,
			env: []string{"TG=t", "OA=o"},
			want: map[string]string{
				"channels.telegram.token": `"***" from file`,
				"providers.openai.apiKey": `"***" from file`,
			},
			warnings: []string{
				"channels.slack.botToken: environment variable NO_SLACK is not set (line 1, column 37); ignored, because it is not in use",
				"providers.groq.apiKey: environment variable NO_GROQ is not set (line 3, column 38); ignored, because it is not in use",
			},
		},
		{
			name: "lax numbers and switches",
			text: `{"agents": {"defaults": {"maxTokens": "5.0", "maxToolIterations": 1e2, "temperature": "0.5", "unifiedSession": "on", "failOnToolError": 0}}}`,
			want: map[string]string{
				"agents.defaults.maxTokens":         "5 from file",
				"agents.defaults.maxToolIterations": "100 from file",
				"agents.defaults.temperature":       "0.5 from file",
				"agents.defaults.unifiedSession":    "true from file",
				"agents.defaults.failOnToolError":   "false from file",
			},
		},
		{
			name: "fallbacks by name and by settings",
			text: `{"modelPresets": {"fast": {"model": "m"}}, "agents": {"defaults": {"modelPreset": "default",
				"fallbackModels": ["fast", {"model": "x", "maxTokens": 4}]}}}`,
			want: map[string]string{
				"agents.defaults.fallbackModels": `["fast",{"model":"x","provider":"auto","maxTokens":4,"contextWindowTokens":null,"temperature":null,"reasoningEffort":""}] from file`,
			},
		},
		{
			name: "soft limits",
			text: `{"gateway": {"heartbeat": {"intervalS": 5}}, "api": {"host": "0.0.0.0"}, "agents": {"defaults": {"contextWindowTokens": 100}},
				"tools": {"ssrfWhitelist": ["10.0.0.0/8", "nonsense"]}, "providers": {"mine": {"apiBase": "localhost:1"}}}`,
			want: map[string]string{"gateway.heartbeat.intervalS": "60 from file"},
			warnings: []string{
				"agents.defaults.maxTokens: is not smaller than contextWindowTokens, which leaves no room for the question",
				"gateway.heartbeat.intervalS: is below 60 seconds; 60 is used (line 1, column 41)",
				"api.host: the API is reachable from other machines without a key (line 1, column 62); set api.apiKey; serve will not start without it",
				"tools.ssrfWhitelist.1: is not a network such as 192.168.1.0/24 and is ignored (line 2, column 32)",
				"providers.mine.apiBase: does not start with http:// or https:// (line 2, column 95)",
			},
		},
		{
			name: "parts that do not exist, switched off",
			text: `{"tools": {"cliApps": {"enable": false, "runTimeout": 9}, "allowLocalPreviewAccess": false}}`,
			want: map[string]string{"tools.cliApps.runTimeout": "9 from file"},
		},
		{
			name: "defaults of parts that do not exist, as the Python version writes them",
			text: `{"tools": {"cliApps": {"enable": true, "installTimeout": 300, "runTimeout": 60, "catalogTtlSeconds": 3600},
				"maxSessionMessagesPerMinute": 6, "webuiAllowLocalServiceAccess": true, "webuiAllowRemotePackageInstall": false}}`,
			want: map[string]string{"tools.cliApps.runTimeout": "60 from file"},
		},
		{
			name: "an empty icon is meant, other empty texts are not",
			text: `{"agents": {"defaults": {"botIcon": "", "botName": " ", "workspace": ""}}}`,
			want: map[string]string{
				"agents.defaults.botIcon":   `"" from file`,
				"agents.defaults.botName":   `"nanobot" from default`,
				"agents.defaults.workspace": `"~/.nanobot/workspace" from default`,
			},
		},
		{
			name: "spellings of provider names",
			text: `{"providers": {"OpenAI": {"region": "a"}, "lm-studio": {"region": "b"}, "xiaomiMimo": {"region": "c"}}}`,
			want: map[string]string{
				"providers.open_ai.region":     `"a" from file`,
				"providers.lm_studio.region":   `"b" from file`,
				"providers.xiaomi_mimo.region": `"c" from file`,
			},
		},
		{
			name: "empty file",
			text: " \n",
			want: map[string]string{"api.port": "8900 from default"},
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
			if diff := cmp.Diff(tt.want, facts(t, l, paths...)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, lines(l.Warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// The dumps of older versions must come out exactly as if nothing was set,
// apart from the defaults that changed since.
func TestDefaultDumpsEqualDefaults(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Config){
		"v0.1.5.json": func(c *config.Config) {
			c.Agents.Defaults.TimezoneMode = "manual"
		},
		"head.json": func(c *config.Config) {
			c.Agents.Defaults.ContextWindowTokens = 200000
			c.Agents.Defaults.IdleCompactAfterMinutes = 15
			c.Agents.Defaults.MaxConcurrentSubagents = 1
			c.Channels.ExtractDocumentText, c.Channels.SendToolHints = true, true
			c.Tools.Web.Fetch.UseJinaReader = true
		},
	} {
		l, err := config.Load(config.Options{Path: filepath.Join("testdata", name), Home: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if !l.Python {
			t.Errorf("%s: not recognised as a file of Python nanobot", name)
		}
		want := config.Default()
		want.Tools.RestrictToWorkspace = false
		want.Tools.Exec.Sandbox, want.Tools.Exec.Network = "", "host"
		want.Tools.Approval.Mode = "off"
		change(&want)
		got := l.Config
		if n := len(got.Providers); n < 25 {
			t.Errorf("%s: %d providers", name, n)
		}
		for p, v := range got.Providers {
			if v.APIType = strings.TrimSuffix(v.APIType, "auto"); !cmp.Equal(v, config.Provider{}, opaque()) {
				t.Errorf("%s: provider %s = %+v, want nothing set", name, p, v)
			}
		}
		got.Providers, got.Channels.Each, want.Providers = nil, nil, nil
		if diff := cmp.Diff(want, got, opaque(), emptyIsNil()); diff != "" {
			t.Errorf("%s (-default +got):\n%s", name, diff)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		text string
		kind config.Kind
		want []string // lines of the text after the first
	}{
		{"root is a list", "[1]", config.InvalidRoot, []string{"  the file must start with { and end with } (line 1, column 1)"}},
		{"not UTF-8", "{\"a\": \"\xff\"}", config.IOError, []string{"  the file is not UTF-8 text (line 1, column 8); save it as UTF-8"}},
		{"UTF-16", "\xff\xfe{\x00}\x00", config.IOError, []string{"  the file is saved as UTF-16; save it as UTF-8"}},
		{
			"wrong types", `{"agents": {"defaults": {"maxTokens": "many", "unifiedSession": "perhaps", "temperature": 3, "disabledSkills": "a", "model": true, "dream": []}}}`,
			config.InvalidSchema,
			[]string{
				"  agents.defaults.maxTokens: must be a whole number (line 1, column 39)",
				"  agents.defaults.unifiedSession: must be true or false (line 1, column 65)",
				"  agents.defaults.temperature: must be between 0 and 2 (line 1, column 91)",
				"  agents.defaults.disabledSkills: must be a list in [ ] (line 1, column 112)",
				"  agents.defaults.model: must be a text in double quotes (line 1, column 126)",
				"  agents.defaults.dream: must be an object in { } (line 1, column 141)",
			},
		},
		{
			"parts that do not exist", `{"tools": {"cliApps": {"enable": true, "runTimeout": 9},
				"webuiAllowRemotePackageInstall": true}}`,
			config.InvalidSchema,
			[]string{
				"  tools.cliApps: is not supported: there is no tool for CLI apps (line 1, column 23); remove it",
				"  tools.webuiAllowRemotePackageInstall: is not supported: the web interface does not install packages (line 2, column 39); remove it",
			},
		},
		{
			"choices and formats", `{"tools": {"exec": {"sandbox": "landlok", "timeout": -1}}, "api": {"host": "a b", "port": 70000},
				"gateway": {"cron": {"quietHours": "late"}}, "transcription": {"language": "English"}}`,
			config.InvalidSchema,
			[]string{
				"  tools.exec.sandbox: must be one of auto, landlock, bwrap, none (line 1, column 32); did you mean landlock?",
				"  tools.exec.timeout: must be at least 0 (line 1, column 54)",
				"  api.host: must be an IP address or a host name (line 1, column 76)",
				"  api.port: must be between 0 and 65535 (line 1, column 91)",
				"  gateway.cron.quietHours: must be a window such as 22:00-07:00 (line 2, column 40)",
				"  transcription.language: must be a language code of two or three lower-case letters (line 2, column 80)",
			},
		},
		{
			"presets", `{"modelPresets": {"default": {"model": "m"}, "fast": {"provider": "x"}}, "agents": {"defaults": {"modelPreset": "fst", "fallbackModels": ["slow", {}]}},
				"providers": {"groq": {"apiType": "responses"}}}`,
			config.InvalidSchema,
			[]string{
				"  modelPresets.default: the name default is reserved for the settings in agents.defaults (line 1, column 30)",
				"  modelPresets.fast.model: is required (line 1, column 54)",
				"  agents.defaults.modelPreset: is not a name in modelPresets (line 1, column 113); did you mean fast?",
				"  agents.defaults.fallbackModels.0: is not a name in modelPresets (line 1, column 138)",
				"  agents.defaults.fallbackModels.1: needs a model (line 1, column 138)",
				"  providers.groq.apiType: can only be set for openai (line 2, column 39); use wire for an endpoint of your own",
			},
		},
		{
			"time zone", `{"agents": {"defaults": {"timezone": "Mars/Base"}}}`, config.InvalidSchema,
			[]string{"  agents.defaults.timezone: is not a time zone (line 1, column 38); use an IANA name such as Europe/Berlin, Asia/Shanghai or UTC"},
		},
		{
			"all missing references", `{"providers": {"a": {"apiKey": "${ONE}"}}, "tools": {"mcpServers": {"s p": {"env": {"K": "${TWO}${keyring:a/b}"}}}}}`, config.MissingEnv,
			[]string{
				"  providers.a.apiKey: environment variable ONE is not set (line 1, column 32)",
				"  tools.mcpServers.<hidden>.env.K: environment variable TWO is not set (line 1, column 90)",
				"  tools.mcpServers.<hidden>.env.K: there is no system keyring to look for a/b in: NANOBOT_NO_KEYRING switches it off (line 1, column 90)",
			},
		},
		{
			"more than ten", `{"agents": {"defaults": {"disabledSkills": [{},{},{},{},{},{},{},{},{},{},{},{}]}}}`, config.InvalidSchema,
			[]string{
				"  agents.defaults.disabledSkills.0: must be a text in double quotes (line 1, column 45)",
				"  agents.defaults.disabledSkills.1: must be a text in double quotes (line 1, column 48)",
				"  agents.defaults.disabledSkills.2: must be a text in double quotes (line 1, column 51)",
				"  agents.defaults.disabledSkills.3: must be a text in double quotes (line 1, column 54)",
				"  agents.defaults.disabledSkills.4: must be a text in double quotes (line 1, column 57)",
				"  agents.defaults.disabledSkills.5: must be a text in double quotes (line 1, column 60)",
				"  agents.defaults.disabledSkills.6: must be a text in double quotes (line 1, column 63)",
				"  agents.defaults.disabledSkills.7: must be a text in double quotes (line 1, column 66)",
				"  agents.defaults.disabledSkills.8: must be a text in double quotes (line 1, column 69)",
				"  agents.defaults.disabledSkills.9: must be a text in double quotes (line 1, column 72)",
				"  ... 2 more",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := write(t, tt.text)
			l, err := config.Load(config.Options{Path: file, Home: t.TempDir(), Env: []string{"NANOBOT_NO_KEYRING=1"}})
			e, ok := errors.AsType[*config.Error](err)
			if !ok || l != nil {
				t.Fatalf("Load = %v, %v; want no configuration and *Error", l, err)
			}
			if e.Kind != tt.kind {
				t.Errorf("kind = %s, want %s", e.Kind, tt.kind)
			}
			head, rest, _ := strings.Cut(e.Error(), "\n")
			if !strings.HasSuffix(head, ": "+file) {
				t.Errorf("first line %q does not name the file", head)
			}
			if tt.kind != config.InvalidJSON && e.Issues[0].Line > 0 {
				rest = strings.TrimSuffix(rest, "\n\n"+e.Excerpt) // see TestErrorShowsTheLine
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), rest); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// A value that cannot be used is shown with its line and a caret, and unknown
// keys beside it with what was probably meant; no value is repeated.
func TestErrorShowsTheLine(t *testing.T) {
	t.Parallel()
	file := write(t, "{\n  \"agents\": {\"defaults\": {\n    \"mdoel\": \"x\",\n    \"maxTokens\": \"hunter2\"\n  }}\n}\n")
	_, err := config.Load(config.Options{Path: file, Home: t.TempDir()})
	if err == nil {
		t.Fatal("loaded")
	}
	_, got, _ := strings.Cut(err.Error(), "\n")
	want := `  agents.defaults.maxTokens: must be a whole number (line 4, column 18)
  agents.defaults.mdoel: unknown key, ignored (line 3, column 5); did you mean model?

    4 |     "maxTokens": "*******"
      |                  ^
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadStrict(t *testing.T) {
	t.Parallel()
	file := write(t, `{"agents": {"defaults": {"maxToken": 1}}, "api": {}, "api": {}}`)
	if _, err := config.Load(config.Options{Path: file}); err != nil {
		t.Fatalf("without strict: %v", err)
	}
	_, err := config.Load(config.Options{Path: file, Strict: true})
	e, ok := errors.AsType[*config.Error](err)
	if !ok || len(e.Issues) != 2 {
		t.Fatalf("strict: %v, want two issues", err)
	}
}

func TestWhereTheFileIs(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	other := filepath.Join(home, "other")
	for _, dir := range []string{filepath.Join(home, ".nanobot"), other} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	named := filepath.Join(home, "named.json")
	if err := os.WriteFile(named, []byte(`{"agents":{"defaults":{"workspace":"~/w"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		env        []string
		file       string
		workspace  string
	}{
		{"default", "", nil, home + "/.nanobot/config.json", home + "/.nanobot/workspace"},
		{"home from the environment", "", []string{"NANOBOT_HOME=~/other"}, other + "/config.json", other + "/workspace"},
		{"file from the environment", "", []string{"NANOBOT_HOME=" + other, "NANOBOT_CONFIG=" + named}, named, home + "/w"},
		{"flag", "~/named.json", []string{"NANOBOT_CONFIG=/nowhere"}, named, home + "/w"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := config.Load(config.Options{Path: tt.path, Env: tt.env, Home: home})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := l.File, filepath.FromSlash(tt.file); got != want || l.DataDir != filepath.Dir(want) || !l.Exists {
				t.Errorf("file %s in %s, want %s", got, l.DataDir, want)
			}
			if got, want := l.Workspace(), filepath.FromSlash(tt.workspace); got != want {
				t.Errorf("workspace = %s, want %s", got, want)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l, err := config.Load(config.Options{Home: home, Env: []string{"NANOBOT_API__PORT=9"}})
	if err != nil || l.Exists || l.Config.API.Port != 9 {
		t.Errorf("without a file: %v, want defaults and environment", err)
	}
	named := filepath.Join(home, "no.json")
	for _, o := range []config.Options{{Path: named}, {Env: []string{"NANOBOT_CONFIG=" + named}}} {
		_, err = config.Load(o)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), "nanobot onboard -c "+named) {
			t.Errorf("named file missing: %v", err)
		}
		o.Optional = true
		if l, err := config.Load(o); err != nil || l.Exists {
			t.Errorf("optional: %v", err)
		}
	}
	if _, err = config.Load(config.Options{Path: home}); err == nil || !strings.Contains(err.Error(), "this is a folder") {
		t.Errorf("folder: %v", err)
	}
}

// An absent key means what it means in Python nanobot, but for what contains the agent.
func TestAbsentKeys(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Path: write(t, `{"tools": {"exec": {"sandbox": ""}}}`), Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	d := l.Config.Agents.Defaults
	if d.ContextWindowTokens != 65536 || d.IdleCompactAfterMinutes != 0 || l.Config.Tools.Exec.Sandbox != "auto" {
		t.Errorf("window %d, idle %d, sandbox %q", d.ContextWindowTokens, d.IdleCompactAfterMinutes, l.Config.Tools.Exec.Sandbox)
	}
}

func TestNewFile(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Path: write(t, string(config.NewFile())), Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	tools := l.Config.Tools
	if !tools.RestrictToWorkspace || tools.Exec.Sandbox != "auto" || tools.Exec.Network != "proxy" || tools.Web.Fetch.UseJinaReader || tools.Approval.Mode != "auto" {
		t.Errorf("tools = %+v, want a contained start", tools)
	}
	if d := l.Config.Agents.Defaults; d.ContextWindowTokens != 200000 || d.IdleCompactAfterMinutes != 15 {
		t.Errorf("agents.defaults = %+v", d)
	}
	if l.IsSet("tools.exec.sandbox") {
		t.Error("a new file names a sandbox that Python nanobot does not know")
	}
	if l.IsSet("agents.defaults.model") || l.IsSet("providers") {
		t.Error("a new file fixes more than it must")
	}
}
