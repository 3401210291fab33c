package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

const (
	auto   = "auto"
	bwrap  = "bwrap"
	plain  = "plain"   // Landlock and seccomp without namespaces
	old    = "old"     // the same, with the rules of an older kernel
	asRoot = "no-user" // namespaces without a user namespace, which only root can make
)

// everyBox runs a test in every kind of box this machine has.
func everyBox(t *testing.T, test func(t *testing.T, b *box)) {
	t.Helper()
	for _, kind := range []string{auto, bwrap, plain, old, asRoot} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, kind))
		})
	}
}

// box is a sandbox with a workspace and a canary beside it.
type box struct {
	*sandbox.Box
	kind      string
	workspace string
	outside   string // the directory of the workspace and of config.json
}

const canary = "CANARY-of-the-config-file"

func open(t *testing.T, kind string) *box {
	t.Helper()
	var b *sandbox.Box
	var err error
	switch kind {
	case auto:
		b, err = sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Auto})
	case bwrap:
		b, err = sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Bwrap})
	case plain:
		b, err = sandbox.OpenPlain(t.Context(), sandbox.LandlockABI())
	case old:
		b, err = sandbox.OpenPlain(t.Context(), 4)
	case asRoot:
		if os.Getuid() != 0 {
			t.Skip("only root makes namespaces without a user namespace")
		}
		b, err = sandbox.OpenRoot(t.Context())
	}
	if err != nil {
		t.Skipf("this machine has no such sandbox: %v", err)
	}
	out := &box{Box: b, kind: kind, outside: t.TempDir()}
	out.workspace = filepath.Join(out.outside, "workspace")
	for _, dir := range []string{out.workspace} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(out.outside, "config.json"), []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *box) profile() sandbox.Profile { return sandbox.Profile{Workspace: b.workspace} }

// command makes an unconfined shell command in the workspace.
func (b *box) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", script)
	cmd.Dir = b.workspace
	cmd.Env = []string{
		"HOME=" + b.workspace, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin",
		"LANG=C.UTF-8", "OUT=" + b.outside, fmt.Sprintf("AGENT=%d", os.Getpid()),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// run is the output and exit code of a confined script.
func (b *box) run(t *testing.T, p sandbox.Profile, script string) (string, int) {
	t.Helper()
	cmd := b.command(t.Context(), script)
	cleanup, err := b.Wrap(cmd, p)
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("WARNING: DATA RACE")) { // the exit code is the command's
		t.Errorf("the helper has a race: %s", out)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok && err != nil {
		t.Fatalf("%v: %s", err, out)
	} else if ok {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// must is run for scripts that have to succeed.
func (b *box) must(t *testing.T, p sandbox.Profile, script string) string {
	t.Helper()
	out, code := b.run(t, p, script)
	if code != 0 {
		t.Fatalf("%s: exit code %d: %s", script, code, out)
	}
	return out
}

// secrets are texts that no command may print: the canary, the first account
// of the machine, and the agent's environment.
func secrets(t *testing.T) []string {
	t.Helper()
	out := []string{canary}
	accounts, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(accounts), "\n")
	env, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		t.Fatal(err)
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if s := string(kv); len(s) > 8 && !strings.HasPrefix(s, "PATH=") && !strings.HasPrefix(s, "LANG=") {
			out = append(out, s)
		}
	}
	return append(out, first)
}

func skipWithout(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

// TestUnprivileged runs all other tests as an ordinary user.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user")
	}
	dir, err := os.MkdirTemp("", "sandbox-user-") //nolint:usetesting // another user must get in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "sandbox.test")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		// A process that is born now would hold the file open for a moment, and
		// what is open for writing cannot be started.
		syscall.ForkLock.RLock()
		err = os.WriteFile(program, self, 0o755)
		syscall.ForkLock.RUnlock()
	}
	home := filepath.Join(dir, "tmp")
	err = errors.Join(err, os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, 65534, 65534))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.timeout=10m", "-test.v"}
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-test.short") || strings.HasPrefix(a, "-test.run") || strings.HasPrefix(a, "-test.skip") {
			args = append(args, a)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + home, "CANARY_VARIABLE=CANARY-of-the-environment"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: false}}
	out, err := cmd.CombinedOutput()
	lines := slices.DeleteFunc(strings.Split(string(out), "\n"), func(l string) bool {
		return strings.HasPrefix(strings.TrimSpace(l), "=== ")
	})
	if err != nil {
		t.Fatalf("%v:\n%s", err, strings.Join(lines, "\n"))
	}
	for _, l := range lines {
		if strings.Contains(l, "SKIP") || strings.Contains(l, "no such sandbox") {
			t.Log(strings.TrimSpace(l))
		}
	}
}
