//go:build unix

package shell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// desk calls the tools of one shell for several owners.
type desk struct {
	t   *testing.T
	sh  *shell.Shell
	set *tool.Set

	tainted bool // the turn whose calls are made
	turn    *tool.Turn
}

func newDesk(t *testing.T, o shell.Options) *desk {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute // of a test, on a machine that is slow
	}
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	sh := newShell(t, o)
	set, err := tool.NewSet(sh.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t: t, sh: sh, set: set}
}

type args map[string]any

func (d *desk) call(owner, name string, a args) tool.Result {
	d.t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		d.t.Fatal(err)
	}
	tl, raw, bad := d.set.Prepare(name, string(b))
	if bad != nil {
		return *bad
	}
	r, err := tl.Run(d.t.Context(), tool.Call{Input: raw, SessionKey: owner, Tainted: d.tainted, Turn: d.turn})
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// start begins a session and returns its id.
func (d *desk) start(owner, command string) string {
	d.t.Helper()
	return d.sessionOf(d.call(owner, "exec", args{"command": command, "yield_time_ms": 0}))
}

// begin starts a session whose shell runs when it returns. The shell waits to be
// asked: start may hand its first word over, and nobody would wait for it then.
func (d *desk) begin(owner, command string) string {
	d.t.Helper()
	id := d.start(owner, "read x; echo begun; "+command)
	d.expect(d.call(owner, "write_stdin", args{"session_id": id, "chars": "\n", "wait_for": "begun", "wait_timeout_ms": 60000}), "", "begun", "running")
	return id
}

// sessionOf is the id of the session that a call left running.
func (d *desk) sessionOf(r tool.Result) string {
	d.t.Helper()
	m := regexp.MustCompile(`session_id ([0-9a-f]{12}),`).FindStringSubmatch(r.Content.Text)
	if m == nil {
		d.t.Fatalf("no session: %q", r.Content.Text)
	}
	return m[1]
}

func (d *desk) expect(r tool.Result, code tool.Code, parts ...string) {
	d.t.Helper()
	if r.Code != code {
		d.t.Errorf("code = %q, want %q: %s", r.Code, code, r.Content.Text)
	}
	for _, p := range parts {
		if !strings.Contains(r.Content.Text, p) {
			d.t.Errorf("%q does not contain %q", r.Content.Text, p)
		}
	}
}

func TestSessionLife(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	id := d.sessionOf(d.call("a", "exec", args{"command": "read line; echo $line world; read line; echo got $line; read line; exit 3", "yield_time_ms": 0, "timeout": 300}))
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "hello\n", "wait_for": "world", "wait_timeout_ms": 60000}), "", "hello world", "running, session_id "+id, "s so far", "s left")
	r := d.call("a", "write_stdin", args{"session_id": id, "chars": "one\n", "wait_for": "got one", "wait_timeout_ms": 60000})
	d.expect(r, "", "got one")
	if strings.Contains(r.Content.Text, "hello") {
		t.Errorf("%q shows what was shown before", r.Content.Text)
	}
	d.expect(d.call("a", "list_exec_sessions", args{}), "", id+" running", "idle 0 s", "s left", "read line; echo $line world")
	r = d.call("a", "write_stdin", args{"session_id": id, "close_stdin": true, "yield_time_ms": 30000})
	d.expect(r, "", "Exit code: 3", "ended after")
	d.expect(d.call("a", "write_stdin", args{"session_id": id}), tool.NotFound, "list_exec_sessions")
	d.expect(d.call("a", "list_exec_sessions", args{}), "", "No commands")
}

func TestSessionThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	r := d.call("a", "exec", args{"command": "echo out; echo err >&2; exit 4", "yield_time_ms": 30000})
	d.expect(r, "", "out\nSTDERR:\nerr\n\nExit code: 4\n[ended after ")
	d.expect(d.call("a", "list_exec_sessions", args{}), "", "No commands")
}

func TestSessionsBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	id := d.start("a", "read x")
	for name, a := range map[string]args{
		"read": {"session_id": id}, "type": {"session_id": id, "chars": "x\n"}, "terminate": {"session_id": id, "terminate": true},
	} {
		if r := d.call("b", "write_stdin", a); r.Code != tool.NotFound {
			t.Errorf("%s: code = %q, want %q", name, r.Code, tool.NotFound)
		}
	}
	d.expect(d.call("b", "list_exec_sessions", args{}), "", "No commands")
	d.expect(d.call("a", "list_exec_sessions", args{}), "", id+" running")
}

