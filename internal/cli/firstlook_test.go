package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

// pythonConfig is what people bring along: every setting of Python nanobot.
const pythonConfig = `{
  "agents": {"defaults": {"workspace": "~/.nanobot/workspace", "model": "custom/m", "provider": "custom", "maxTokens": 8192, "temperature": 0.1, "maxToolIterations": 200}},
  "channels": {"sendProgress": true, "sendToolHints": false},
  "providers": {
    "custom": {"apiKey": "k7-0bce39261a0fea2aca", "apiBase": "http://127.0.0.1:1/v1", "extraHeaders": null},
    "anthropic": {"apiKey": "", "apiBase": null, "extraHeaders": null},
    "openrouter": {"apiKey": "", "apiBase": null, "extraHeaders": null}
  },
  "gateway": {"host": "127.0.0.1", "port": 18790},
  "tools": {
    "web": {"search": {"apiKey": "", "maxResults": 5}},
    "exec": {"timeout": 30, "pathAppend": ""},
    "restrictToWorkspace": false,
    "mcpServers": {}
  }
}`

// The first start says in five lines what is open, and later ones nothing.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	load := func(text string) *config.Loaded {
		t.Helper()
		dir := t.TempDir()
		file := filepath.Join(dir, "config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := config.Load(config.Options{Path: file, Env: []string{"HOME=" + dir}, Home: dir})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := load(pythonConfig)
	first := doctor.FirstLook(l)
	if len(first) != 5 || !strings.Contains(first[4], "nanobot doctor security --fix") {
		t.Errorf("the first start says %q", first)
	}
	if again := doctor.FirstLook(l); len(again) > 0 {
		t.Errorf("the second start says %q", again)
	}
	for _, text := range []string{`{}`, `{"tools":{"exec":{"sandbox":"auto"},"approval":{"mode":"auto"}}}`, `{"tools":{"exec":{"enable":false},"restrictToWorkspace":true,"approval":{"mode":"ask"}}}`} {
		if got := doctor.FirstLook(load(text)); len(got) > 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// One command closes all of it, asks before, and keeps the file as it was.
func TestSecurityFixClosesATakenOverConfiguration(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox is another one elsewhere")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte(pythonConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	run := func(args ...string) (string, error) {
		out := newPrinted(t)
		c := newProgram(Stdio{Now: time.Now, In: null, Out: out.File, Err: out.File, Env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}}, file, filepath.Join(dir, "ws"))
		cmd := (&doctorCommand{c.console, c.home, &folders{c.console, c.home}}).securityCommand()
		cmd.SetOut(out)
		cmd.SetErr(out)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := run("--fix"); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without anybody to ask: %v\n%s", err, out)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != pythonConfig {
		t.Errorf("changed without a yes: %s, %v", b, err)
	}
	out, _ := run("--fix", "--yes")
	l, err := config.Load(config.Options{Path: file, Env: []string{"HOME=" + dir}, Home: dir})
	if err != nil {
		t.Fatal(err)
	}
	tools := l.Config.Tools
	if tools.Exec.Sandbox != "auto" || !tools.RestrictToWorkspace || tools.Approval.Mode != "auto" || tools.Exec.Network == "host" {
		t.Errorf("sandbox %q, network %q, restrict %v, approval %q\n%s", tools.Exec.Sandbox, tools.Exec.Network, tools.RestrictToWorkspace, tools.Approval.Mode, out)
	}
	if l.Config.Providers["custom"].APIKey.IsZero() || tools.Exec.Timeout != 30 {
		t.Error("the rest of the file is gone")
	}
	copies, err := filepath.Glob(file + ".bak-*")
	if err != nil || len(copies) != 1 {
		t.Fatalf("copies: %v, %v", copies, err)
	}
	if b, err := os.ReadFile(copies[0]); err != nil || string(b) != pythonConfig {
		t.Errorf("the copy is %s, %v", b, err)
	}
	if left := doctor.FirstLook(l); len(left) > 0 {
		t.Errorf("afterwards: %q", left)
	}
}
