//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

func TestEnvironmentHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	run := execTool(t, shell.Options{
		Environ: []string{
			"HOME=/home/someone", "ANTHROPIC_API_KEY=canary", "TOKEN=canary", "PATH=/canary", "BASH_ENV=/canary", "LANG=de_DE.UTF-8",
			"WANTED=yes", "TERM=xterm", "BASH_FUNC_x%%=() { canary; }", "=C:=canary",
		},
		AllowedEnv: []string{"WANTED", "MISSING"}, PathPrepend: "/first", PathAppend: "/last dir;$(id)",
	})
	got := run(command("env | sort"))
	if strings.Contains(got.Content.Text, "canary") {
		t.Errorf("a secret of the agent is visible: %s", got.Content.Text)
	}
	names := map[string]string{}
	for line := range strings.Lines(got.Content.Text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			names[k] = v
		}
	}
	for _, k := range []string{"PWD", "SHLVL", "_", "NANOBOT_CALL", "OLDPWD"} { // the shell's own, and the mark
		delete(names, k)
	}
	path := names["PATH"]
	delete(names, "PATH")
	want := map[string]string{
		"HOME": "/home/someone", "LANG": "de_DE.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat",
		"GIT_TERMINAL_PROMPT": "0", "PYTHONUNBUFFERED": "1", "WANTED": "yes",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(path, "/first:") || !strings.HasSuffix(path, ":/last dir;$(id)") || !strings.Contains(path, ":/usr/bin:") {
		t.Errorf("PATH = %q", path)
	}
}

// noSleepers fails if a process with the mark as an argument is alive, and ends it.
func noSleepers(t *testing.T, mark string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		line, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err != nil || !slices.Contains(strings.Split(string(line), "\x00"), mark) {
			continue
		}
		t.Errorf("%s is still running", d)
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unusual is a sleeping time no other process on this machine has.
func unusual(t *testing.T, n int) string {
	t.Helper()
	return strconv.Itoa(100000+os.Getpid()%50000) + "." + strconv.Itoa(1000+n)
}

func TestNoSurvivors(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ name, command string }{
		{"background", `sleep N & echo out`},
		{"nohup", `nohup sleep N >/dev/null 2>&1 & echo out`},
		{"nohup holding stdout", `nohup sleep N & echo out`},
		{"setsid", `setsid sleep N & echo out`},
		{"double fork", `( setsid sh -c 'sleep N & sleep N' & ) ; echo out`},
		{"several", `for i in 1 2 3; do setsid sleep N & done; echo out`},
		{"ignores the request", `( trap '' TERM; setsid sleep N & sleep N ) & echo out`},
		{"clean environment below a marked parent", `( setsid sh -c 'env -i sleep N; :' & ) ; echo out`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := unusual(t, i)
			run := execTool(t, shell.Options{})
			begin := time.Now()
			got := run(command(strings.ReplaceAll(c.command, "N", n)))
			if d := time.Since(begin); d > 55*time.Second {
				t.Errorf("returned after %v", d)
			}
			if got.IsError || !strings.Contains(got.Content.Text, "out") || !strings.Contains(got.Content.Text, "Exit code: 0") {
				t.Errorf("got %q (%s)", got.Content.Text, got.Code)
			}
			noSleepers(t, n)
			if !strings.Contains(got.Content.Text, "background process") {
				t.Errorf("%q does not tell that a process was stopped", got.Content.Text)
			}
		})
	}
}

// A process of somebody else must not be touched, however alike it looks.
func TestOthersSurvive(t *testing.T) {
	t.Parallel()
	other := exec.CommandContext(t.Context(), "sleep", "300")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	other.Env = []string{"NANOBOT_CALL=0123456789abcdef"}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	execTool(t, shell.Options{})(command("setsid sleep 301 & true"))
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process is gone: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed
}

func TestTimeoutLeavesNoSurvivors(t *testing.T) {
	t.Parallel()
	n := unusual(t, 100)
	run := execTool(t, shell.Options{Timeout: 200 * time.Millisecond})
	got := run(command("setsid sleep " + n + " & sleep " + n + " & echo out; wait"))
	if got.Code != tool.TimedOut {
		t.Errorf("got %q (%s), want a timeout", got.Content.Text, got.Code)
	}
	noSleepers(t, n)
}

