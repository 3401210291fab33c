package approve_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A yes for the rest of the conversation covers the programs it names with
// options that are known to be harmless, and nothing else.
func TestSessionCoversKnownOptionsOnly(t *testing.T) {
	t.Parallel()
	for first, rows := range map[string]struct{ same, other []string }{
		"sort a.txt": {
			[]string{"sort -nr b.txt", "sort -k2 -t, a.txt"},
			[]string{
				"sort --compress-prog=./x a", "sort --outp=AGENTS.md a", "sort -o AGENTS.md a", "sort a -oAGENTS.md", "sort -T . a", "sort --files0-from=x", "sort $X", "sort *", "sort a > AGENTS.md",
				"env sort a", "./sort a", "PATH=. sort a", "sort a | sh", "sort a; touch x",
			},
		},
		"go vet ./...": {
			[]string{"go vet ./x"},
			[]string{"go vet --vettool=./x", "go vet -vettool ./x", "go vet -toolexec=./x ./...", "go vet -C .. ./...", "go vet -overlay=x ./...", "go test ./...", "go build ./..."},
		},
		"git log": {
			[]string{"git log --oneline -5", "git --no-pager log -p"},
			[]string{"git log --output=AGENTS.md", "git log --outp AGENTS.md", "git -C x log", "git -c core.pager=./x log", "git log --ext-diff", "git log --format=%G?", "git --git-dir=x log", "git diff"},
		},
		"date": {
			[]string{"date +%F"},
			[]string{"date -s yesterday", "date --se=x", "date 01010000", "date -f x"},
		},
		"git branch --list": {
			[]string{"git branch -la"},
			[]string{"git branch x", "git branch --list -D x", "git branch --edit-description --list"},
		},
	} {
		b := newBench(t, approve.Options{Mode: approve.Ask})
		if got := b.check(execTool, args{"command": first}, "session"); got != "allowed asked" {
			t.Errorf("%s: %s", first, got)
		}
		for _, command := range rows.same {
			if got := b.check(execTool, args{"command": command}); got != "allowed" {
				t.Errorf("%s after %s: %s", command, first, got)
			}
		}
		for _, command := range rows.other {
			if got := b.check(execTool, args{"command": command}, "no"); got != "denied_approval asked" {
				t.Errorf("%s after %s: %s", command, first, got)
			}
		}
	}
}

// Everything else is remembered word by word, however the words are quoted.
func TestSessionCoversTheSameWords(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	if got := b.check(execTool, args{"command": "touch  'a b' c"}, "session"); got != "allowed asked" || !strings.Contains(b.lastQuestion(), "exactly this call") {
		t.Fatalf("%s: %s", got, b.lastQuestion())
	}
	for _, same := range []string{`touch "a b" c`, `touch a\ b   c`, `t'ouch' 'a b' "c"`} {
		if got := b.check(execTool, args{"command": same}); got != "allowed" {
			t.Errorf("%s: %s", same, got)
		}
	}
	for _, other := range []string{"touch a b c", "touch 'a b' c d", "touch c 'a b'", "touch 'a b'", "touch -- 'a b' c", "touch 'a b' c*", "touch 'a b' c; touch d", "touch 'a b' $c", "X=1 touch 'a b' c", "touch 'a b' c > x"} {
		if got := b.check(execTool, args{"command": other}, "no"); got != "denied_approval asked" {
			t.Errorf("%s: %s", other, got)
		}
	}
	if got := b.check(execTool, args{"command": "touch 'a b' c", "background": true}, "no"); got != "denied_approval asked" {
		t.Errorf("with another argument: %s", got)
	}
}

