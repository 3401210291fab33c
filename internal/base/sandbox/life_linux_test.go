package sandbox_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// alive reports whether some process has a text among its arguments.
func alive(text string) bool {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		if bytes.Contains(data, []byte(text)) && !bytes.Contains(data, []byte("bash")) {
			return true
		}
	}
	return false
}

// asleep counts the processes that run sleep with this text.
func asleep(text string) (n int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if data, _ := os.ReadFile(name); string(data) == "sleep\x00"+text+"\x00" {
			n++
		}
	}
	return n
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Minute); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

// mark is an argument of sleep that no other process has.
func mark(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("7%d.%d", os.Getpid(), time.Now().UnixNano()%1e9)
}

func TestExitCodesAndStreams(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		for script, want := range map[string]int{"exit 7": 7, "true": 0, "kill -TERM $$": 143, "kill -KILL $$": 137, "no-such-program": 127} {
			if out, got := b.run(t, b.profile(), script); got != want {
				t.Errorf("%s: code %d, want %d: %s", script, got, want, out)
			}
		}
		cmd := b.command(t.Context(), `echo "$0 $1"; echo err >&2; cat; pwd; echo $TMPDIR; test -w "$TMPDIR" && mktemp >/dev/null && echo temp`)
		cmd.Args = append(cmd.Args, "zero", "one two")
		cmd.Stdin = strings.NewReader("from stdin\n")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cleanup, err := b.Wrap(cmd, b.profile())
		if err != nil {
			t.Fatal(err)
		}
		err = cmd.Run()
		private := strings.Split(stdout.String(), "\n")
		cleanup()
		if err != nil || stderr.String() != "err\n" || !strings.HasPrefix(stdout.String(), "zero one two\nfrom stdin\n"+b.workspace+"\n") || !strings.HasSuffix(stdout.String(), "temp\n") {
			t.Errorf("%v: stdout %q, stderr %q", err, stdout.String(), stderr.String())
		}
		if b.kind == plain || b.kind == old {
			if _, err := os.Stat(private[3]); !os.IsNotExist(err) {
				t.Errorf("the private directory %s is still there: %v", private[3], err)
			}
		}
		missing := exec.CommandContext(t.Context(), "/nowhere/program")
		missing.Dir, missing.Env = b.workspace, []string{}
		cleanup, err = b.Wrap(missing, b.profile())
		if err != nil {
			t.Fatal(err)
		}
		defer cleanup()
		out, err := missing.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "run /nowhere/program: no such file") {
			t.Errorf("a missing program: %v, %s", err, out)
		}
	})
}

// TestStreamsEnd checks that readers see the end of a stream as soon as the
// command closes it.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		cmd := b.command(t.Context(), `exec >&- 2>&-; cat >/dev/null`)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		outPipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cleanup, err := b.Wrap(cmd, b.profile())
		if err != nil {
			t.Fatal(err)
		}
		defer cleanup()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if b.kind != bwrap { // bubblewrap keeps its own copies
			if _, err := io.ReadAll(outPipe); err != nil {
				t.Error(err)
			}
		}
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingIsLeft starts processes that try to outlive the command.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		for _, script := range []string{
			`nohup sleep %s >/dev/null 2>&1 &`,
			`setsid sleep %s >/dev/null 2>&1 &`,
			`(setsid setsid env -i sleep %s >/dev/null 2>&1 &) & disown -a`,
			`setsid bash -c 'trap "" TERM HUP; (sleep %s; :) & wait' >/dev/null 2>&1 & sleep 0.05`,
		} {
			m := mark(t)
			b.must(t, b.profile(), fmt.Sprintf(script, m))
			eventually(t, script, func() bool { return !alive(m) })
		}
	})
}

// TestEndOfHelper kills the helper, and TestEndOfAgent the agent.
func TestEndOfHelper(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		for _, how := range []string{"kill", "group", "cleanup"} {
			m := mark(t)
			script, sleepers := "(setsid sleep "+m+" &); sleep "+m, 2
			if how == "kill" && (b.kind == plain || b.kind == old) {
				script, sleepers = "exec sleep "+m, 1 // nobody is left who could know of more
			}
			cmd := b.command(t.Context(), script)
			cleanup, err := b.Wrap(cmd, b.profile())
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "start", func() bool { return asleep(m) == sleepers }) // both, not one that is being started
			switch how {
			case "kill":
				_ = cmd.Process.Kill()
			case "group":
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			case "cleanup":
				cleanup()
			}
			if how == "kill" && b.kind == bwrap {
				cleanup() // bubblewrap's first process was killed, not the helper in it
			}
			err = cmd.Wait()
			if err == nil {
				t.Error("the command ended well")
			}
			eventually(t, how+" leaves nothing", func() bool { return !alive(m) })
			cleanup()
		}
	})
}