// A command that ignores the polite request is killed after the grace period.
func TestStubbornCommandIsKilled(t *testing.T) {
	t.Parallel()
	n := unusual(t, 101)
	run := execTool(t, shell.Options{Timeout: 200 * time.Millisecond})
	got := run(command("trap '' TERM; echo out; while :; do sleep " + n + "; done"))
	if got.Code != tool.TimedOut {
		t.Errorf("got %q (%s), want a timeout", got.Content.Text, got.Code)
	}
	noSleepers(t, n)
}

func TestCancelStopsTheCommand(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	tl := newShell(t, shell.Options{Workspace: ws, Timeout: shell.NoTimeout}).Tools()[0]
	n := unusual(t, 102)
	ready := filepath.Join(ws, "ready")
	if err := syscall.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // reading blocks until the command has begun
		_, _ = os.ReadFile(ready)
		cancel()
	}()
	begin := time.Now()
	got, err := tl.Run(ctx, tool.Call{Input: []byte(command("echo out; echo > ready; sleep " + n))})
	if err != nil {
		t.Fatal(err)
	}
	if got.Code != tool.Cancelled || !got.MayHaveRun || !strings.Contains(got.Content.Text, "out") {
		t.Errorf("got %q (%s, may have run %v), want a cancelled call with its output", got.Content.Text, got.Code, got.MayHaveRun)
	}
	if d := time.Since(begin); d > 5*time.Minute {
		t.Errorf("took %v", d)
	}
	noSleepers(t, n)
}

// A command whose turn is over before it began says so in words.
func TestTooLateToBegin(t *testing.T) {
	t.Parallel()
	tl := newShell(t, shell.Options{Workspace: t.TempDir()}).Tools()[0]
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	late, over := context.WithTimeout(t.Context(), 0)
	defer over()
	for want, ctx := range map[tool.Code]context.Context{tool.Cancelled: stopped, tool.TimedOut: late} {
		got, err := tl.Run(ctx, tool.Call{Input: []byte(command("echo out"))})
		if err != nil || got.Code != want || !strings.Contains(got.Content.Text, "the command was not run: ") || strings.Contains(got.Content.Text, "context") {
			t.Errorf("got %q (%s), %v; want %s", got.Content.Text, got.Code, err, want)
		}
	}
}

// That the memory is bounded, too, is shown by TestCaptureHoldsLittle.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []string{
		"yes 0123456789 | head -c 10000000", "head -c 5000000 /dev/urandom | base64", "yes | tr -d '\\n' | head -c 10000000",
		"yes | head -c 10000000 >&2",
	} {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			got := execTool(t, shell.Options{})(command(c))
			if n := len(got.Content.Text); n < 9_000 || n > 11_000 {
				t.Errorf("result has %d bytes", n)
			}
			if !strings.Contains(got.Content.Text, "characters cut") {
				t.Errorf("no word about the cut: %.200q", got.Content.Text)
			}
		})
	}
	t.Run("without end", func(t *testing.T) {
		t.Parallel()
		got := execTool(t, shell.Options{Timeout: 300 * time.Millisecond})(command("yes"))
		if n := len(got.Content.Text); got.Code != tool.TimedOut || n > 11_000 {
			t.Errorf("got %d bytes (%s), want at most 11000 and a timeout", n, got.Code)
		}
	})
}

func TestCallTimeoutWins(t *testing.T) {
	t.Parallel()
	run := execTool(t, shell.Options{Timeout: time.Nanosecond})
	if got := run(`{"command":"echo hi","timeout":"30"}`); got.IsError {
		t.Errorf("got %q, want the call's own timeout to count", got.Content.Text)
	}
	for _, bad := range []string{"0", "601", "-1", "1.5", `"soon"`} {
		if got := run(`{"command":"echo hi","timeout":` + bad + `}`); got.Code != tool.InvalidArgs {
			t.Errorf("timeout %s: code = %q, want %q", bad, got.Code, tool.InvalidArgs)
		}
	}
}

