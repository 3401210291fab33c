package shell_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// turnDesk is a desk in the real sandbox, whose calls belong to turns.
func turnDesk(t *testing.T, change func(*shell.Confined)) (d *desk, workspace string) {
	t.Helper()
	box, err := sandbox.Open(t.Context(), sandbox.Options{})
	if err != nil || !box.Level().Freeze {
		t.Skipf("this machine has no sandbox that can freeze: %v", err)
	}
	workspace = t.TempDir()
	return newDesk(t, shell.Options{
		Workspace: workspace,
		Sandboxed: true,
		Environ:   []string{"PATH=" + os.Getenv("PATH")},
		Wrap: func(_ tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
			freeze, cleanup, err := box.WrapFreezable(cmd, sandbox.Profile{Workspace: workspace})
			held := shell.Confined{Freeze: freeze, Release: cleanup}
			if change != nil {
				change(&held)
			}
			return held, err
		},
	}), workspace
}

// writer answers each line with what became of its writes.
const writer = `while read -r n; do
	{ echo $n > file-$n; } 2>/dev/null && a=wrote || a=denied
	{ echo $n > /tmp/file; } 2>/dev/null && b=wrote || b=denied
	echo "$n: $a $b"
done`

const readOnlyRemark = "the workspace is read-only for it"

// TestTurnEnds starts a command in one turn and talks to it in two later ones.
func TestTurnEnds(t *testing.T) {
	t.Parallel()
	d, ws := turnDesk(t, nil)
	first := &tool.Turn{}
	d.turn = first
	id := d.start("a", writer)
	ask := func(n string) string {
		return d.call("a", "write_stdin", args{"session_id": id, "chars": n + "\n", "wait_for": n + ": "}).Content.Text
	}
	if got := ask("1"); !strings.Contains(got, "1: wrote wrote") || strings.Contains(got, readOnlyRemark) {
		t.Errorf("in its turn: %s", got)
	}
	first.End()
	d.turn = &tool.Turn{}
	if got := ask("2"); !strings.Contains(got, "2: denied wrote") || strings.Count(got, readOnlyRemark) != 1 {
		t.Errorf("in the next turn: %s", got)
	}
	if got := ask("3"); !strings.Contains(got, "3: denied wrote") || strings.Contains(got, readOnlyRemark) {
		t.Errorf("said again: %s", got)
	}
	d.turn.End()
	d.turn = &tool.Turn{}
	if got := ask("4"); !strings.Contains(got, "4: denied wrote") {
		t.Errorf("in the third turn: %s", got)
	}
	files, err := filepath.Glob(filepath.Join(ws, "file-*"))
	if err != nil || len(files) != 1 {
		t.Errorf("got %v, %v", files, err)
	}

	// Started again it may write, until that turn ends.
	id = d.start("a", writer)
	if got := ask("5"); !strings.Contains(got, "5: wrote wrote") {
		t.Errorf("started again: %s", got)
	}
}

// TestTurnEndsWriters checks commands that cannot be frozen.
func TestTurnEndsWriters(t *testing.T) {
	t.Parallel()
	d, _ := turnDesk(t, nil)
	d.turn = &tool.Turn{}
	busy := d.start("a", "exec 3>open; read x; echo opened; exec sleep 600")
	d.expect(d.call("a", "write_stdin", args{"session_id": busy, "chars": "\n", "wait_for": "opened"}), "", "running")
	other := d.start("a", "read x; echo here; exec sleep 600")
	d.turn.End()
	d.turn = &tool.Turn{}
	d.expect(d.call("a", "write_stdin", args{"session_id": busy, "yield_time_ms": 0}), tool.DeniedPolicy,
		"it still wrote to the workspace after its turn")
	d.expect(d.call("a", "write_stdin", args{"session_id": other, "chars": "\n", "wait_for": "here"}), "", "running", readOnlyRemark)
}

// TestTurnEndsBrief checks a sandbox that cannot freeze.
func TestTurnEndsBrief(t *testing.T) {
	t.Parallel()
	d, _ := turnDesk(t, func(c *shell.Confined) { c.Brief = true })
	d.turn = &tool.Turn{}
	r := d.call("a", "exec", args{"command": "echo here; exec sleep 600", "yield_time_ms": 0})
	d.expect(r, "", "It will be ended when this turn ends")
	id := d.begin("a", "exec sleep 600")
	d.turn.End()
	if d.sh.Busy("a") {
		t.Error("a command is still running")
	}
	d.expect(d.call("a", "write_stdin", args{"session_id": id}), tool.DeniedPolicy, "its turn is over")
}

// TestTurnEndsUnconfined checks that nothing happens to a command without a
// sandbox.
func TestTurnEndsUnconfined(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shell.Options{})
	d.turn = &tool.Turn{}
	id := d.start("a", writer)
	d.turn.End()
	r := d.call("a", "write_stdin", args{"session_id": id, "chars": "1\n", "wait_for": "1: "})
	d.expect(r, "", "1: wrote wrote")
	if strings.Contains(r.Content.Text, readOnlyRemark) {
		t.Errorf("got %s", r.Content.Text)
	}
}

// TestTerminalInSandbox checks that a terminal is one inside of the sandbox, too,
// and that a command on one loses its write access with its turn.
func TestTerminalInSandbox(t *testing.T) {
	t.Parallel()
	d, _ := turnDesk(t, nil)
	terminalWorks(d)

	d.turn = &tool.Turn{}
	id := d.startPTY("read -r go; tty; stty -echo; echo ready; " + writer)
	if got := d.keys(id, "\n", "ready\n"); !strings.Contains(got, "/dev/console\nready\n") {
		t.Errorf("its name: %q", got)
	}
	d.keys(id, "1\n", "1: wrote wrote\n")
	d.turn.End()
	d.turn = &tool.Turn{}
	if got := d.keys(id, "2\n", "2: denied wrote\n"); !strings.Contains(got, readOnlyRemark) {
		t.Errorf("in the next turn: %q", got)
	}
}
