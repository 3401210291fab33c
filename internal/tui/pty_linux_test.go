package tui

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// openPTY makes a pseudo terminal of 60 by 20; it skips where there is none.
func openPTY(t *testing.T) (master, tty *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("unlock pseudo terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 60}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("open pseudo terminal: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	return master, tty
}

func localFlags(t *testing.T, f *os.File) uint32 {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return s.Lflag
}

// The whole way through a real terminal device: raw mode, keys, drawing, the
// reader that can be woken, and the terminal as it was afterwards.
func TestChatOnPTY(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	master, tty := openPTY(t)
	before := localFlags(t, tty)
	v := newVT(60, 20)
	arrived := make(chan struct{}, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			_, _ = v.Write(buf[:n])
			select {
			case arrived <- struct{}{}:
			default:
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	expect := func(want string) {
		t.Helper()
		for !strings.Contains(v.text(t), want) {
			select {
			case <-arrived:
			case <-ctx.Done():
				t.Fatalf("%q did not appear:\n%s", want, v.text(t))
			}
		}
	}
	press := func(s string) {
		t.Helper()
		if _, err := master.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		done <- Chat(ctx, Options{
			Console: Stdio(tty, tty, tty), Getenv: func(string) string { return "" }, Markdown: true,
			Ask: func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
				return func(yield func(bus.Outbound, error) bool) {
					if in.Text == "wait" {
						hang(ctx, in, yield)
						return
					}
					yield(bus.Outbound{Kind: bus.Final, Text: "you said **" + in.Text + "**"}, nil)
				}
			},
		})
	}()
	expect("You: ▮")
	if localFlags(t, tty)&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Error("terminal is not in raw mode")
	}
	press("你好\r")
	expect("you said 你好\n\nYou: ▮")
	press("wait\r")
	expect("thinking")
	press("\x03")
	expect("! stopped\n\nYou: ▮")
	press("\x04")
	if err := <-done; err != nil {
		t.Errorf("Chat = %v, want nil", err)
	}
	if got := localFlags(t, tty); got != before {
		t.Errorf("terminal flags %x afterwards, %x before", got, before)
	}
	tty.Close()
	master.Close()
	<-drained
}