func TestRefusedCommandsDoNotRun(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	run := execTool(t, shell.Options{Workspace: ws, Restrict: true})
	for c, code := range map[string]tool.Code{
		"touch pwn; rm -rf x":       tool.DeniedPolicy,
		"touch pwn; cat /etc/hosts": tool.DeniedPolicy,
		"touch pwn; echo 'open":     tool.InvalidArgs,
		"touch pwn\r":               tool.InvalidArgs,
		"touch pwn # \u202e":        tool.InvalidArgs,
		"touch pwn # \x00":          tool.InvalidArgs,
	} {
		if got := run(command(c)); got.Code != code {
			t.Errorf("%q: code = %q (%s), want %q", c, got.Code, got.Content.Text, code)
		}
	}
	if got := run(`{"command":"touch pwn # \ud800"}`); got.Code != tool.InvalidArgs {
		t.Errorf("lone surrogate: code = %q, want %q", got.Code, tool.InvalidArgs)
	}
	if _, err := os.Stat(filepath.Join(ws, "pwn")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused command ran: %v", err)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	t.Run("changes the command", func(t *testing.T) {
		t.Parallel()
		run := execTool(t, shell.Options{Wrap: func(_ tool.Call, c *exec.Cmd) (shell.Confined, error) {
			c.Env = append(c.Env, "WRAPPED=1")
			return shell.Confined{}, nil
		}})
		if got, want := run(command("echo $WRAPPED")).Content.Text, "1\n\nExit code: 0"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("an error means no run", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		run := execTool(t, shell.Options{Workspace: ws, Wrap: func(tool.Call, *exec.Cmd) (shell.Confined, error) {
			return shell.Confined{}, errors.New("no sandbox here")
		}})
		got := run(command("touch pwn"))
		if !got.IsError || !strings.Contains(got.Content.Text, "no sandbox here") {
			t.Errorf("got %q, want the reason", got.Content.Text)
		}
		if _, err := os.Stat(filepath.Join(ws, "pwn")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the command ran without its wrapper: %v", err)
		}
	})
}

// A sandbox that fails while it is set up has not run the command; the model
// learns that, and the turn goes on.
func TestSandboxThatFails(t *testing.T) {
	t.Parallel()
	cleaned := make(chan string, 8)
	wrap := func(script string) func(tool.Call, *exec.Cmd) (shell.Confined, error) {
		return func(_ tool.Call, c *exec.Cmd) (shell.Confined, error) {
			c.Path, c.Args = "/bin/sh", []string{"sh", "-c", script}
			return shell.Confined{Release: func() { cleaned <- script }}, nil
		}
	}
	for script, want := range map[string]tool.Code{
		`echo "sandbox: landlock: not permitted" >&2; exit 126`:      tool.Internal,
		`echo out; echo "sandbox: said by a program" >&2; exit 126`:  "",
		`echo "sandbox: said by a program that goes on" >&2; exit 1`: "",
		`echo "sh: 1: x: Permission denied" >&2; exit 126`:           "",
	} {
		d := newDesk(t, shell.Options{Sandboxed: true, Wrap: wrap(script)})
		for _, a := range []args{{"command": "x"}, {"command": "x", "yield_time_ms": 30000}} {
			r := d.call("a", "exec", a)
			d.expect(r, want)
			if want != "" {
				d.expect(r, want, "not run", "sandbox: landlock: not permitted")
			}
			if got := <-cleaned; got != script {
				t.Errorf("cleaned up after %q", got)
			}
		}
	}
	d := newDesk(t, shell.Options{Sandboxed: true, Wrap: func(_ tool.Call, c *exec.Cmd) (shell.Confined, error) {
		c.Path = "/nonexistent"
		return shell.Confined{Release: func() { cleaned <- "missing" }}, nil
	}})
	d.expect(d.call("a", "exec", args{"command": "x"}), tool.Internal, "not run", "/nonexistent")
	if got := <-cleaned; got != "missing" {
		t.Errorf("cleaned up after %q", got)
	}
}

// A nested agent's processes carry the outer mark, so that the outer agent finds them.
func TestMarksNest(t *testing.T) {
	t.Parallel()
	run := execTool(t, shell.Options{Environ: []string{"NANOBOT_CALL=outer"}})
	got := run(command("echo $NANOBOT_CALL")).Content.Text
	if !strings.HasPrefix(got, "outer.") {
		t.Errorf("mark = %q, want one that starts with the outer mark", got)
	}
}