// TestAskedToEnd sends signals to the helper alone: it hands on a request to end
// and cannot be stopped.
func TestAskedToEnd(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		if b.kind == bwrap {
			t.Skip("bubblewrap's first process is the one that is asked")
		}
		cmd := b.command(t.Context(), `trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.02; done`)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cleanup, err := b.Wrap(cmd, b.profile())
		if err != nil {
			t.Fatal(err)
		}
		defer cleanup()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out := bufio.NewReader(pipe)
		if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%v: %q", err, line)
		}
		for _, s := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGINT, syscall.SIGTERM} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		rest, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 5 || string(rest) != "asked\n" {
			t.Errorf("code %d and %q", code, rest)
		}
	})
}

// TestEndOfAgent kills a process that runs a confined command.
func TestEndOfAgent(t *testing.T) {
	t.Parallel()
	if m := os.Getenv("SANDBOX_TEST_AGENT"); m != "" {
		kind, m, _ := strings.Cut(m, " ")
		b := open(t, kind)
		b.run(t, b.profile(), "(setsid sleep "+m+" &); sleep "+m)
		return
	}
	everyBox(t, func(t *testing.T, b *box) {
		m := mark(t)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		agent := exec.CommandContext(t.Context(), self, "-test.run=^TestEndOfAgent$")
		temp := t.TempDir()
		agent.Env = append(os.Environ(), "SANDBOX_TEST_AGENT="+b.kind+" "+m, "TMPDIR="+temp)
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "start", func() bool { return alive(m) })
		_ = agent.Process.Kill()
		_ = agent.Wait()
		eventually(t, "the command ends with the agent", func() bool { return !alive(m) })
		if b.kind != bwrap {
			eventually(t, "the private directory is removed", func() bool {
				left, _ := filepath.Glob(filepath.Join(temp, "nanobot-*"))
				return len(left) == 0
			})
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		p := b.profile()
		p.Limits = sandbox.Limits{FileSize: 1 << 20, Files: 64, Memory: 64 << 20, CPU: 1}
		out, _ := b.run(t, p, `ulimit -c; ulimit -n; dd if=/dev/zero of=big bs=64k count=64; ls -l big | cut -d' ' -f5; head -c 100m /dev/zero | tail | wc -c`)
		if !strings.HasPrefix(out, "0\n64\n") || !strings.Contains(out, "\n1048576\n") || strings.Contains(out, "104857600") {
			t.Errorf("got %s", out)
		}
		if b.kind != auto {
			return // an endless loop costs a second, and the limit is set the same way
		}
		if out, code := b.run(t, p, `exec bash -c 'while :; do :; done'`); code != 137 && code != 152 {
			t.Errorf("an endless loop: %d %s", code, out)
		}
	})
}

// TestForkBomb has a command multiply, but not without end: a limit that does
// not hold makes the test fail and not the machine.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	skipWithout(t, "python3")
	everyBox(t, func(t *testing.T, b *box) {
		m := mark(t)
		p := b.profile()
		p.Limits.Processes = 64
		out, code := b.run(t, p, `exec /usr/bin/python3 -c '
import os, time, signal # `+m+`
n = 0
for i in range(700):
  try:
    if os.fork() == 0: signal.pause()
    n += 1
  except OSError: break
if n == 700: time.sleep(30)
print("made", n)'`)
		n := 0
		if _, err := fmt.Sscanf(out, "made %d", &n); (err != nil || n > 64+300) && code != 137 {
			t.Errorf("code %d: %s, want it to be stopped", code, out)
		}
		t.Logf("code %d: %s", code, out)
		eventually(t, "nothing is left", func() bool { return !alive(m) })
	})
}

// Space is not reserved past the limits, in any form, and programs that want to
// reserve it go on with writing it.
func TestReservedSpace(t *testing.T) {
	t.Parallel()
	skipWithout(t, "python3")
	everyBox(t, func(t *testing.T, b *box) {
		p := b.profile()
		p.Limits = sandbox.Limits{FileSize: 4 << 20}
		out, _ := b.run(t, p, `
fallocate -l 64M a; fallocate -n -l 64M b; fallocate -z -l 64M c; fallocate -z -n -l 64M d
python3 -c 'import os
f = os.open("e", os.O_CREAT | os.O_RDWR)
os.posix_fallocate(f, 0, 1 << 20); print("reserved", os.fstat(f).st_size)
try: os.posix_fallocate(f, 0, 64 << 20)
except OSError as e: print("refused")'
fallocate -p -o 0 -l 4096 e && echo hole
du -sm . | cut -f1`)
		lines := strings.Fields(out)
		used := 0
		if len(lines) > 0 {
			_, _ = fmt.Sscan(lines[len(lines)-1], &used)
		}
		if used > 8 || !strings.Contains(out, "reserved 1048576") || !strings.Contains(out, "hole") {
			t.Errorf("%d MiB were taken: %s", used, out)
		}
	})
}
