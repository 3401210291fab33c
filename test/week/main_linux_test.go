package week_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the jobs
	"unsafe"

	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/cli"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// With these variables this program is nanobot with a clock that the test
// moves: the command line of the product, in a process that can be killed.
const (
	clockVariable = "NANOBOT_WEEK_CLOCK"
	stateVariable = "NANOBOT_WEEK_STATE"
)

// leftOver is the exit code of a process that ended with something still open.
const leftOver = 97

func TestMain(m *testing.M) {
	if file := os.Getenv(clockVariable); file != "" {
		os.Exit(nanobot(file)) //nolint:forbidigo // how programs end
	}
	os.Exit(m.Run()) //nolint:forbidigo // how tests end
}

// nanobot is the main function of the product with another clock.
func nanobot(file string) int {
	_ = guard.Harden() // as the product does
	now, err := openClock(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	answered := answerState(ctx)
	before := open()
	code := cli.Main(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Now: now.Now})
	stop()
	<-answered
	signal.Reset()
	left, after := goleak.Find(), open()
	for end := time.Now().Add(10 * time.Minute); (left != nil || after.Files > before.Files+allowance) && time.Now().Before(end); {
		runtime.GC() // locks and folders are given back with what holds them
		left, after = goleak.Find(), open()
	}
	if left != nil || after.Files > before.Files+allowance {
		fmt.Fprintf(os.Stderr, "left open at the end: %q, before: %q\n%v\n", after.Listed, before.Listed, left)
		return leftOver
	}
	return code
}

// allowance is what the runtime opens once and keeps: its poller and random numbers.
const allowance = 3

// state is what a process holds.
type state struct {
	Goroutines, Files int
	Listed            []string
}

func open() state {
	s := state{Goroutines: runtime.NumGoroutine()}
	fds, _ := os.ReadDir("/proc/self/fd") // without it there is nothing to compare
	s.Files = len(fds) - 1                // the folder that is read
	for _, fd := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // it may be gone
		s.Listed = append(s.Listed, to)
	}
	return s
}

// answerState writes what this process holds to a file, on each SIGUSR1.
func answerState(ctx context.Context) (done chan struct{}) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	done = make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-asked:
				b, _ := json.Marshal(open()) // plain
				file := os.Getenv(stateVariable)
				_ = os.WriteFile(file+".new", b, 0o600) // the test waits in vain without
				_ = os.Rename(file+".new", file)
			case <-ctx.Done():
				return
			}
		}
	}()
	return done
}

// clock is a clock that all processes of the week share. It moves by a
// microsecond with each look and else only when the test says so, so that
// nothing depends on how fast the machine is.
type clock struct{ nanos *int64 }

func openClock(file string) (clock, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return clock{}, err
	}
	defer f.Close() // it stays mapped
	mem, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return clock{}, err
	}
	return clock{(*int64)(unsafe.Pointer(&mem[0]))}, nil
}

// newClock makes a clock that shows a moment.
func newClock(t *testing.T, at time.Time) (c clock, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(file, binary.NativeEndian.AppendUint64(nil, uint64(at.UnixNano())), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := openClock(file)
	if err != nil {
		t.Fatal(err)
	}
	return c, file
}

// Now is a moment that no one was told before.
func (c clock) Now() time.Time { return time.Unix(0, atomic.AddInt64(c.nanos, 1000)) }

// read is the moment without moving the clock.
func (c clock) read() time.Time { return time.Unix(0, atomic.LoadInt64(c.nanos)) }

// set moves the clock forward.
func (c clock) set(t *testing.T, to time.Time) {
	t.Helper()
	if late := c.read().Sub(to); late > 0 {
		if late > time.Minute {
			t.Fatalf("the clock cannot go back from %s to %s", c.read(), to)
		}
		return
	}
	atomic.StoreInt64(c.nanos, to.UnixNano())
}
