package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLenient(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{
  "agents": {"defaults": {"model": "m"}},
  "channels": {
    "telegram": {"enabled": "perhaps", "token": "${NO_SUCH_TOKEN}"},
    "email": {"enabled": true, "imapPassword": "${NO_SUCH_PASSWORD}"},
    "websocket": {"enabled": true}
  },
  "tools": {"mcpServers": {"bad": {"command": "${NO_SUCH_SERVER}"}, "good": {"command": "true"}}}
}`)
	if _, err := Load(Options{Path: file, Env: []string{}}); err == nil {
		t.Fatal("the file is fine without leniency")
	}
	l, err := Load(Options{Path: file, Env: []string{}, Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Config.Channels.Each) != 1 || !l.Config.Channels.Each["websocket"].Enabled {
		t.Errorf("channels = %v", l.Config.Channels.Each)
	}
	if len(l.Config.Tools.MCPServers) != 1 {
		t.Errorf("servers = %v", l.Config.Tools.MCPServers)
	}
	var all strings.Builder
	for _, p := range l.Disabled {
		all.WriteString(p.String() + "\n")
	}
	for _, want := range []string{"channels.telegram.enabled", "NO_SUCH_PASSWORD", "NO_SUCH_SERVER"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no word about %s in\n%s", want, all.String())
		}
	}
	write(`{"channels": {"telegram": {"enabled": 3}}, "tools": {"exec": {"enable": "never"}}}`)
	if _, err := Load(Options{Path: file, Env: []string{}, Lenient: true}); err == nil || !strings.Contains(err.Error(), "tools.exec.enable") {
		t.Errorf("a setting that keeps us safe was ignored: %v", err)
	}
}