func TestSessionLimits(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	for range 4 {
		d.start("a", "read x")
	}
	d.expect(d.call("a", "exec", args{"command": "touch pwn", "yield_time_ms": 0}), tool.Conflict, "too many", "not run")
	for range 3 {
		d.start("b", "read x")
	}
	last := d.start("c", "read x")
	d.expect(d.call("c", "exec", args{"command": "read x", "yield_time_ms": 0}), tool.Conflict, "too many")
	// A place is free again when one has ended, read or not.
	d.call("c", "write_stdin", args{"session_id": last, "terminate": true})
	next := d.start("c", "exit 0")
	d.call("b", "list_exec_sessions", args{})
	d.call("c", "write_stdin", args{"session_id": next, "yield_time_ms": 30000})
	d.start("c", "read x")
}

func TestEndedSessionMakesRoom(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	d := newDesk(t, shell.Options{Workspace: ws})
	var ids []string
	for range 4 {
		ids = append(ids, d.start("a", "read x; echo $x > done"))
	}
	// End one without reading it; the list says when it is over.
	d.call("a", "write_stdin", args{"session_id": ids[1], "chars": "x\n", "yield_time_ms": 0})
	for {
		got := d.call("a", "list_exec_sessions", args{}).Content.Text
		if strings.Contains(got, "exited with code 0") {
			break
		}
		if !strings.Contains(got, ids[1]) {
			t.Skip("it ended so quickly that the call above saw it")
		}
		runtime.Gosched()
	}
	fresh := d.start("a", "read x")
	got := d.call("a", "list_exec_sessions", args{}).Content.Text
	if strings.Contains(got, ids[1]) || !strings.Contains(got, fresh) || !strings.Contains(got, ids[0]) {
		t.Errorf("list = %q, want %s to have made room for %s", got, ids[1], fresh)
	}
}

func TestSessionTerminate(t *testing.T) {
	t.Parallel()
	n := unusual(t, 200)
	d := newDesk(t, shell.Options{})
	id := d.begin("a", "setsid sleep "+n+" & sleep "+n)
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "terminate": true}), "", "terminated after")
	noSleepers(t, n)
}

// The timeout of a call acts although nobody looks. How long a shell takes to say
// its first word is up to the machine: where that was too long, it gets more time.
func TestSessionTimeout(t *testing.T) {
	t.Parallel()
	n := unusual(t, 201)
	for timeout := 1; ; timeout *= 2 {
		d := newDesk(t, shell.Options{})
		id := d.sessionOf(d.call("a", "exec", args{"command": "echo begun; sleep " + n, "yield_time_ms": 0, "timeout": timeout}))
		r := d.call("a", "write_stdin", args{"session_id": id, "yield_time_ms": 30000})
		if !strings.Contains(r.Content.Text, "begun") && timeout < 20 {
			continue
		}
		d.expect(r, tool.TimedOut, "begun", "timeout was reached")
		if !r.MayHaveRun {
			t.Error("MayHaveRun is false")
		}
		break
	}
	noSleepers(t, n)
}

func TestStopEndsTheOwnersSessions(t *testing.T) {
	t.Parallel()
	n := unusual(t, 202)
	d := newDesk(t, shell.Options{})
	a, b := d.start("a", "sleep "+n), d.start("b", "read x")
	d.start("a", "trap '' TERM; while :; do sleep "+n+"; done") // has to be killed
	begin := time.Now()
	d.sh.Stop("a")
	if took := time.Since(begin); took > 5*time.Minute {
		t.Errorf("Stop took %v", took)
	}
	noSleepers(t, n)
	d.expect(d.call("a", "write_stdin", args{"session_id": a}), tool.NotFound)
	d.expect(d.call("b", "write_stdin", args{"session_id": b, "yield_time_ms": 0}), "", "running")
	d.start("a", "read x") // the owner can go on
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	n := unusual(t, 203)
	d := newDesk(t, shell.Options{})
	for _, owner := range []string{"a", "b", "c"} {
		d.start(owner, "echo begun; sleep "+n)
	}
	if err := d.sh.Close(); err != nil {
		t.Fatal(err)
	}
	noSleepers(t, n)
	d.expect(d.call("a", "exec", args{"command": "touch pwn", "yield_time_ms": 0}), tool.Conflict, "shutting down")
}

func TestSessionWaitFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	// Pieces that arrive one by one, with the border inside the text. No call may
	// hand over a piece that a later call waits for, so a file releases the second.
	release := filepath.Join(t.TempDir(), "release")
	id := d.start("a", `read x; printf 'server re'; until [ -e `+release+` ]; do sleep 0.05; done; printf 'ady\n'; read x; printf '\342'; read x; printf '\202\254 paid\n'; read x`)
	first := d.call("a", "write_stdin", args{"session_id": id, "chars": "\n", "wait_for": "server re", "wait_timeout_ms": 60000})
	if strings.Contains(first.Content.Text, "did not appear") {
		t.Errorf("got %q", first.Content.Text)
	}
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "wait_for": "nowhere", "wait_timeout_ms": 1}), "", `"nowhere" did not appear within 1ms`, "running")
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The first half was handed over by an earlier call.
	r := d.call("a", "write_stdin", args{"session_id": id, "wait_for": "ready", "wait_timeout_ms": 60000})
	if strings.Contains(r.Content.Text, "did not appear") {
		t.Errorf("got %q", r.Content.Text)
	}
	// A character in two pieces.
	d.call("a", "write_stdin", args{"session_id": id, "chars": "\n", "yield_time_ms": 50})
	all := d.call("a", "write_stdin", args{"session_id": id, "chars": "\n", "wait_for": " paid", "wait_timeout_ms": 60000}).Content.Text
	if strings.ContainsRune(all, utf8.RuneError) || !strings.Contains(all, "€ paid") {
		t.Errorf("got %q, want the character whole", all)
	}
	// The command ends while its text is awaited.
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "close_stdin": true, "wait_for": "more", "wait_timeout_ms": 60000}), "", "did not appear", "Exit code: 1")
}

func TestSessionOutputIsBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	id := d.start("a", "read x; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; read x")
	r := d.call("a", "write_stdin", args{"session_id": id, "chars": "\n", "wait_for": "end", "wait_timeout_ms": 60000, "max_output_chars": 2000})
	if n := len(r.Content.Text); n < 1900 || n > 2200 || !strings.Contains(r.Content.Text, "characters cut") {
		t.Errorf("result has %d bytes: %.80q", n, r.Content.Text)
	}
	for _, bad := range []int{0, 999, 50001} {
		if r := d.call("a", "write_stdin", args{"session_id": id, "max_output_chars": bad}); r.Code != tool.InvalidArgs {
			t.Errorf("max_output_chars %d: %q", bad, r.Code)
		}
	}
}

// What is typed into a shell is judged like a command; what is typed into
// another program is its own business.
func TestTypingIntoAShell(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	d := newDesk(t, shell.Options{Workspace: ws, Restrict: true})
	for _, c := range []string{"bash", "env sh -s", "cat /dev/null; exec bash -x"} {
		id := d.start("a", c)
		d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "touch pwn; rm -rf x\n"}), tool.DeniedPolicy, "-r and -f")
		d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "touch pwn; cat /etc/hosts\n"}), tool.DeniedPolicy, "outside")
		d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "touch pwn # \u202e\n"}), tool.InvalidArgs)
		d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "echo fi''ne\n", "wait_for": "fine", "wait_timeout_ms": 60000}), "", "fine")
		d.call("a", "write_stdin", args{"session_id": id, "terminate": true})
	}
	if _, err := os.Stat(filepath.Join(ws, "pwn")); err == nil {
		t.Error("a refused line ran")
	}
	id := d.start("a", "cat")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "rm -rf x\n", "wait_for": "rf x", "wait_timeout_ms": 60000}), "", "rm -rf x")
}

func TestStdinThatNobodyReads(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	id := d.begin("a", "sleep 300")
	big := strings.Repeat("x", 64<<10)
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": big, "yield_time_ms": 0}), "", "running") // the pipe takes it
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": big}), tool.Conflict, "does not read", "0 of 65536")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": big + "x"}), tool.InvalidArgs, "65537")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "close_stdin": true, "yield_time_ms": 0}), "", "running")
	d.expect(d.call("a", "write_stdin", args{"session_id": id, "chars": "x"}), tool.Conflict, "closed")
}

func TestSessionsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			owner := fmt.Sprint("owner", i)
			b, _ := json.Marshal(args{"command": "read x; echo answer $x", "yield_time_ms": 0})
			r, err := d.sh.Tools()[0].Run(t.Context(), tool.Call{Input: b, SessionKey: owner})
			if err != nil || r.IsError {
				t.Errorf("%s: %v %s", owner, err, r.Content.Text)
				return
			}
			d.sh.Tools()[2].Run(t.Context(), tool.Call{Input: []byte("{}"), SessionKey: owner})
			d.sh.Stop(owner)
		})
	}
	wg.Wait()
}

func TestShellParameter(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{Environ: []string{"HOME=/nonexistent", "PATH=/usr/bin:/bin"}})
	d.expect(d.call("a", "exec", args{"command": "echo ${BASH_VERSION:-none}", "shell": "bash"}), "", ".", "Exit code: 0")
	d.expect(d.call("a", "exec", args{"command": "echo $0", "shell": "sh"}), "", "/sh\n")
	d.expect(d.call("a", "exec", args{"command": "echo $0", "shell": "/bin/sh"}), "", "/bin/sh\n")
	d.expect(d.call("a", "exec", args{"command": "shopt -q login_shell && echo login; echo $HOME", "login": true}), "", "login")
	if r := d.call("a", "exec", args{"command": "echo $HOME", "login": true}); strings.Contains(r.Content.Text, "/nonexistent") {
		t.Errorf("a login shell reads the profile of the user: %q", r.Content.Text)
	}
	for _, bad := range []string{"fish", "python3", "/tmp/bash", "./bash", "../bin/sh", "bash -l"} {
		d.expect(d.call("a", "exec", args{"command": "touch pwn", "shell": bad}), tool.InvalidArgs, "shell")
	}
	if _, err := exec.LookPath("zsh"); err == nil {
		d.expect(d.call("a", "exec", args{"command": "echo ${ZSH_VERSION:-none}", "shell": "zsh"}), "", ".")
	}
	r := d.call("a", "exec", args{"command": "head -c 30000 /dev/zero | tr '\\0' x", "max_output_tokens": 20000})
	if n := len(r.Content.Text); n < 20000 || n > 20200 {
		t.Errorf("result has %d bytes, want about 20000", n)
	}
}

// What a command prints comes from outside unless its sandbox says otherwise; no
// name of a program decides.
func TestOutputIsUntrusted(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	if r := d.call("a", "exec", args{"command": "echo hi"}); !r.Untrusted {
		t.Error("without a sandbox: trusted")
	}

	var outside, tainted atomic.Bool
	d = newDesk(t, shell.Options{Wrap: func(tool.Call, *exec.Cmd) (shell.Confined, error) {
		return shell.Confined{Outside: func() bool { return outside.Load() || tainted.Load() }, Taint: func() { tainted.Store(true) }}, nil
	}})
	if r := d.call("a", "exec", args{"command": "curl -s http://127.0.0.1:1/; echo hi"}); r.Untrusted {
		t.Error("a command that reached nothing: untrusted")
	}
	outside.Store(true)
	if r := d.call("a", "exec", args{"command": "echo hi"}); !r.Untrusted {
		t.Error("a command that brought something in: trusted")
	}

	outside.Store(false)
	id := d.start("a", "cat")
	if r := d.call("a", "write_stdin", args{"session_id": id, "yield_time_ms": 0}); r.Untrusted {
		t.Error("a session: untrusted")
	}
	d.call("a", "write_stdin", args{"session_id": id, "chars": "owner\n"})
	if tainted.Load() {
		t.Error("a clean turn tainted a session")
	}
	d.tainted = true
	if r := d.call("a", "write_stdin", args{"session_id": id, "chars": "page\n", "wait_for": "page", "wait_timeout_ms": 60000}); !r.Untrusted {
		t.Error("what a tainted turn typed comes back trusted")
	}
	d.call("a", "write_stdin", args{"session_id": id, "terminate": true})
}
