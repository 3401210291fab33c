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

// watchPTY reads what is drawn, waits for texts and presses keys.
func watchPTY(t *testing.T, master *os.File) (expect, press func(string), drained chan struct{}) {
	t.Helper()
	v := newVT(60, 20)
	arrived := make(chan struct{}, 1)
	drained = make(chan struct{})
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	expect = func(want string) {
		t.Helper()
		for !strings.Contains(v.text(t), want) {
			select {
			case <-arrived:
			case <-ctx.Done():
				t.Fatalf("%q did not appear:\n%s", want, v.text(t))
			}
		}
	}
	press = func(s string) {
		t.Helper()
		if _, err := master.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	return expect, press, drained
}

// The whole way through a real terminal device: raw mode, keys, drawing, the
// reader that can be woken, and the terminal as it was afterwards.
func TestChatOnPTY(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	master, tty := openPTY(t)
	before := localFlags(t, tty)
	expect, press, drained := watchPTY(t, master)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
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

// What waits in the terminal when a question is drawn does not answer it; what
// is typed when it can be read does.
func TestAnswerOnPTY(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	master, tty := openPTY(t)
	expect, press, drained := watchPTY(t, master)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	show, settled := make(chan struct{}), make(chan struct{})
	got := make(chan bus.Inbound, 8)
	done := make(chan error, 1)
	go func() {
		done <- Chat(ctx, Options{
			Console: Stdio(tty, tty, tty), Getenv: func(string) string { return "" },
			Ask: func(_ context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
				return func(yield func(bus.Outbound, error) bool) {
					if in.Text != "go" {
						got <- in
						return
					}
					<-show
					yield(bus.Outbound{Kind: bus.Ask, Text: "May I?", Question: &bus.Question{ID: "q1", Options: []string{"yes", "no"}}}, nil)
					<-settled
					yield(bus.Outbound{Kind: bus.Final, Text: "settled"}, nil)
				}
			},
		})
	}()
	expect("You: ▮")
	press("go\r")
	expect("thinking")
	close(show)
	press("yes\ryes") // at the moment when the question is drawn
	if in := <-got; in.Text != "yes" || in.Answer != nil {
		t.Errorf("typed ahead: %+v", in)
	}
	expect("Answer: ▮")
	press("\r")
	press(pasteStart + "yes\r" + pasteEnd)
	expect("pasted text does not answer")
	press("n")
	expect("Answer: n▮")
	press("o")
	expect("Answer: no▮")
	press("\r")
	if in := <-got; in.Answer == nil || in.Answer.QuestionID != "q1" || in.Answer.Option != "no" {
		t.Errorf("the answer: %+v", in)
	}
	close(settled)
	expect("settled")
	expect("yesyes")
	press("\x03\x04")
	if err := <-done; err != nil {
		t.Errorf("Chat = %v, want nil", err)
	}
	tty.Close()
	master.Close()
	<-drained
}
