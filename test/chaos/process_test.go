//go:build unix

package chaos_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
	"github.com/nanobot-go/nanobot/test/program"
)

// gateway is the real program, one process after the other.
type gateway struct {
	t         *testing.T
	bin, home string
	socket    string // of the WebSocket channel, "" for none
	config    string
	tg        *platform
	notes     *notes

	gen    int
	cmd    *exec.Cmd
	out    *output // of the running process
	killed map[int]time.Time
	wrote  strings.Builder // of those before it
}

const settings = `{
  "agents": {"defaults": {"model": "custom/m", "provider": "custom", "providerRetryMode": "persistent",
    "limits": {"maxConcurrentRequests": 64}}},
  "providers": {"custom": {"apiBase": %q, "apiKey": "test-key"}},
  "tools": {"restrictToWorkspace": true},
  "gateway": {"port": 0},
  "channels": {"telegram": {"enabled": true, "token": %q, "apiBase": %q, "allowFrom": ["*"],
    "sendProgress": false, "sendToolHints": false, "restartBackoffMaxS": 1}}
}`

func newGateway(t *testing.T, tg *platform, m *model) *gateway {
	t.Helper()
	dir := t.ArtifactDir() // kept with -artifacts
	g := &gateway{
		t: t, bin: filepath.Join(dir, "nanobot"), home: filepath.Join(dir, "home"), config: filepath.Join(dir, "home", "config.json"),
		tg: tg, killed: map[int]time.Time{},
	}
	g.notes = newNotes(g.home)
	g.build()
	if err := os.MkdirAll(g.workspace(), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(settings, m.http.URL+"/v1", telegramtest.Token, tg.URL())
	if err := os.WriteFile(g.config, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

// build compiles the program, unless NANOBOT_CHAOS_BIN names one.
func (g *gateway) build() {
	g.t.Helper()
	if bin := os.Getenv("NANOBOT_CHAOS_BIN"); bin != "" {
		g.bin = bin
		return
	}
	if err := program.Build(g.t.Context(), nil, g.bin, "./cmd/nanobot"); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) workspace() string { return filepath.Join(g.home, "workspace") }

// start runs the next process. That the one before it was killed is our doing,
// so it is taken off the list of crashes, which would keep chats off.
func (g *gateway) start() {
	g.t.Helper()
	if err := os.Remove(filepath.Join(g.home, "run", "starts.json")); err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	g.gen++
	if g.tg != nil {
		g.tg.begin(g.gen)
	}
	g.out = &output{}
	g.cmd = exec.CommandContext(context.WithoutCancel(g.t.Context()), g.bin, "gateway", "-c", g.config, "-w", g.workspace())
	g.cmd.Env = []string{"HOME=" + g.home, "PATH=" + os.Getenv("PATH")}
	g.cmd.Stdout, g.cmd.Stderr = g.out, g.out
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
}

// kill ends the process without a warning.
func (g *gateway) kill() {
	g.t.Helper()
	g.killed[g.gen] = time.Now()
	if err := g.cmd.Process.Kill(); err != nil {
		g.t.Fatalf("process %d was gone already: %v\n%s", g.gen, err, g.out)
	}
	_ = g.cmd.Wait() // says that it was killed
	if state, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGKILL {
		g.t.Fatalf("process %d ended by itself: %v\n%s", g.gen, g.cmd.ProcessState, g.out)
	}
	g.wrote.WriteString(g.out.String())
	if g.notes != nil {
		g.notes.look()
	}
}

// output is what a process wrote so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// stop lets the process end in order.
func (g *gateway) stop() {
	g.t.Helper()
	for end := time.Now().Add(10 * time.Minute); !strings.Contains(g.out.String(), "listening") && time.Now().Before(end); {
		hold(g.t.Context(), 20*time.Millisecond) // before that a signal just kills it
	}
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatalf("the last process was gone already: %v\n%s", err, g.out)
	}
	force := time.AfterFunc(10*time.Minute, func() { _ = g.cmd.Process.Kill() }) // Wait says so
	defer force.Stop()
	if err := g.cmd.Wait(); err != nil {
		g.t.Errorf("the last process did not end in order: %v\n%s", err, g.out)
	}
	g.wrote.WriteString(g.out.String())
	if g.notes != nil {
		g.notes.look()
	}
}

// complaints are lines that a healthy program never writes, and how many
// errors it logged.
func (g *gateway) complaints() (bad []string, errors int) {
	g.t.Helper()
	logs, err := filepath.Glob(filepath.Join(g.home, "logs", "*"))
	if err != nil {
		g.t.Fatal(err)
	}
	text := []byte(g.wrote.String())
	for _, f := range logs {
		data, err := os.ReadFile(f)
		if err != nil {
			g.t.Fatal(err)
		}
		text = append(text, data...)
	}
	for line := range strings.Lines(string(text)) {
		low := strings.ToLower(line)
		if strings.Contains(low, "panic") || strings.Contains(low, "fatal error") || strings.Contains(low, "data race") {
			bad = append(bad, line)
		}
		if strings.Contains(line, "ERROR") {
			errors++
		}
	}
	return bad, errors
}
