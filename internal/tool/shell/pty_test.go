//go:build unix

package shell_test

import (
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

const long = 60_000 // milliseconds, for a machine that is slow

func TestTerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	terminalWorks(d)
}

// terminalWorks talks to programs on a terminal.
func terminalWorks(d *desk) {
	d.t.Helper()
	id := d.startPTY(`test -t 0 && test -t 1 && test -t 2 && echo 'all ''three'; stty size; exec cat`)
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "wait_for": "40 120", "wait_timeout_ms": long}), "", "all three\n40 120\n")

	// Ctrl-D at the start of a line is the end of the input.
	r := d.call("a", "write_stdin", args{"session_id": id, "chars": "one\n", "wait_for": "one\none", "wait_timeout_ms": long})
	d.expect(r, "", "one\none")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "close_stdin": true, "yield_time_ms": 30000}), "", "Exit code: 0")

	// Ctrl-C reaches the program in front, and a trap in the shell runs.
	id = d.startPTY(`trap 'echo interrupted; exit 7' INT; echo wait''ing; while :; do sleep 0.05; done`)
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "wait_for": "waiting", "wait_timeout_ms": long}), "", "waiting")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "\x03", "yield_time_ms": 30000}), "", "interrupted", "Exit code: 7")

	// Programs open the terminal by name, and do not echo a password.
	id = d.startPTY(`exec 3</dev/tty; stty -echo; printf 'Pass''word: ' >/dev/tty; read -r p <&3; stty echo; echo "has ${#p} characters"`)
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "wait_for": "Password: ", "wait_timeout_ms": long}), "", "Password: ")
	r = d.call("a", "write_stdin", args{"session_id": id, "chars": "geheim\n", "yield_time_ms": 30000})
	d.expect(r, "", "has 6 characters", "Exit code: 0")
	if strings.Contains(r.Content.Text, "geheim") {
		d.t.Errorf("the password was echoed: %q", r.Content.Text)
	}

	// An interactive shell has jobs.
	id = d.startPTY(`PS1='% ' bash --norc --noprofile -i`)
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "wait_for": "% ", "wait_timeout_ms": long}), "", "% ")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "sh -c 'echo in f\"\"ront; exec sleep 300'\n", "wait_for": "in front", "wait_timeout_ms": long}), "", "in front")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "\x1a", "wait_for": "Stopped", "wait_timeout_ms": long}), "", "Stopped")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "exit 5\n", "wait_for": "stopped jobs", "wait_timeout_ms": long}), "", "stopped jobs")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "exit 5\n", "yield_time_ms": 30000}), "", "Exit code: 5")
}

// What a program draws becomes text.
func TestTerminalText(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	id := d.startPTY(`printf '\033[1;31mred\033[0m\033]0;title\007 ti'; printf '\033]8;;http://x/\033\\link\033(B\n10%%\r20%%\nbell\007 end\n'; cat`)
	r := d.call("a", "write_stdin", args{"session_id": id, "wait_for": "end", "wait_timeout_ms": long})
	d.expect(r, "", "red tilink\n10%\n20%\nbell end")
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
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "wait_for": "never", "wait_timeout_ms": 50}), "", "did not appear", "running")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "it\n", "yield_time_ms": 30000}), "", "got it", "Exit code: 0")
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
