package approve_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
)

// An approved script that is replaced before its command starts does not run, and
// while it runs the policy knows which files belong to the approval.
func TestApprovedScriptIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	script := filepath.Join(b.ws, "x.sh")
	put := func(body string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := b.call
	other.ID = "another"

	put("echo one\n")
	if got := b.check(execTool, args{"command": "sh x.sh"}, "session"); got != "allowed asked" {
		t.Fatal(got)
	}
	put("echo two\n")
	if err := b.policy.Begin(b.call); err == nil {
		t.Error("a script that was replaced after the answer runs")
	}
	if b.policy.Runs(other, script) {
		t.Error("a command that did not start holds its script")
	}

	put("echo three\n")
	if got := b.check(execTool, args{"command": "sh x.sh"}, "yes"); got != "allowed asked" {
		t.Fatal(got)
	}
	if err := b.policy.Begin(b.call); err != nil {
		t.Errorf("nothing was changed: %v", err)
	}
	if !b.policy.Runs(other, script) || b.policy.Runs(b.call, script) || b.policy.Runs(other, filepath.Join(b.ws, "y.sh")) {
		t.Error("the script of a running command is not known, or another one is")
	}
	b.policy.Returned(b.call) // it goes on in the background
	if !b.policy.Runs(other, script) {
		t.Error("the script is forgotten while its command runs")
	}
	b.policy.End(b.call, func() bool { return true })
	if b.policy.Runs(other, script) {
		t.Error("the script is held after the end")
	}

	// A call that is over without a command is forgotten.
	if got := b.check(execTool, args{"command": "sh x.sh"}, "yes"); got != "allowed asked" {
		t.Fatal(got)
	}
	b.policy.Returned(b.call)
	put("echo four\n")
	if err := b.policy.Begin(b.call); err != nil {
		t.Errorf("a forgotten approval: %v", err)
	}
}

// A yes for the conversation covers what was in a folder when it was asked, and
// what the commands that it covers make there, if nothing else wrote meanwhile.
func TestSessionCoversWhatWasThere(t *testing.T) {
	t.Parallel()
	b, runs := outsideBench(t, approve.Options{Mode: approve.Auto})
	folder := func(state string) []approve.Outside {
		return []approve.Outside{{Name: "clone", Key: "folder clone", Covers: `what is in "clone" as it is now`, State: state}}
	}
	step := func(state, want string, answers ...string) {
		t.Helper()
		runs["make"] = folder(state)
		if got := b.check(execTool, args{"command": "make"}, answers...); got != want {
			t.Errorf("the folder is %s: %s, want %s", state, got, want)
		}
	}
	step("new", "allowed asked", "session")
	step("new", "allowed")
	step("changed", "denied_approval asked", "no")

	b.call.TurnID = "t2"
	step("new", "allowed")
	runs["make"] = folder("built")
	b.policy.End(b.call, func() bool { return true })
	step("built", "allowed")
	step("new", "denied_approval asked", "no")

	b.call.TurnID = "t3"
	step("built", "allowed")
	runs["make"] = folder("written by another")
	b.policy.End(b.call, func() bool { return false })
	step("written by another", "denied_approval asked", "no")
}

// What cannot be told apart later cannot be allowed for longer.
func TestLargeFolderIsNotRemembered(t *testing.T) {
	t.Parallel()
	b, runs := outsideBench(t, approve.Options{Mode: approve.Auto})
	runs["make"] = []approve.Outside{{Name: "clone"}}
	for range 2 {
		if got := b.check(execTool, args{"command": "make"}, "session"); got != "allowed asked" {
			t.Error(got)
		}
	}
}
