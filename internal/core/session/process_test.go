package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
)

const roleEnv = "NANOBOT_SESSION_TEST_ROLE"

// child starts this test binary again in one of the roles of TestChild.
func child(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), roleEnv+"="+role+"|"+dir)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // open until the child ends
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewReader(out)
}

// TestChild is not a test but what the other process does.
func TestChild(t *testing.T) {
	role, dir, ok := strings.Cut(os.Getenv(roleEnv), "|")
	if !ok {
		t.Skip("only runs as another process")
	}
	st := openStore(t, storetest.Disk, dir, func(o *Options) { o.LockWait = 20 * time.Second })
	if name, writes := strings.CutPrefix(role, "write"); writes {
		for i := range 30 {
			s := acquire(t, st, "k")
			must(t, s.BeginTurn(name, user(fmt.Sprintf("%s/%d", name, i))))
			must(t, s.Append(calls("x")))
			must(t, s.Append(result("x", "X")))
			must(t, s.EndTurn(answer("ok")))
			must(t, s.Release())
		}
		return
	}
	// hold: take the session, begin a turn, say so, and wait to be killed.
	s := acquire(t, st, "k")
	must(t, s.BeginTurn("held", user("never answered")))
	must(t, s.Append(calls("x")))
	fmt.Fprintln(os.Stdout, "holding")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestTwoProcessesWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openStore(t, storetest.Disk, dir)
	var cmds []*exec.Cmd
	for _, role := range []string{"writea", "writeb"} {
		cmd, out := child(t, role, dir)
		cmds = append(cmds, cmd)
		go func() { _, _ = io.Copy(io.Discard, out) }()
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}
	s := acquire(t, openStore(t, storetest.Disk, dir), "k")
	defer s.Release()
	if err := CheckLegal(s.Messages()); err != nil {
		t.Error(err)
	}
	next := map[string]int{}
	for _, r := range s.Messages() {
		if who, i, ok := strings.Cut(r.Content.Text, "/"); ok && r.Role == llm.User {
			if i != fmt.Sprint(next[who]) {
				t.Errorf("process %s: turn %s, want %d", who, i, next[who])
			}
			next[who]++
		}
	}
	if s.Len() != 2*30*4 || next["a"] != 30 || next["b"] != 30 {
		t.Errorf("Len = %d, turns %v", s.Len(), next)
	}
}

func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, storetest.Disk, dir, func(o *Options) { o.LockWait = time.Millisecond })
	cmd, out := child(t, "hold", dir)
	if line, err := out.ReadString('\n'); line != "holding\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	_, err := st.Acquire(t.Context(), "k")
	if busy, ok := errors.AsType[*BusyError](err); !ok || busy.PID != cmd.Process.Pid || busy.Key != "k" {
		t.Errorf("Acquire: %v, want a BusyError of process %d", err, cmd.Process.Pid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a dead context: %v", err)
	}
	// Others read without the lock.
	n := 0
	for _, err := range st.Records(t.Context(), "k") {
		must(t, err)
		n++
	}
	if n != 2 {
		t.Errorf("Records found %d, want 2", n)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	s := acquire(t, st, "k")
	if o := s.OpenTurn(); o == nil || o.ID != "held" || o.PID != cmd.Process.Pid {
		t.Errorf("open turn = %+v", o)
	}
	rec, err := s.Recover(nil)
	must(t, err)
	if rec.Results != 1 || !rec.Note || CheckLegal(s.Messages()) != nil {
		t.Errorf("recovery = %+v, messages %q", rec, gist(s.Messages()))
	}
	must(t, s.Release())
}
