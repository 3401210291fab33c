package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func openText(t *testing.T, text string) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/migrate/*.txtar")
	if err != nil || len(files) != len(migrations()) {
		t.Fatalf("%d before/after pairs for %d migrations", len(files), len(migrations()))
	}
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			comment, rest, _ := strings.Cut(strings.ReplaceAll(string(data), "\r\n", "\n"), "-- before.json --\n")
			before, want, ok := strings.Cut(rest, "-- after.json --\n")
			m := migrations()[i]
			if !ok || m.number != i+1 || strings.TrimSpace(comment) != m.name {
				t.Errorf("migration %d %q, described as %q", m.number, m.name, comment)
			}
			f := openText(t, before)
			if diff := cmp.Diff(want, string(f.Text())); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, string(openText(t, want).Text())); diff != "" {
				t.Errorf("a second time (-want +got):\n%s", diff)
			}
			if err := f.Save(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(f.path); string(got) != before {
				t.Error("a migration alone was written")
			}
		})
	}
}

// The newer key counts when old and new are both there.
func TestMigrationKeepsNewerKey(t *testing.T) {
	t.Parallel()
	f := openText(t, `{"tools": {"restrictToWorkspace": false, "exec": {"restrictToWorkspace": true}, "my": {"enable": true}, "myEnabled": false}}`)
	if got, want := string(f.Text()), `{"tools": {"restrictToWorkspace": false, "exec": {}, "my": {"enable": true}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	const file = `// my settings
{
    "agents": { // the agent
        "defaults": {
            "max_tokens": 5, // short
            "model": "${MODEL}"
        },
    },
    /* keys */
    "providers": {"azureOpenai": {"apiKey": "${KEY}", "unknown": [1, 2]}},
    "channels": {
        "telegram": {
            "allow_from": [
                "a" // me
            ],
        }
    },
    "mystery": {"x": 1}
}
`
	tests := []struct {
		path, value string
		old, want   string // replaced part of the file
	}{
		{"agents.defaults.maxTokens", "7", `"max_tokens": 5`, `"max_tokens": 7`},
		{"agents.defaults.model", "m", `"${MODEL}"`, `"m"`},
		{"agents.defaults.botName", "12", "\"${MODEL}\"\n", "\"${MODEL}\",\n            \"botName\": \"12\"\n"},
		{"agents.defaults.unifiedSession", "yes", "\"${MODEL}\"\n", "\"${MODEL}\",\n            \"unifiedSession\": true\n"},
		{"agents.defaults.temperature", "0.50", "\"${MODEL}\"\n", "\"${MODEL}\",\n            \"temperature\": 0.5\n"},
		{"agents.defaults.disabledSkills", "a, b", "\"${MODEL}\"\n", "\"${MODEL}\",\n            \"disabledSkills\": [\"a\", \"b\"]\n"},
		{"agents.defaults.dream.intervalH", "4", "\"${MODEL}\"\n", "\"${MODEL}\",\n            \"dream\": {\n                \"intervalH\": 4\n            }\n"},
		{"providers.azure_openai.apiKey", "k", `"${KEY}"`, `"k"`},
		{"providers.azure-openai.apiBase", "http://h", `[1, 2]}}`, `[1, 2], "apiBase": "http://h"}}`},
		{"providers.open_router.apiKey", "5", `[1, 2]}}`, `[1, 2]}, "openRouter": {"apiKey":"5"}}`},
		{"channels.telegram.allowFrom[0]", "b", `"a" // me`, `"b" // me`},
		{"channels.telegram.allowFrom.1", "b", "\"a\" // me\n", "\"a\", // me\n                \"b\"\n"},
		{"channels.telegram.token", "5:x", "            ],\n", "            ],\n            \"token\": \"5:x\",\n"},
		{"channels.slack.dm.enabled", "true", "            ],\n        }\n", "            ],\n        },\n        \"slack\": {\n            \"dm\": {\n                \"enabled\": true\n            }\n        }\n"},
		{"api.port", "9", "\"mystery\": {\"x\": 1}\n", "\"mystery\": {\"x\": 1},\n    \"api\": {\n        \"port\": 9\n    }\n"},
		{"tools.mcpServers.a\\.b.url", "http://h", "\"mystery\": {\"x\": 1}\n", "\"mystery\": {\"x\": 1},\n    \"tools\": {\n        \"mcpServers\": {\n            \"a.b\": {\n                \"url\": \"http://h\"\n            }\n        }\n    }\n"},
		{"tools.approval.rules", `[{"tool":"exec","action":"ask"}]`, "\"mystery\": {\"x\": 1}\n", "\"mystery\": {\"x\": 1},\n    \"tools\": {\n        \"approval\": {\n            \"rules\": [\n                {\n                    \"tool\": \"exec\",\n                    \"action\": \"ask\"\n                }\n            ]\n        }\n    }\n"},
	}
	for _, ending := range []string{"\n", "\r\n"} {
		for _, tt := range tests {
			t.Run(tt.path, func(t *testing.T) {
				t.Parallel()
				text := strings.ReplaceAll(file, "\n", ending)
				f := openText(t, text)
				if err := f.Set(tt.path, tt.value); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(file, tt.old) {
					t.Fatalf("%q is not in the file", tt.old)
				}
				want := strings.ReplaceAll(strings.Replace(file, tt.old, tt.want, 1), "\n", ending)
				if diff := cmp.Diff(want, string(f.Text())); diff != "" {
					t.Errorf("text (-want +got):\n%s", diff)
				}
				raw, err := f.Get(tt.path)
				if err != nil || raw == nil {
					t.Errorf("Get = %s, %v", raw, err)
				}
				if found, err := f.Unset(tt.path); !found || err != nil {
					t.Errorf("Unset = %v, %v", found, err)
				}
				if raw, _ := f.Get(tt.path); raw != nil && !strings.HasSuffix(tt.path, "]") {
					t.Errorf("after Unset: %s", raw)
				}
				if found, _ := f.Unset("gateway.port"); found {
					t.Error("Unset found what is not there")
				}
			})
		}
	}
}

