package approve_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// outsideBench is a policy for contained commands, and what they run.
func outsideBench(t *testing.T, o approve.Options) (*bench, map[string][]approve.Outside) {
	t.Helper()
	runs := map[string][]approve.Outside{
		"make":       {{Name: "Makefile", Key: "dir make", Covers: `"make" in "."`}},
		"make test":  {{Name: "Makefile", Key: "dir make", Covers: `"make" in "."`}},
		"sh x.sh":    {{Name: "x.sh", Key: "file 1", Covers: `"x.sh" as it is now`}},
		"make; sh x": {{Name: "Makefile", Key: "dir make"}, {Name: "x", Key: "file 2"}},
		"$X":         {{Name: "x.sh"}},
		"echo hello": nil,
	}
	o.Sandboxed, o.Network = true, approve.NetworkProxy
	o.Contained = func(tool.Call) string { return "it can read a file from outside: x.sh" }
	o.Outside = func(_ tool.Call, command, _ string) []approve.Outside { return runs[command] }
	return newBench(t, o), runs
}

func TestOutsideIsAsked(t *testing.T) {
	t.Parallel()
	b, runs := outsideBench(t, approve.Options{Mode: approve.Auto})
	for _, step := range []struct{ command, answer, want string }{
		{"echo hello", "-", "allowed"},
		{"make", "no", "denied_approval asked"},
		{"make", "-", "denied_approval"}, // what was refused is not asked again
		{"make test", "yes", "allowed asked"},
		{"make test", "yes", "allowed asked"},
		{"make test", "session", "allowed asked"},
		{"make test", "-", "allowed"},
		{"sh x.sh", "turn", "allowed asked"},
		{"sh x.sh", "-", "allowed"},
		{"make; sh x", "no", "denied_approval asked"}, // one of two
		{"$X", "yes", "allowed asked"},
	} {
		var answers []string
		if step.answer != "-" {
			answers = []string{step.answer}
		}
		if got := b.check(execTool, args{"command": step.command}, answers...); got != step.want {
			t.Errorf("%s, %s: %s, want %s", step.command, step.answer, got, step.want)
		}
	}

	runs["sh x.sh"] = []approve.Outside{{Name: "x.sh", Key: "file 3", Covers: `"x.sh" as it is now`}}
	if got := b.check(execTool, args{"command": "sh x.sh"}, "yes"); got != "allowed asked" {
		t.Errorf("another content: %s", got)
	}
	for _, want := range []string{`runs or builds it: "x.sh"`, "It runs contained", "nanobot trust PATH", `running "x.sh" as it is now`} {
		if !strings.Contains(b.lastQuestion(), want) {
			t.Errorf("%q is not in the question:\n%s", want, b.lastQuestion())
		}
	}
	b.call.TurnID = "t2"
	if got := b.check(execTool, args{"command": "make"}); got != "allowed" {
		t.Errorf("in the next turn: %s", got)
	}
	b.policy.Forget(b.call.SessionKey)
	if got := b.check(execTool, args{"command": "make"}, "no"); got != "denied_approval asked" {
		t.Errorf("after /new: %s", got)
	}
}

// What changes while it is asked about is asked about again.
func TestOutsideChangesMeanwhile(t *testing.T) {
	t.Parallel()
	b, runs := outsideBench(t, approve.Options{Mode: approve.Auto})
	b.onAsk = func(bus.Question) {
		runs["sh x.sh"] = []approve.Outside{{Name: "x.sh", Key: "file 9", Covers: "x"}}
	}
	if got := b.check(execTool, args{"command": "sh x.sh"}, "yes", "no"); got != "denied_approval asked asked" {
		t.Error(got)
	}
}

// Without a person to ask, and where nothing is asked, commands run contained.
func TestOutsideWithoutAPerson(t *testing.T) {
	t.Parallel()
	b, _ := outsideBench(t, approve.Options{Mode: approve.Auto})
	b.call.Ask = nil
	if got := b.check(execTool, args{"command": "make"}); got != "allowed" {
		t.Errorf("nobody is there: %s", got)
	}
	b.call.Ask = func(context.Context, bus.Question) (string, error) { return "", &tool.UnaskedError{Why: "no token"} }
	if got := b.check(execTool, args{"command": "make"}); got != "allowed" {
		t.Errorf("no question can be asked: %s", got)
	}
	if got := b.check(execTool, args{"command": "make", "session_id": "x"}); got != "allowed" {
		t.Errorf("again: %s", got)
	}
	off, _ := outsideBench(t, approve.Options{Mode: approve.Off})
	if got := off.check(execTool, args{"command": "make"}); got != "allowed" {
		t.Errorf("mode off: %s", got)
	}
	silent, _ := outsideBench(t, approve.Options{Mode: approve.Auto})
	if got := silent.check(execTool, args{"command": "make"}, ""); got != "denied_approval asked" {
		t.Errorf("no answer: %s", got)
	}
}

// A rule of the owner's comes first, and mode ask shows the same words.
func TestOutsideAndRules(t *testing.T) {
	t.Parallel()
	b, _ := outsideBench(t, approve.Options{Mode: approve.Auto, Rules: []approve.Rule{{Tool: "exec", Match: "make", Action: approve.ActionAllow}}})
	if got := b.check(execTool, args{"command": "make"}); got != "allowed" {
		t.Errorf("a rule that allows: %s", got)
	}
	every, _ := outsideBench(t, approve.Options{Mode: approve.Ask})
	if got := every.check(execTool, args{"command": "make"}, "yes"); got != "allowed asked" || !strings.Contains(every.lastQuestion(), `"Makefile"`) {
		t.Errorf("mode ask: %s\n%s", got, every.lastQuestion())
	}
}
