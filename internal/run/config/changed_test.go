package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.json")
	load := func(text string) *Loaded {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Load(Options{Path: file, Env: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	old := load(`{"channels": {"telegram": {"enabled": true, "token": "1:a", "allowFrom": ["1"]}, "email": {"enabled": false}}, "gateway": {"port": 1}}`)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"same in another order": {`{"gateway": {"port": 1}, /* x */ "channels": {"email": {"enabled": false}, "telegram": {"token": "1:a", "allowFrom": ["1"], "enabled": true}}}`, nil},
		"an empty section":      {`{"gateway": {"port": 1, "log": {}}, "agents": {}, "channels": {"email": {"enabled": false}, "telegram": {"token": "1:a", "allowFrom": ["1"], "enabled": true}}}`, nil},
		"a credential":          {`{"channels": {"telegram": {"enabled": true, "token": "1:b", "allowFrom": ["1"]}, "email": {"enabled": false}}, "gateway": {"port": 1}}`, []string{"channels.telegram"}},
		"a section less":        {`{"channels": {"telegram": {"enabled": true, "token": "1:a", "allowFrom": ["1"]}}, "agents": {"defaults": {"model": "m"}}}`, []string{"agents.defaults", "channels.email", "gateway.port"}},
	} {
		if diff := cmp.Diff(c.want, load(c.text).Changed(old)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
