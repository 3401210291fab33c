package approve_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func TestRememberedScopes(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	step := func(want, command string, answers ...string) {
		t.Helper()
		if got := b.check(execTool, args{"command": command}, answers...); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	step("allowed asked", "git status -s", "turn")
	if q := b.lastQuestion(); !strings.Contains(q, `every command made of "git status"`) {
		t.Errorf("question: %s", q)
	}
	step("allowed", "git status --long")
	b.call.TurnID = "t2"
	step("allowed asked", "git status", "always")
	b.call.TurnID = "t3"
	step("allowed", "git status")
	for _, other := range []string{ // rows 39 to 41
		"git -c core.pager='sh -c id' log", "GIT_SSH_COMMAND=x git status", "git status; id", "git status && id", "git status $(id)", "git status `id`",
		"git status\nid", "git status & id", "git status > x", "env git status", "git push", "git statusx", "xargs git status", "LD_PRELOAD=./x git status",
	} {
		step("denied_approval asked", other, "no")
	}
	b.policy.Forget("cli:other")
	step("allowed", "git status -b")
	b.policy.Forget("cli:direct")
	step("denied_approval asked", "git status -b", "no")
	if got := b.check(remoteTool, args{"x": 1}, "session"); got != "allowed asked" {
		t.Fatal(got)
	}
	if got := b.check(remoteTool, args{"x": json.Number("1")}); got != "allowed" {
		t.Errorf("the same call: %s", got)
	}
	if got := b.check(remoteTool, args{"x": 2}, "no"); got != "denied_approval asked" {
		t.Errorf("another call: %s", got)
	}
}

// Rows 40 and 41: interpreters, wrappers and assignments are asked about every time.
func TestNeverRemembered(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"sh x.sh", "bash -c id", "/bin/sh x", "env id", "xargs rm", "sudo ls", "python3 x.py", "python3.12 x.py", "node x.js", "perl -e 1", "find . -exec rm {} +",
		"ssh host", "make", "npx x", "LD_PRELOAD=./x ls", "BASH_ENV=x ls", "NODE_OPTIONS=x ls", "PYTHONSTARTUP=x ls", "PERL5OPT=x ls", "GIT_EXTERNAL_DIFF=x ls",
		"GLIBC_TUNABLES=x ls", "A=1 ls", "ls; python3 x.py", "$(echo rm) x", "$CMD x", "ls | sh", "sort --compress-program=./x", "eval ls", ". ./x", "export A=1; ls",
		"f() { ls; }; f", "ls 'unclosed", "timeout 5 sh -c id", "git status && make", "rm $(cat list)", "rm `cat list`", "cat <(id)",
	} {
		b := newBench(t, approve.Options{Mode: approve.Ask, CommandPrefix: func(string) ([]string, bool) { return nil, false }})
		for _, round := range []string{"first", "again"} {
			if got := b.check(execTool, args{"command": command}, "session"); got != "allowed asked" {
				t.Errorf("%s: %s: %s", command, round, got)
			}
			if n := len(b.asked[0].Options); n != 2 || strings.Contains(b.lastQuestion(), "session") {
				t.Errorf("%s: offers to remember: %s", command, b.lastQuestion())
			}
		}
	}
	b := newBench(t, approve.Options{Mode: approve.Ask})
	for range 2 {
		if got := b.check(stdinTool, args{"session_id": "a", "chars": "x"}, "session"); got != "allowed asked" {
			t.Errorf("typing: %s", got)
		}
	}
	if got := b.check(execTool, args{"command": "ls", "shell": "./evil"}, "session"); got != "allowed asked" {
		t.Errorf("another shell: %s", got)
	}
	if got := b.check(execTool, args{"command": "ls"}, "no"); got != "denied_approval asked" {
		t.Errorf("a yes for another shell covers the usual one: %s", got)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask, Rules: []approve.Rule{
		{Tool: "exec", Match: "rm -rf", Action: approve.ActionDeny},
		{Tool: "exec", Match: "git status", Action: approve.ActionAllow},
		{Tool: "exec", Match: "npm test", Action: approve.ActionAllow},
		{Tool: "exec", Match: "git fetch", Action: approve.ActionAllow},
		{Tool: "exec", Match: "python3 x.py", Action: approve.ActionAllow},
		{Tool: "write_file", Match: "notes/", Action: approve.ActionAllow},
		{Tool: "mcp_git_*", Action: approve.ActionAllow},
		{Tool: "read_*", Match: "diary", Action: approve.ActionDeny},
		{Tool: "web_fetch", Action: approve.ActionAsk},
	}})
	b.call.Tainted = true
	for _, c := range []struct {
		tool tool.Tool
		args args
		want string
	}{
		{execTool, args{"command": "rm -rf x"}, "denied_policy"},
		{execTool, args{"command": `r''m   -"rf" x`}, "denied_policy"},
		{execTool, args{"command": "git status -s"}, "allowed"},
		{execTool, args{"command": "git status"}, "allowed"},
		{execTool, args{"command": "echo git status"}, "asked"},
		{execTool, args{"command": "git status; curl evil"}, "asked"},
		{execTool, args{"command": "git -c core.pager='sh -c id' log # git status"}, "asked"},
		{execTool, args{"command": "GIT_SSH_COMMAND=x git status"}, "asked"},
		{execTool, args{"command": "npm test -- --watch"}, "asked"}, // an option of npm can name another program
		{execTool, args{"command": "npm test prefix=../evil"}, "asked"},
		{execTool, args{"command": "npm test unit"}, "asked"}, // not the command that the rule names
		{execTool, args{"command": "npm 'test'"}, "allowed"},
		{execTool, args{"command": "git fetch origin --upload-pack=./x"}, "asked"},
		{execTool, args{"command": "git fetch origin main"}, "asked"},
		{execTool, args{"command": "git fetch"}, "allowed"},
		{execTool, args{"command": "git fetch", "shell": "./evil"}, "asked"},
		{execTool, args{"command": "git fetch --exec=./x"}, "asked"},
		{execTool, args{"command": "git fetch | sh"}, "asked"},
		{execTool, args{"command": "npm test"}, "allowed"}, // the very text
		{execTool, args{"command": "npm test $(id)"}, "asked"},
		{execTool, args{"command": "python3 x.py"}, "allowed"},
		{execTool, args{"command": "python3 x.py -c evil"}, "asked"},
		{stdinTool, args{"session_id": "a", "chars": "git status"}, "asked"},
		{writeTool, args{"path": "notes/a.txt"}, "allowed"},
		{writeTool, args{"path": "notes/../AGENTS.md"}, "asked"},
		{writeTool, args{"path": "a.txt", "content": "notes/"}, "asked"},
		{tool.Tool{Name: "mcp_git_push", Sink: tool.SinkRemote}, args{}, "allowed"},
		{tool.Tool{Name: "mcp_gith_push", Sink: tool.SinkRemote}, args{}, "asked"},
		{readTool, args{"path": "my diary.md"}, "denied_policy"},
		{readTool, args{"path": "x"}, "allowed"},
		{fetchTool, args{"url": "https://h/"}, "asked"},
	} {
		want, answers := c.want, []string(nil)
		if want == "asked" {
			want, answers = "denied_approval asked", []string{"no"}
		}
		if got := b.check(c.tool, c.args, answers...); got != want {
			t.Errorf("%s %v: %s, want %s", c.tool.Name, c.args, got, want)
		}
	}
	off := newBench(t, approve.Options{Rules: []approve.Rule{{Tool: "exec", Match: "rm", Action: approve.ActionDeny}, {Tool: "*", Action: approve.ActionAsk}}})
	for command, want := range map[string]string{"rm x": "denied_policy", "ls": "allowed"} {
		if got := off.check(execTool, args{"command": command}); got != want {
			t.Errorf("mode off, %s: %s", command, got)
		}
	}
}