// A rule that denies is not passed by another spelling, and what only the run
// decides is asked about. Nothing of it runs by itself, in any mode.
func TestDenyRuleIsNotPassed(t *testing.T) {
	t.Parallel()
	rules := []approve.Rule{{Tool: "exec", Match: "git push", Action: approve.ActionDeny}, {Tool: "exec", Match: "make check", Action: approve.ActionAllow}}
	for _, mode := range []approve.Mode{approve.Auto, approve.Ask, approve.Off} {
		b := newBench(t, approve.Options{Mode: mode, Sandboxed: true, Network: "none", Rules: rules})
		for _, command := range []string{
			"git push", "git -C . push", "git --git-dir=x push", "command git push", "env git push", `\git push`, "g''it push", "/usr/bin/git push", "x=push; git $x", "(git push)", "ls | git push",
			"bash -c 'git push'", "alias g='git push'; g", "f() { git push; }; f", "eval 'git push'", "nice git push", "$'\\x67it' push", "echo $(git push)",
		} {
			if got := b.check(execTool, args{"command": command}); got != "denied_policy" {
				t.Errorf("%s, %s: %s", mode, command, got)
			}
		}
		for _, command := range []string{
			"git $X", "$X push", "git $(echo push)", "bash x.sh", "./x.sh", ". ./x", "python3 x.py", "eval \"$X\"", "git p", "git -c alias.p=push p", "echo push | xargs git", "g() { git \"$@\"; }; g push", "make",
		} {
			b.call.TurnID = string(mode) + command
			if got := b.check(execTool, args{"command": command}, "no"); got != "denied_approval asked" {
				t.Errorf("%s, %s: %s", mode, command, got)
			}
		}
		if got := b.check(execTool, args{"command": "ls", "shell": "./x"}, "no"); got != "denied_approval asked" {
			t.Errorf("%s, another shell: %s", mode, got)
		}
		if got := b.check(execTool, args{"command": "make check"}); got != "allowed" {
			t.Errorf("%s: a command that a rule names exactly: %s", mode, got)
		}
		if mode != approve.Ask {
			for _, command := range []string{"git status", "git commit -m push", "ls push", "go vet ./..."} {
				if got := b.check(execTool, args{"command": command}); got != "allowed" {
					t.Errorf("%s, %s: %s", mode, command, got)
				}
			}
		}
	}
}

