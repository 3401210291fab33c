package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// terminal runs a command on a pseudo terminal of 80 by 24. The lines of the
// file say what happens there:
//
//	expect RE     wait until what was drawn since the last expect matches
//	send TEXT     type, with Go escapes: \r is Enter, \x03 Ctrl-C, \x04 Ctrl-D
//
// All that was drawn becomes the standard output of the script's command. The
// command must end by itself, with exit code 0 or the one after "exit".
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal FILE command [args...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	master, tty, err := openPTY()
	ts.Check(err)
	defer master.Close()
	cmd := scriptCommand(ctx, ts, args[1:])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = tty.Close() // the command has its own
	ts.Check(err)
	scr := &drawn{changed: make(chan struct{}, 1)}
	drained := make(chan struct{})
	go func() { // ends with EIO when the command has closed the terminal
		defer close(drained)
		_, _ = io.Copy(scr, master)
	}()
	code, failed := 0, error(nil)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		verb, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		if verb == "exit" {
			code, failed = strconv.Atoi(rest)
		} else {
			failed = scr.step(ctx, master, verb, rest, drained)
		}
		if failed != nil {
			break
		}
	}
	if failed != nil {
		cancel() // kills it
	}
	err = cmd.Wait()
	<-drained
	_, _ = io.WriteString(ts.Stdout(), scr.String())
	if failed != nil {
		ts.Fatalf("%v\n%q", failed, scr)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		ts.Fatalf("exit code %d (%v), want %d\n%q", got, err, code, scr)
	}
}

// drawn is what a command wrote to its terminal.
type drawn struct {
	changed chan struct{} // one pending wake-up is enough

	mu   sync.Mutex
	buf  bytes.Buffer
	seen int // up to where expect has matched
}

func (d *drawn) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buf.Write(p)
	select {
	case d.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (d *drawn) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.buf.String()
}

func (d *drawn) step(ctx context.Context, w io.Writer, verb, rest string, ended <-chan struct{}) error {
	switch verb {
	case "", "#":
		return nil
	case "send":
		keys, err := strconv.Unquote(`"` + rest + `"`)
		if err != nil {
			return fmt.Errorf("send %s: %w", rest, err)
		}
		_, err = io.WriteString(w, keys)
		return err
	case "expect":
		re, err := regexp.Compile(rest)
		if err != nil {
			return err
		}
		return d.expect(ctx, re, ended)
	}
	return fmt.Errorf("unknown line %q", verb)
}

func (d *drawn) expect(ctx context.Context, re *regexp.Regexp, ended <-chan struct{}) error {
	for {
		d.mu.Lock()
		at := re.FindIndex(d.buf.Bytes()[d.seen:])
		if at != nil {
			d.seen += at[1]
		}
		d.mu.Unlock()
		if at != nil {
			return nil
		}
		select {
		case <-d.changed:
		case <-ended:
			select {
			case <-d.changed: // look once more
			default:
				return fmt.Errorf("it ended before %q", re)
			}
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %q", re)
		}
	}
}

func openPTY() (master, tty *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close() // useless now
		return nil, nil, err
	}
	return master, tty, nil
}

// terminals reports whether there are pseudo terminals here.
func terminals() bool {
	master, tty, err := openPTY()
	if err != nil {
		return false
	}
	_, _ = master.Close(), tty.Close()
	return true
}
