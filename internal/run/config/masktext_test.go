package config

import (
	"errors"
	"strings"
	"testing"
)

const secretFile = `{
  // a note, and "apiKey": "old-key-in-comment" was switched off
  // sk-0123456789abcdefghijklmn is the other one
  "agents": {"defaults": {"model": "m"}}, /* token = hush, and header-value */
  "providers": {
    "openai": {"apiKey": "short", "apiKeys": ["one", "two"]},
    "mine": {"apiKey": "${MINE}", "apiBase": "https://user:pass@h/v1", "extraHeaders": {"X-Me": "header-value"}},
  },
  "tools": {"mcpServers": {"x": {"command": "c", "args": ["--token", "arg-secret"], "env": {"A": "env-secret"}}}, "web": {"searhc": {"apiKey": "typo-secret"}}},
  "channels": {"telegram": {"token": 123456}}
}
`

func TestMaskAndUnmask(t *testing.T) {
	t.Parallel()
	shown, err := Mask([]byte(secretFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"old-key-in-comment", "0123456789", "hush", "short", `"one"`, `"two"`, "user:pass", "header-value", "arg-secret", "env-secret", "typo-secret", "123456"} {
		if strings.Contains(string(shown), secret) {
			t.Errorf("%s is shown:\n%s", secret, shown)
		}
	}
	for _, want := range []string{"// a note", `"${MINE}"`, `"model": "m"`, `"command": "c"`} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("%s is hidden:\n%s", want, shown)
		}
	}
	if back, err := Unmask(shown, []byte(secretFile), nil); err != nil || string(back) != secretFile {
		t.Errorf("back: %v\n%s", err, back)
	}

	edited := strings.Replace(string(shown), `"m"`, `"n"`, 1)
	edited = strings.Replace(edited, "// a note", "// another note", 1) // its hidden part is lost, nothing else is
	back, err := Unmask([]byte(edited), []byte(secretFile), nil)
	if err != nil || !strings.Contains(string(back), `"n"`) || !strings.Contains(string(back), `"short"`) || !strings.Contains(string(back), "sk-0123456789abcdefghijklmn is the other") {
		t.Errorf("edited: %v\n%s", err, back)
	}
}

func TestUnmaskRefuses(t *testing.T) {
	t.Parallel()
	for text, line := range map[string]int{
		"{\n\"providers\": {\"groq\": {\"apiKey\": \"***\"}}}":                   2, // never had one
		"{\"providers\": {\n\"openai\": {\"apiKeys\": [\"***\",\n\"three\"]}}}":  2, // a changed list
		"{\"agents\": {\n\n\"defaults\": {\"model\": \"***\"}}}":                 3, // was not hidden
		"{\"agents\": {\n\"defaults\": {\"model\": \"m\",, \"provider\": \"\"}}": 2, // not JSON
	} {
		_, err := Unmask([]byte(text), []byte(secretFile), nil)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Issues[0].Line != line {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Mask([]byte(`{"providers": {"openai": {"apiKey": "sk-x`), nil); err == nil || strings.Contains(err.Error(), "sk-x") {
		t.Errorf("a broken file: %v", err)
	}
	// What the file has as its text stays what it is.
	if got, err := Unmask([]byte(`{"x-note": "***"}`), []byte(`{"x-note": "***"}`), nil); err != nil || string(got) != `{"x-note": "***"}` {
		t.Errorf("a text of stars: %s %v", got, err)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	s := string(Schema(nil))
	for _, want := range []string{`"x-unit": "USD"`, `"x-unit": "s"`, `"x-restart": true`, `"x-danger": true`} {
		if !strings.Contains(s, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for path, want := range map[string]bool{
		"gateway.port": true, "gateway.log.level": true, "gateway.api": false, "gateway.cron.maxJobs": false,
		"channels.sendProgress": true, "channels.telegram.token": false, "agents.defaults.model": false,
	} {
		if Restarts(path) != want {
			t.Errorf("Restarts(%s) = %v", path, !want)
		}
	}
	known := Paths(nil)
	for _, path := range dangers() {
		found := false
		for _, k := range known {
			found = found || k == path
		}
		if !found {
			t.Errorf("there is no setting %s", path)
		}
	}
}