// A rule that allows means the very words, or a program that only shows
// something.
func TestAllowRuleIsExact(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask, Rules: []approve.Rule{
		{Tool: "exec", Match: "git log", Action: approve.ActionAllow}, {Tool: "exec", Match: "git push origin main", Action: approve.ActionAllow}, {Tool: "exec", Match: "sort", Action: approve.ActionAllow},
	}})
	for command, allowed := range map[string]bool{
		"git log": true, "git log -5": true, "git log --output=AGENTS.md": false, "git log --outp=x": false, "git log --ext-diff": false, "git -C x log": false, "git log; id": false,
		"git push origin main": true, "git push 'origin' main": true, "git push origin main --force": false, "git push origin": false, "git -C . push origin main": false, "X=1 git push origin main": false,
		"sort x": true, "sort --compress-prog=./x y": false, "sort -o AGENTS.md x": false, "git log $X": false, "git log > x": false, "git log | sh": false,
	} {
		want, answers := "allowed", []string(nil)
		if !allowed {
			want, answers = "denied_approval asked", []string{"no"}
		}
		if got := b.check(execTool, args{"command": command}, answers...); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// The settings of a repository decide what git starts: a remembered yes ends
// with them, and is not given where they cannot be told.
func TestSessionEndsWithGitSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	b.write(".git/config", "[core]\n")
	b.write("sub/x", "")
	step := func(name, want string, a args, answers ...string) {
		t.Helper()
		if got := b.check(execTool, a, answers...); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	step("first", "allowed asked", args{"command": "git diff"}, "session")
	step("again", "allowed", args{"command": "git diff --stat"})
	step("below", "allowed", args{"command": "git diff", "working_dir": "sub"})
	b.write(".git/config", "[diff]\nexternal = ./evil\n")
	step("other settings", "denied_approval asked", args{"command": "git diff --stat"}, "no")
	b.write(".git/config", "[core]\n")
	step("the same settings", "allowed", args{"command": "git diff"})
	b.write("sub/.git/config", "[diff]\nexternal = ./evil\n")
	step("another repository", "denied_approval asked", args{"command": "git diff", "working_dir": "sub"}, "no")
	b.write(".git/config.worktree", "[diff]\nexternal = ./evil\n")
	step("settings of the work tree", "denied_approval asked", args{"command": "git diff --cached"}, "no")
	b.write(".git/config", "[include]\npath = ../evil\n")
	step("settings somewhere else", "allowed asked", args{"command": "git log"}, "session")
	step("only word by word", "denied_approval asked", args{"command": "git log -1"}, "no")
}

// What a client calls itself does not open what a person allowed.
func TestGrantsArePersonal(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	b.call.SenderID, b.call.Person = "web", "owner"
	if got := b.check(execTool, args{"command": "touch a"}, "session"); got != "allowed asked" {
		t.Fatal(got)
	}
	b.call.SenderID = "phone"
	if got := b.check(execTool, args{"command": "touch a"}); got != "allowed" {
		t.Errorf("the same person: %s", got)
	}
	for _, person := range []string{"unproven:web", "", "proxy:x"} {
		b.call.SenderID, b.call.Person, b.call.TurnID = "web", person, "t"+person
		if got := b.check(execTool, args{"command": "touch a"}, "no"); got != "denied_approval asked" {
			t.Errorf("%q: %s", person, got)
		}
	}
	b.call.Ask = func(context.Context, bus.Question) (string, error) {
		return "yes", &tool.UnaskedError{Why: "no authenticated person can be asked here: connect with a token"}
	}
	c := b.call
	c.TurnID, c.Input = "t9", json.RawMessage(`{"command":"touch a"}`)
	res := b.policy.Check(t.Context(), execTool, c)
	if res == nil || res.Code != tool.DeniedApproval || !strings.Contains(res.Content.String(), "connect with a token") {
		t.Errorf("a client without proof: %+v", res)
	}
}

// What a command reads when it runs is part of the approval as far as it can be
// told, and the question says that there may be more.
func TestApprovalCoversWhatIsRead(t *testing.T) {
	t.Parallel()
	const more = "files that this approval does not cover"
	for name, c := range map[string]struct {
		command, change string
		says            string
	}{
		"a script":                 {"bash job.sh", "job.sh", `The content of "job.sh"`},
		"what a script sources":    {"bash job.sh", "lib.sh", `"./lib.sh"`},
		"what that one sources":    {"./job.sh", "deep/last.sh", more},
		"what a script runs":       {"bash job.sh", "tools/run.sh", more},
		"a sourced file":           {". ./env.sh && ls", "env.sh", more},
		"source":                   {"source env.sh", "env.sh", more},
		"the makefile":             {"make test", "Makefile", `"Makefile"`},
		"the makefile elsewhere":   {"make -C sub test", "sub/Makefile", more},
		"the makefile by name":     {"make -f other.mk", "other.mk", more},
		"package.json":             {"npm run build", "package.json", `"package.json"`},
		"package.json elsewhere":   {"npm --prefix sub test", "sub/package.json", more},
		"package.json elsewhere 2": {"npm --prefix=sub test", "sub/package.json", more},
		"a program of the project": {"bin/tool x", "bin/tool", more},
		"behind a wrapper":         {"env A=b timeout 5 bash job.sh", "job.sh", more},
		"conftest":                 {"pytest -q", "conftest.py", more},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, approve.Options{Mode: approve.Ask})
			for _, f := range []string{"other.mk", "env.sh", "Makefile", "sub/Makefile", "package.json", "sub/package.json", "bin/tool", "conftest.py", "deep/last.sh", "tools/run.sh"} {
				b.write(f, "true\n")
			}
			b.write("job.sh", "#!/bin/bash\n. ./lib.sh\ntools/run.sh now\n")
			b.write("lib.sh", "source deep/last.sh\n")
			once := sync.OnceFunc(func() { b.write(c.change, "evil\n") })
			b.onAsk = func(bus.Question) { once() }
			if got := b.check(execTool, args{"command": c.command}, "yes", "no"); got != "denied_approval asked asked" {
				t.Errorf("changed while asked: %s", got)
			}
			if q := b.asked[0].Text; !strings.Contains(q, c.says) || !strings.Contains(q, more) {
				t.Errorf("question: %s", q)
			}
		})
	}
	b := newBench(t, approve.Options{Mode: approve.Ask})
	for command, says := range map[string]bool{"python3 -c 'import x'": true, "git commit -m x": true, "cat x": false, "touch x": false, "git status": false, "cp a b": false, "$CMD": true} {
		b.check(execTool, args{"command": command}, "no")
		if got := strings.Contains(b.lastQuestion(), more); got != says {
			t.Errorf("%s: %v, want %v: %s", command, got, says, b.lastQuestion())
		}
	}
}
