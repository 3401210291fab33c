package shell_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// roleVariable makes the test program play a part of its own instead of
// running tests, so that something can be tried as an ordinary user.
const roleVariable = "SHELL_TEST_ROLE"

const nobody = 65534

// program is a copy of the test program that every user may start.
func program(t *testing.T) string {
	t.Helper()
	dir := openDir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "shell.test")
	// A process that is born now would hold the file open for a moment, and
	// what is open for writing cannot be started.
	syscall.ForkLock.RLock()
	err = os.WriteFile(name, self, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// openDir is a temporary directory that every user can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// as prepares the test program in a role, as root or as an ordinary user.
func as(ctx context.Context, t *testing.T, uid uint32, role string, env ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 && int(uid) != os.Getuid() {
		t.Skip("needs root to become another user")
	}
	cmd := exec.CommandContext(ctx, program(t))
	cmd.Env = append(env, roleVariable+"="+role, "PATH=/usr/bin:/bin", "TMPDIR=/tmp")
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	cmd.WaitDelay = time.Second
	return cmd
}

// hardened prints what a child can read of its parent's environment, before
// and after Harden.
func hardened() int {
	look := func(when string) {
		out, err := exec.CommandContext(context.Background(), "/bin/sh", "-c", "cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -c CANARY; cat /proc/$PPID/mem >/dev/null 2>&1 || true").Output()
		say("%s: %s (%v)", when, strings.TrimSpace(string(out)), err)
	}
	look("before")
	if err := shell.Harden(); err != nil {
		say("%v", err)
		return 1
	}
	look("after")
	return 0
}

// T8: a command cannot read the environment of the agent, sandbox or not.
func TestHardenHidesTheEnvironment(t *testing.T) {
	t.Parallel()
	out, err := as(t.Context(), t, nobody, "harden", "CANARY=secret").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "before: 1 ") {
		t.Skipf("this system hides the environment of processes by itself: %s", out)
	}
	if !strings.Contains(string(out), "after: 0 ") {
		t.Errorf("the environment can still be read: %s", out)
	}
}
