package schedule

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

const roleEnv = "NANOBOT_SCHEDULE_TEST_ROLE"

// TestMain plays another process when it is asked to.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Getenv(roleEnv+"_WORKSPACE")); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// play runs one role: runner, dying before or after the queue has the message,
// a guest, one that dies, or a process that adds jobs.
func play(role, ws string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var s *Scheduler
	s, err := Open(Options{
		Workspace: ws, State: disk.Open(filepath.Join(ws, "state"), nil), Location: time.UTC,
		Notify: func(context.Context, bus.Outbound) error { return nil },
		Submit: func(ctx context.Context, in bus.Inbound) error {
			if role == "die-before" || role == "guest-dies" {
				die()
			}
			if err := enqueue(filepath.Join(ws, "queue"), in.ID); err != nil {
				return err
			}
			if role == "die-after" {
				die()
			}
			go func() {
				s.Outcome(ctx, in, bus.Outbound{Kind: bus.Final, Text: "x", Turn: &bus.Turn{}})
				cancel()
			}()
			return nil
		},
	})
	if err != nil {
		return err
	}
	if strings.HasPrefix(role, "guest") {
		s.Guest.Takes = func(bus.Route) bool { return true }
	}
	if role == "add" {
		for i := range 15 {
			if _, err := s.Add(ctx, Draft{Message: fmt.Sprintf("%d of %d", i, os.Getpid()), Timing: Every(time.Hour), Route: bus.Route{Channel: "c", ChatID: fmt.Sprint(os.Getpid())}}); err != nil {
				return err
			}
		}
		return nil
	}
	return s.Run(ctx)
}

// die ends the process the hard way.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

// enqueue is a queue that drops what it has seen.
func enqueue(path, id string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // synced below
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if sc.Text() == id {
			return nil
		}
	}
	if _, err := fmt.Fprintln(f, id); err != nil {
		return err
	}
	return f.Sync()
}

func child(t *testing.T, role, ws string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, roleEnv+"_WORKSPACE="+ws)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestKilledBetweenClaimAndQueue(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"die-before", "die-after", "guest-dies"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			s := plain(t, storetest.Disk, ws)
			j := add(t, s, Draft{Timing: Once(time.Now()), Keep: true})
			if err := child(t, role, ws).Run(); err == nil {
				t.Fatal("the process did not die")
			}
			if p := job(t, s, j.ID).State.Pending; p == nil {
				t.Fatal("the run was not claimed before the process died")
			}
			if role == "die-after" {
				// The queue hands it to the agent after the restart.
				in := bus.Inbound{ID: inboundID(j.ID, j.Schedule.AtMS), Event: EventCron}
				s.Outcome(t.Context(), in, bus.Outbound{Text: "x", Turn: &bus.Turn{}})
			} else if err := child(t, "run", ws).Run(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(ws, "queue"))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Fields(string(data)), []string{inboundID(j.ID, j.Schedule.AtMS)}; !slices.Equal(got, want) {
				t.Errorf("queue %q, want %q", got, want)
			}
			if st := job(t, s, j.ID).State; st.LastStatus != statusOK || len(st.RunHistory) != 1 || st.Pending != nil {
				t.Errorf("state %+v", st)
			}
		})
	}
}

// A guest in another process goes as soon as somebody wants to run all jobs.
func TestGuestProcessYields(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	guest := child(t, "guest", ws)
	out := &strings.Builder{}
	guest.Stderr = out
	if err := guest.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if pid, running := Guest(t.Context(), stateOf(t, storetest.Disk, ws)); running {
			if pid != guest.Process.Pid && pid != 0 { // 0: it is just being written
				t.Errorf("guest %d, want %d", pid, guest.Process.Pid)
			}
			break
		}
		<-time.After(time.Millisecond)
	}
	ran := make(chan string, 4)
	s := plain(t, storetest.Disk, ws)
	s.Notify = func(context.Context, bus.Outbound) error { return nil }
	s.Submit = func(_ context.Context, in bus.Inbound) error { ran <- in.ID; return nil }
	s.Blocked = func(_ context.Context, err error) { t.Errorf("the guest stays: %v", err) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if err := guest.Wait(); err == nil || !strings.Contains(out.String(), ErrYield.Error()) {
		t.Errorf("the guest ended with %v: %s", err, out)
	}
	j := add(t, s, Draft{Timing: Once(time.Now())})
	if id := <-ran; !strings.HasPrefix(id, idPrefix+j.ID) {
		t.Errorf("ran %s", id)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTwoProcessesAdd(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	one, two := child(t, "add", ws), child(t, "add", ws)
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	if err := two.Run(); err != nil {
		t.Fatal(err)
	}
	if err := one.Wait(); err != nil {
		t.Fatal(err)
	}
	all, err := plain(t, storetest.Disk, ws).List(t.Context())
	if err != nil || len(all) != 30 {
		t.Errorf("%d jobs, %v; want 30", len(all), err)
	}
}

// Only one process runs jobs, and others can tell which.
func TestOneOwner(t *testing.T) { storetest.Each(t, testOneOwner) }

func testOneOwner(t *testing.T, open storetest.Open) {
	t.Parallel()
	ws := t.TempDir()
	if pid, running := Owner(t.Context(), stateOf(t, open, ws)); running {
		t.Errorf("owner %d of an empty workspace", pid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	fired := make(chan string, 4)
	scheduler := func() *Scheduler {
		s, err := Open(Options{
			Workspace: ws, State: stateOf(t, open, ws), Location: time.UTC, Notify: func(context.Context, bus.Outbound) error { return nil },
			Submit: func(_ context.Context, in bus.Inbound) error { fired <- in.ID; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := scheduler()
	go func() { done <- first.Run(ctx) }()
	j := add(t, plain(t, open, ws), Draft{Timing: Once(time.Now())}) // seen by watching the file
	select {
	case id := <-fired:
		if !strings.HasPrefix(id, idPrefix+j.ID) {
			t.Errorf("ran %q", id)
		}
	case <-time.After(10 * time.Minute):
		t.Error("a job that another process added did not run")
	}
	if pid, running := Owner(t.Context(), stateOf(t, open, ws)); !running || pid != os.Getpid() {
		t.Errorf("owner %d, %v", pid, running)
	}
	over, end := context.WithCancel(t.Context())
	end() // so that it does not wait
	if err := scheduler().Run(over); err == nil {
		t.Error("two owners")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
