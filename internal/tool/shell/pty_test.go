//go:build unix

package shell_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// startPTY begins a session on a terminal.
func (d *desk) startPTY(command string) string {
	d.t.Helper()
	r := d.call("a", "exec", args{"command": command, "pty": true, "yield_time_ms": 0})
	return d.sessionOf(r)
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	terminalWorks(d)
}

// keys types into a session and waits for an answer, which must come.
func (d *desk) keys(id, chars, answer string) string {
	d.t.Helper()
	r := d.call("a", "write_stdin", args{"session_id": id, "chars": chars, "wait_for": answer, "wait_timeout_ms": 120_000})
	if r.IsError || strings.Contains(r.Content.Text, "did not appear") {
		d.t.Errorf("%q after %q: %s", answer, chars, r.Content.Text)
	}
	return r.Content.Text
}

// ended types into a session that ends with it.
func (d *desk) ended(id, chars string, code int) string {
	d.t.Helper()
	got := d.keys(id, chars, fmt.Sprintf("the end %d", code))
	for range 20 { // each call waits up to 30 seconds
		if strings.Contains(got, "Exit code: ") {
			break
		}
		got += d.call("a", "write_stdin", args{"session_id": id, "yield_time_ms": 30000}).Content.Text
	}
	if !strings.Contains(got, fmt.Sprintf("Exit code: %d", code)) {
		d.t.Errorf("exit code %d: %s", code, got)
	}
	return got
}

// terminalWorks talks to programs on a terminal. Each waits for Enter before it
// says anything, because the call that starts it may hand over what comes first.
func terminalWorks(d *desk) {
	d.t.Helper()
	id := d.startPTY(`read -r go; test -t 0 && test -t 1 && test -t 2 && echo all three; stty size; cat; echo the "end" 0`)
	if got := d.keys(id, "\n", "40 120\n"); !strings.Contains(got, "all three\n40 120\n") {
		d.t.Errorf("got %q", got)
	}
	d.keys(id, "one\n", "one\none\n") // the echo, and what cat says

	// Ctrl-D at the start of a line is the end of the input.
	d.ended(id, "\x04", 0)
	id = d.startPTY(`read -r go; cat; echo the "end" 0`)
	d.keys(id, "\nx\n", "x\nx\n")
	got := d.call("a", "write_stdin", args{"session_id": id, "close_stdin": true, "wait_for": "the end 0", "wait_timeout_ms": 120_000}).Content.Text
	if strings.Contains(got, "did not appear") {
		d.t.Errorf("close_stdin: %q", got)
	}

	// Ctrl-C reaches the program in front, and a trap in the shell runs. Without
	// noflsh the kernel may drop what the trap prints, because it sends the signal
	// first and then drops what was printed until then. bash waits in wait: where it
	// starts a program again and again, it hangs if the signal hits it between two.
	id = d.startPTY(`read -r go; stty noflsh; trap 'kill $!; echo the "end" 7; exit 7' INT; sleep 300 & echo waiting; wait`)
	d.keys(id, "\n", "waiting\n")
	d.ended(id, "\x03", 7)

	// Programs open the terminal by name, and do not echo a password.
	id = d.startPTY(`read -r go; exec 3</dev/tty; stty -echo; printf 'Password: ' >/dev/tty; read -r p <&3; stty echo; echo "has ${#p} characters"; echo the "end" 0`)
	d.keys(id, "\n", "Password: ")
	if got := d.ended(id, "geheim\n", 0); !strings.Contains(got, "has 6 characters") || strings.Contains(got, "geheim") {
		d.t.Errorf("a password: %q", got)
	}

	// An interactive shell has jobs.
	id = d.startPTY(`read -r go; stty noflsh; PS1='% ' bash --norc --noprofile -i; code=$?; echo the "end" $code; exit $code`)
	d.keys(id, "\n", "% ")
	d.keys(id, "sh -c 'echo in \"front\"; exec sleep 300'\n", "in front\n")
	d.keys(id, "\x1a", "Stopped")
	d.keys(id, "exit 5\n", "stopped jobs")
	d.ended(id, "exit 5\n", 5)
}

// What a program draws becomes text.
func TestTerminalText(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	id := d.startPTY(`read -r go; printf '\033[1;31mred\033[0m\033]0;title\007 ti'; printf '\033]8;;http://x/\033\\link\033(B\n10%%\r20%%\nbell\007 end\n'; cat`)
	if got := d.keys(id, "\n", " end\n"); !strings.Contains(got, "red tilink\n10%\n20%\nbell end\n") {
		t.Errorf("got %q", got)
	}
	d.call("a", "write_stdin", args{"session_id": id, "terminate": true})
}

// A terminal is a session even if the call does not say how long to wait.
func TestTerminalIsASession(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	id := d.sessionOf(d.call("a", "exec", args{"command": "cat", "pty": true}))
	d.expect(d.call("a", "list_exec_sessions", args{}), "", id+" running")
	d.sh.Stop("a")
	d.expect(d.call("a", "list_exec_sessions", args{}), "", "No commands")
}

// The time limit of commands is not that of sessions; one that the call names is.
func TestSessionOutlivesTheTimeout(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{Timeout: time.Millisecond})
	id := d.start("a", "read x; echo got $x")
	d.expect(d.call("a", "list_exec_sessions", args{}), "", "no time limit")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "wait_for": "never", "wait_timeout_ms": 50}), "", "running")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "it\n", "wait_for": "got it", "wait_timeout_ms": 120_000}), "", "got it")
}

// People list the sessions of one conversation, or of all, and stop one.
func TestRunning(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	a, b := d.start("a", "read x; : one"), d.start("b", "read x; : two")
	if got := d.sh.Running("a"); len(got) != 1 || !strings.HasPrefix(got[0], a+" running") || !strings.HasSuffix(got[0], ": one") {
		t.Errorf("of one conversation: %q", got)
	}
	if got := d.sh.Running(""); len(got) != 2 || !strings.HasPrefix(got[1], "b: "+b+" running") {
		t.Errorf("of all: %q", got)
	}
	if d.sh.StopOne("a", b) || !d.sh.StopOne("a", a) || d.sh.StopOne("a", a) || !d.sh.StopOne("", b) {
		t.Error("each conversation stops its own, the owner all")
	}
	if got := d.sh.Running(""); got != nil {
		t.Errorf("still running: %q", got)
	}
}