func TestUnset(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, path, want string }{
		{"only", `{"api": {"port": 1}}`, "api.port", `{"api": {}}`},
		{"first of a line", `{"api": {"port": 1, "host": "h"}}`, "api.port", `{"api": {"host": "h"}}`},
		{"last of a line", `{"api": {"port": 1, "host": "h"}}`, "api.host", `{"api": {"port": 1}}`},
		{"both spellings", `{"agents": {"defaults": {"max_tokens": 1, "x-a": 2, "maxTokens": 3}}}`, "agents.defaults.maxTokens", `{"agents": {"defaults": {"x-a": 2}}}`},
		{"its comments go, the others stay", "{\n  \"api\": {\n    // a\n    \"port\": 1, // b\n    // c\n    \"host\": \"h\", // d\n    // e\n    \"timeout\": 3 // f\n  }\n}", "api.host", "{\n  \"api\": {\n    // a\n    \"port\": 1, // b\n    // e\n    \"timeout\": 3 // f\n  }\n}"},
		{"last, with trailing comma", "{\n  \"api\": {\n    \"port\": 1, // b\n    \"host\": \"h\", // d\n  },\n}", "api.host", "{\n  \"api\": {\n    \"port\": 1, // b\n  },\n}"},
		{"section", "{\n  \"api\": {},\n  \"gateway\": {}\n}", "gateway", "{\n  \"api\": {}\n}"},
		{"list entry", `{"agents": {"defaults": {"disabledSkills": ["a", "b"]}}}`, "agents.defaults.disabledSkills.0", `{"agents": {"defaults": {"disabledSkills": ["b"]}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := openText(t, tt.text)
			if found, err := f.Unset(tt.path); !found || err != nil {
				t.Fatalf("Unset = %v, %v", found, err)
			}
			if diff := cmp.Diff(tt.want, string(f.Text())); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	const text = `{"agents": {"defaults": {"temperature": 9, "modelPreset": "p"}}, "modelPresets": {"p": {"model": "m"}}}`
	tests := []struct{ path, value, want string }{
		{"agents.defaults.maxTokens", "SECRET", "must be a whole number"},
		{"agents.defaults.maxToken", "1", "unknown setting agents.defaults.maxToken; did you mean maxTokens?"},
		{"mystery.x", "1", "unknown setting mystery.x"},
		{"api.port", "99999", "must be between 0 and 65535"},
		{"api", "1", "api must be a JSON object"},
		{"tools.exec.sandbox", "SECRET", "must be one of auto, landlock, bwrap, none"},
		{"agents.defaults.fallbackModels.3", "x", "agents.defaults.fallbackModels: must be a list"},
		{"", "1", "empty part"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			f := openText(t, text)
			err := f.Set(tt.path, tt.value)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
			if string(f.Text()) != text {
				t.Errorf("text changed: %s", f.Text())
			}
		})
	}
	old := openText(t, `{"agents": {"defaults": {"session_ttl_minutes": 1}}, "channels": {"qq": {}}}`)
	for path, value := range map[string]string{"agents.defaults.idleCompactAfterMinutes": "2", "channels.qq.ack_message": "x"} {
		if err := old.Set(path, value); err != nil {
			t.Error(err)
		}
	}
	if got, want := string(old.Text()), `{"agents": {"defaults": {"session_ttl_minutes": 2}}, "channels": {"qq": {"ackMessage": "x"}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f := openText(t, text)
	if err := f.Set("agents.defaults.maxTokens", "5"); err != nil {
		t.Errorf("an older problem elsewhere stops an edit: %v", err)
	}
	if _, err := f.Unset("modelPresets.p"); err == nil {
		t.Error("removing a preset in use was not refused")
	}
	if err := f.Set("agents.defaults.temperature", "${T}"); err != nil {
		t.Errorf("a reference cannot be set: %v", err)
	}
	if err := f.SetValue("channels.telegram", map[string]any{"enabled": true}); err != nil {
		t.Error(err)
	}
	if raw, err := f.Get("channels.telegram"); err != nil || string(raw) != `{"enabled":true}` {
		t.Errorf("channel = %s, %v", raw, err)
	}
}

func TestSave(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	path := filepath.Join(dir, "config.json")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))
	for i := range backups + 3 {
		f, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Set("agents.defaults.maxTokens", itoa(i+1)); err != nil {
			t.Fatal(err)
		}
		if err := f.Save(now.Add(time.Duration(i/2) * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	want := []string{"config.json"}
	for i := 3; i < backups+3; i++ { // the first save had nothing to keep, and the two oldest copies are gone
		name := "config.json.bak-" + now.UTC().Add(time.Duration(i/2)*time.Second).Format("20060102T150405Z")
		if i%2 == 1 {
			name += "-02"
		}
		want = append(want, name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
	old, err := os.ReadFile(filepath.Join(dir, "config.json.bak-20260102T020408Z-02"))
	if err != nil || !strings.Contains(string(old), `"maxTokens": 7`) {
		t.Errorf("copy: %s, %v", old, err)
	}
	if got, _ := os.ReadFile(path); !strings.Contains(string(got), `"maxTokens": 23`) || !strings.Contains(string(got), `"network": "proxy"`) {
		t.Errorf("saved: %s", got)
	}
}

func TestSaveRefusesForeignChange(t *testing.T) {
	t.Parallel()
	change := map[string]func(path string) error{
		"edited":  func(p string) error { return os.WriteFile(p, []byte("{}\n"), 0o600) },
		"removed": os.Remove,
	}
	for name, do := range change {
		f := openText(t, "") // an empty file is not a missing one
		if err := f.Set("api.port", "1"); err != nil {
			t.Fatal(err)
		}
		if err := do(f.path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(f.path)
		if err := f.Save(time.Time{}); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v, want ErrChanged", name, err)
		}
		if after, _ := os.ReadFile(f.path); string(after) != string(before) {
			t.Errorf("%s: the file was overwritten", name)
		}
	}
	fresh, err := Open(filepath.Join(t.TempDir(), "config.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Set("api.port", "1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fresh.path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fresh.Save(time.Time{}); !errors.Is(err, ErrChanged) {
		t.Errorf("made meanwhile: %v, want ErrChanged", err)
	}
}

// What came from the environment or a reference never reaches the disk, a mark
// at the start of the file stays, and so does a link.
func TestSaveKeepsForm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "real.json")
	link := filepath.Join(dir, "config.json")
	text := "\xef\xbb\xbf{\"providers\": {\"a\": {\"apiKey\": \"${KEY}\"}}} // end"
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Skip("no symbolic links here")
	}
	if _, err := Load(Options{Path: link, Env: []string{"KEY=SECRET", "NANOBOT_API__API_KEY=SECRET"}}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(link, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set("api.port", "1"); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(time.Time{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	want := "\xef\xbb\xbf{\"providers\": {\"a\": {\"apiKey\": \"${KEY}\"}}, \"api\": {\"port\":1}} // end"
	if err != nil || string(got) != want {
		t.Errorf("file = %q, %v\nwant   %q", got, err, want)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if info, _ := os.Stat(file); runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("mode = %v", info.Mode())
	}
}

// An edit that another program was faster than is made again on what that one wrote.
// One that is always too late, or fails, leaves the file as it is.
func TestEdit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{}`)
	calls := 0
	err := Edit(path, nil, func(f *File) error {
		if calls++; calls == 1 {
			write(`{"agents":{"defaults":{"provider":"openai"}}}`)
		}
		return f.Set("agents.defaults.model", "m")
	})
	got, _ := os.ReadFile(path)
	if err != nil || calls != 2 || !strings.Contains(string(got), `"openai"`) || !strings.Contains(string(got), `"m"`) {
		t.Errorf("after %d calls (%v) the file is %s", calls, err, got)
	}

	calls = 0
	err = Edit(path, nil, func(f *File) error {
		calls++
		write(fmt.Sprintf(`{"agents":{"defaults":{"temperature":%d}}}`, calls))
		return f.Set("agents.defaults.model", "m")
	})
	if got, _ := os.ReadFile(path); !errors.Is(err, ErrChanged) || strings.Contains(string(got), `"m"`) {
		t.Errorf("an edit that is always late: %v, the file is %s", err, got)
	}

	write(`{}`)
	refused := errors.New("no")
	err = Edit(path, nil, func(f *File) error { return errors.Join(f.Set("agents.defaults.model", "m"), refused) })
	if got, _ := os.ReadFile(path); !errors.Is(err, refused) || string(got) != `{}` {
		t.Errorf("an edit that fails: %v, the file is %s", err, got)
	}
}
