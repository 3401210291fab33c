//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

func TestCommandReference(t *testing.T) {
	t.Parallel()
	allowed := "NANOBOT_CONFIG_COMMANDS=1"
	for name, c := range map[string]struct {
		line, env  string
		want, says string
	}{
		"prints":                  {`printf 'sk-1\n\n'`, allowed, "sk-1", ""},
		"braces":                  {`x=a; echo \"${x}b\"`, allowed, "ab", ""},
		"environment":             {`echo $WORD`, allowed, "of-the-test", ""},
		"folder":                  {`ls config.json`, allowed, "config.json", ""},
		"not allowed":             {`touch ran; echo x`, "", "", "NANOBOT_CONFIG_COMMANDS=1"},
		"allowed by another word": {`echo x`, "NANOBOT_CONFIG_COMMANDS=yes", "", "NANOBOT_CONFIG_COMMANDS=1"},
		"fails":                   {`echo secret-word; echo secret-word >&2; exit 3`, allowed, "", "ended with status 3"},
		"too long":                {`head -c 100000 /dev/zero`, allowed, "", "64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "config.json")
			if err := os.WriteFile(file, []byte(`{"providers":{"openai":{"apiKey":"${cmd:`+c.line+`}"}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := config.Load(config.Options{Path: file, Env: []string{c.env, "WORD=of-the-test", "PATH=" + os.Getenv("PATH")}})
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret-word\n") {
					t.Fatalf("error = %v, want %q", err, c.says)
				}
				if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
					t.Error("the program ran")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Config.Providers["openai"].APIKey.Reveal(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
