package sandbox_test

import (
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TestTerminal gives a command a terminal of the machine, in each sandbox.
func TestTerminal(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		ours, theirs, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		// Without noflsh the kernel drops, after it has sent the signal, what was
		// printed until then, which may be the answer to the signal already.
		cmd := b.command(t.Context(), `stty noflsh; test -t 0 && test -t 2 && echo is one; echo by name >/dev/tty; tty || echo without a name; trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done`)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
		cleanup, err := b.Wrap(cmd, b.profile())
		if err != nil {
			t.Fatal(err)
		}
		defer cleanup()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = theirs.Close()

		var all strings.Builder
		buf := make([]byte, 1024)
		for typed := false; ; {
			n, err := ours.Read(buf)
			all.Write(buf[:n])
			if !typed && strings.Contains(all.String(), "ready") {
				typed = true
				if _, err := io.WriteString(ours, "\x03"); err != nil {
					t.Error(err)
				}
			}
			if err != nil { // the last holder has closed it
				break
			}
		}
		_ = cmd.Wait()
		got := strings.ReplaceAll(all.String(), "\r\n", "\n")
		if !strings.HasPrefix(got, "is one\nby name\n") || !strings.HasSuffix(got, "interrupted\n") || cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("got %q and code %d", got, cmd.ProcessState.ExitCode())
		}
		if named := strings.Contains(got, "/dev/console\n") || strings.Contains(got, "/dev/pts/"); !named {
			t.Errorf("it has no name: %q", got)
		}
	})
}
