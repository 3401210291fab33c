package launcher

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// helper builds a program that begins at entry, if flag says so.
func helper(t *testing.T, flag string) string {
	t.Helper()
	if LinkerFlag == "" {
		t.Skip("there is no entry for this processor")
	}
	out := filepath.Join(t.TempDir(), "helper")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", flag, "-o", out, "./testdata/helper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := build.CombinedOutput(); err != nil {
		if _, missing := exec.LookPath("go"); missing != nil {
			t.Skipf("no go tool: %v", missing)
		}
		t.Fatalf("%v: %s", err, msg)
	}
	return out
}

// prepared is a launcher with a command.
type prepared struct {
	*exec.Cmd
	lifeline       *os.File
	stdout, stderr bytes.Buffer
}

// prepare makes a launcher for a command as it would be inside
// bubblewrap, where it has the least to do.
func prepare(t *testing.T, program, name string, change func(*Program), argv ...string) *prepared {
	t.Helper()
	p := New()
	p.Inner, p.DropEnv = true, 1
	p.Run.Add("unblock", "signals", syscall.SYS_RT_SIGPROCMASK, sigSetMask, Put(p, uint64(0)), 0, 8)
	p.Run.Add("run", argv[0], syscall.SYS_EXECVE)
	if change != nil {
		change(p)
	}
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	s := &prepared{Cmd: exec.CommandContext(t.Context(), program), lifeline: w}
	s.Args = append([]string{name, "3"}, append([]string{argv[0]}, argv...)...)
	s.Env, s.ExtraFiles, s.Stdout, s.Stderr = []string{"GOMAXPROCS=1", "KEPT=yes"}, []*os.File{r}, &s.stdout, &s.stderr
	t.Cleanup(func() { _ = w.Close(); _ = r.Close() })
	return s
}

// code runs it to its end.
func (s *prepared) code() int {
	_ = s.Run()
	return s.ProcessState.ExitCode()
}

// TestEntry checks a launcher that begins before the runtime, and one that does
// not: a command cannot tell, but the number of threads can.
func TestEntry(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		flag := LinkerFlag
		if !early {
			flag = ""
		}
		program := helper(t, flag)
		if out, err := exec.CommandContext(t.Context(), program, "a", "b").CombinedOutput(); err != nil || string(out) != "main\n" {
			t.Errorf("as itself: %v, %q", err, out)
		}
		for _, name := range []string{Name, InnerName} {
			s := prepare(t, program, name, nil, "/bin/sh", "-c", `grep Threads: /proc/$PPID/status; echo "$KEPT $GOMAXPROCS"; exit 7`)
			if code := s.code(); code != 7 || !strings.HasSuffix(s.stdout.String(), "\nyes \n") {
				t.Errorf("%s: code %d: %s%s", name, code, s.stdout.String(), s.stderr.String())
			}
			if alone := strings.HasPrefix(s.stdout.String(), "Threads:\t1\n"); alone != early {
				t.Errorf("early %v, but %q", early, s.stdout.String())
			}
		}
		for _, name := range []string{Name + "x", "nanobot-", "/run/nan", ""} {
			s := prepare(t, program, name, nil, "/bin/sh", "-c", "exit 7")
			if code := s.code(); code != 0 || s.stdout.String() != "main\n" {
				t.Errorf("%q was a launcher: %d", name, code)
			}
		}
	}
}

// TestEarlyTrouble checks what a launcher needs the runtime for after it has
// begun without.
func TestEarlyTrouble(t *testing.T) {
	t.Parallel()
	program := helper(t, LinkerFlag)
	if s := prepare(t, program, Name, nil, "/nowhere/program"); s.code() != FailureCode || s.stderr.String() != "sandbox: run /nowhere/program: no such file or directory\n" {
		t.Errorf("a missing program: %s", s.stderr.String())
	}
	s := prepare(t, program, Name, func(p *Program) { p.Before.Add("close", "nothing", syscall.SYS_CLOSE, 1<<20) }, "/bin/true")
	if s.code() != FailureCode || s.stderr.String() != "sandbox: close nothing: bad file descriptor\n" {
		t.Errorf("a step that fails: %s", s.stderr.String())
	}
	if s := prepare(t, program, Name, nil, "/bin/sh", "-c", "kill -KILL $$"); s.code() != 137 {
		t.Errorf("a killed command: %d", s.ProcessState.ExitCode())
	}
	for descriptor, want := range map[string]string{
		"x": "begin: not meant to be started by hand", "99999999999": "begin: not meant to be started by hand",
		"": "begin: not meant to be started by hand", "77": "read the plan: it is not there",
	} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Args = []string{Name, descriptor, "/bin/true", "true"}
		if out, err := cmd.CombinedOutput(); err == nil || string(out) != "sandbox: "+want+"\n" {
			t.Errorf("descriptor %q: %v, %q", descriptor, err, out)
		}
	}
}

// TestEarlyEnd asks a launcher to end in the ways that are there, when it has
// been waiting without a runtime.
func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	program := helper(t, LinkerFlag)
	for name, c := range map[string]struct {
		end    func(s *prepared) error
		change func(p *Program)
		want   string
		code   int
	}{
		"asked": {end: func(s *prepared) error { return s.Process.Signal(syscall.SIGTERM) }, want: "asked\n", code: 5},
		"not to be stopped": {end: func(s *prepared) error {
			return errors.Join(s.Process.Signal(syscall.SIGTSTP), s.Process.Signal(syscall.SIGTERM))
		}, want: "asked\n", code: 5},
		"orphaned": {end: func(s *prepared) error { return s.lifeline.Close() }, code: 137},
		"counted":  {change: func(p *Program) { p.Watch = 1 }, code: 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const script = `trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.02; done`
			s := prepare(t, program, Name, c.change, "/bin/sh", "-c", script)
			s.Stdout = nil
			pipe, err := s.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			out := bufio.NewReader(pipe)
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
				t.Fatalf("%v: %q", err, line)
			}
			if c.end != nil {
				if err := c.end(s); err != nil {
					t.Fatal(err)
				}
			}
			rest, err := io.ReadAll(out)
			if err != nil {
				t.Fatal(err)
			}
			_ = s.Wait()
			if code := s.ProcessState.ExitCode(); code != c.code || string(rest) != c.want {
				t.Errorf("code %d and %q, want %d and %q: %s", code, rest, c.code, c.want, s.stderr.String())
			}
		})
	}
}
