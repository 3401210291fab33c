package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// What another program writes into the configuration while a platform is asked is kept,
// and so are the answers.
func TestChannelsAddKeepsOtherEdits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	var once sync.Once
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() {
			if err := os.WriteFile(file, []byte(`{"api": {"port": 8901}}`), 0o600); err != nil {
				t.Error(err)
			}
		})
		_, _ = io.WriteString(w, `{"ok": true, "result": {"id": 12345, "is_bot": true, "first_name": "b", "username": "b"}}`)
	}))
	t.Cleanup(platform.Close)
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}

	code, out, errOut := runConfig(t, dir, "", nil, "channels", "add", "telegram",
		"--set", "token=12345:abcdefghijklmnopqrstuvwx", "--set", "apiBase="+platform.URL)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"api.port":                  8901.0,
		"channels.telegram.enabled": true,
		"channels.telegram.token":   "12345:abcdefghijklmnopqrstuvwx",
	} {
		if got := leaf(t, string(text), path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}