func BenchmarkTrue(b *testing.B) {
	tl := newShell(b, shell.Options{Workspace: b.TempDir()}).Tools()[0]
	for b.Loop() {
		if _, err := tl.Run(b.Context(), tool.Call{Input: []byte(`{"command":"true"}`)}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args, want string }{
		{"stdout", `{"command":"echo hi"}`, "hi\n\nExit code: 0"},
		{"alias", `{"cmd":"echo hi"}`, "hi\n\nExit code: 0"},
		{"nothing", `{"command":"true"}`, "Exit code: 0"},
		{"both streams", `{"command":"echo a; echo b >&2"}`, "a\nSTDERR:\nb\n\nExit code: 0"},
		{"no newline", `{"command":"printf a; printf b >&2"}`, "a\nSTDERR:\nb\n\nExit code: 0"},
		{"exit code", `{"command":"echo no >&2; exit 3"}`, "STDERR:\nno\n\nExit code: 3"},
		{"killed by a signal", `{"command":"kill -9 $$"}`, "Exit code: 137"},
		{"invalid text", `{"command":"printf 'a\\377b'"}`, "a\uFFFDb\n\nExit code: 0"},
		{"no stdin", `{"command":"cat; echo end"}`, "end\n\nExit code: 0"},
		{"bash", `{"command":"[[ a == a ]] && echo yes"}`, "yes\n\nExit code: 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := execTool(t, shell.Options{Environ: os.Environ()})(c.args)
			if got.IsError || got.Content.Text != c.want {
				t.Errorf("got %q (error %v), want %q", got.Content.Text, got.IsError, c.want)
			}
		})
	}
}

func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	ws, outside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(ws, "sub"), 0o700), os.Symlink("/", filepath.Join(ws, "root")),
		os.Symlink("sub", filepath.Join(ws, "alias")), os.WriteFile(filepath.Join(ws, "file"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, dir string
		restrict  bool
		code      tool.Code
		want      string
	}{
		{"default", "", true, "", ws},
		{"relative", "sub", true, "", filepath.Join(ws, "sub")},
		{"absolute inside", filepath.Join(ws, "sub"), true, "", filepath.Join(ws, "sub")},
		{"link inside", "alias", true, "", filepath.Join(ws, "sub")},
		{"outside", "/etc", true, tool.DeniedPolicy, ""},
		{"home", "~", true, tool.DeniedPolicy, ""},
		{"link to the root", "root", true, tool.DeniedPolicy, ""},
		{"through a link", "root/etc", true, tool.DeniedPolicy, ""},
		{"up", "..", true, tool.DeniedPolicy, ""},
		{"sibling with the same prefix", ws + "-evil", true, tool.DeniedPolicy, ""},
		{"missing", "nope", true, tool.NotFound, ""},
		{"file", "file", true, tool.NotFound, ""},
		{"unrestricted", outside, false, "", outside},
		{"NUL", "a\x00b", false, tool.InvalidArgs, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := execTool(t, shell.Options{Workspace: ws, Restrict: c.restrict, Environ: []string{"HOME=" + outside}})
			args, _ := json.Marshal(map[string]string{"command": "pwd", "working_dir": c.dir})
			got := run(string(args))
			if got.Code != c.code {
				t.Fatalf("code = %q (%s), want %q", got.Code, got.Content.Text, c.code)
			}
			if c.code == "" && !strings.HasPrefix(got.Content.Text, c.want+"\n") {
				t.Errorf("got %q, want directory %q", got.Content.Text, c.want)
			}
		})
	}
}

// Where the first word took too long for the time limit, there is more time.
func TestTimeoutKeepsPartialOutput(t *testing.T) {
	t.Parallel()
	for timeout := 300 * time.Millisecond; ; timeout *= 2 {
		got := execTool(t, shell.Options{Timeout: timeout})(command("echo started; sleep 600; echo never"))
		if got.Code != tool.TimedOut || !got.MayHaveRun {
			t.Errorf("code = %q, may have run = %v, want %q, true", got.Code, got.MayHaveRun, tool.TimedOut)
		}
		text := got.Content.Text
		if !strings.Contains(text, "started") && timeout < 20*time.Second {
			continue
		}
		if !strings.Contains(text, "started") || strings.Contains(text, "never") {
			t.Errorf("got %q, want the output before the timeout", text)
		}
		return
	}
}
