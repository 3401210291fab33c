package undo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

const roleEnv = "NANOBOT_UNDO_TEST_ROLE"

// child starts this test binary again in one of the roles of TestChild.
func child(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), roleEnv+"="+role+"|"+dir)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // open until the child ends
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewReader(out)
}

// TestChild is not a test but what the other process does.
func TestChild(t *testing.T) {
	role, dir, ok := strings.Cut(os.Getenv(roleEnv), "|")
	if !ok {
		t.Skip("only runs as another process")
	}
	b := openIn(t, dir)
	hold := func() {
		fmt.Fprintln(os.Stdout, "holding")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	call := func(id string, path string) tool.Call {
		raw, _ := json.Marshal(map[string]string{"path": path})
		return tool.Call{ID: id, TurnID: "t-" + role, SessionKey: "cli:" + role, Input: raw}
	}
	switch role {
	case "edit": // is killed between the snapshot and the end of the change
		must(t, b.Before(t.Context(), writeTool(), call("1", "a.txt")))
		b.write("a.txt", "half")
		hold()
	case "command":
		must(t, b.Before(t.Context(), execTool(), call("1", "")))
		b.remove("dir")
		b.write("made.txt", "made")
		hold()
	case "snapshot": // is killed at any moment of taking snapshots
		fmt.Fprintln(os.Stdout, "holding")
		for i := range 1_000_000 {
			c := call(fmt.Sprint(i), fmt.Sprintf("f%d.txt", i%20))
			c.TurnID = fmt.Sprint("t", i/50)
			must(t, b.Before(t.Context(), writeTool(), c))
			b.write(fmt.Sprintf("f%d.txt", i%20), strings.Repeat(fmt.Sprint(i), 1000))
			b.after(c)
		}
	default: // two processes that share a workspace
		for i := range 15 {
			name := fmt.Sprintf("%s-%d.txt", role, i%3)
			c := call(fmt.Sprint(i), name)
			must(t, b.Before(t.Context(), writeTool(), c))
			b.write(name, fmt.Sprint(role, i))
			b.after(c)
		}
	}
}

// started waits until the child is in the middle of its work.
func started(t *testing.T, out *bufio.Reader) {
	t.Helper()
	if line, err := out.ReadString('\n'); line != "holding\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

// The old content outlives the death of the process that was changing it.
func TestKilledDuringChange(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"edit", "command"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := openIn(t, dir)
			b.write("a.txt", "whole\n")
			b.write("dir/x/y.txt", "y")
			before := listing(t, b.ws)
			cmd, out := child(t, role, dir)
			started(t, out)
			if role == "command" {
				if turn, err := b.Last(t.Context(), ""); err != nil || !turn.Running {
					t.Errorf("while it runs: %+v, %v; want it running", turn, err)
				}
				if _, err := b.Undo(t.Context(), "t-command", Choice{}); err == nil {
					t.Error("a running turn was undone")
				}
			}
			kill(t, cmd)
			last, err := b.Last(t.Context(), "cli:"+role)
			must(t, err)
			if last.Running || last.Interrupted != (role == "command") {
				t.Errorf("turn = %+v", last)
			}
			b.undo(last.ID, false)
			b.want(before)
		})
	}
}

// A process killed at a random moment leaves a log whose every turn can be undone.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openIn(t, dir)
	for range 6 {
		cmd, out := child(t, "snapshot", dir)
		started(t, out)
		for { // long enough that something was written, and no clock involved
			info, err := os.Stat(filepath.Join(b.Dir, "log"))
			if err == nil && info.Size() > b.logSize()+50_000 {
				break
			}
		}
		kill(t, cmd)
		turns, err := b.Turns(t.Context(), "")
		must(t, err)
		if len(turns) == 0 {
			t.Fatal("no turn survived")
		}
		for hash := range b.log.model.blobs {
			if _, err := b.log.content(hash); err != nil {
				t.Fatalf("content %s: %v", hash, err)
			}
		}
		for _, turn := range turns[:min(3, len(turns))] {
			if r := b.undo(turn.ID, true); len(r.Skipped) > 0 {
				t.Fatalf("undo of %s: %+v", turn.ID, r)
			}
		}
	}
}

func (b *bench) logSize() int64 {
	if b.log.f == nil {
		return 0
	}
	return b.log.size
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openIn(t, dir)
	var cmds []*exec.Cmd
	for _, role := range []string{"one", "two"} {
		cmd, out := child(t, role, dir)
		cmds = append(cmds, cmd)
		go func() { _, _ = io.Copy(io.Discard, out) }()
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "file already closed") {
			t.Error(err)
		}
	}
	for _, role := range []string{"one", "two"} {
		if r := b.undo("t-"+role, false); len(r.Deleted) != 3 || len(r.Skipped) > 0 {
			t.Errorf("%s: %+v", role, r)
		}
	}
	b.want(map[string]string{})
}
