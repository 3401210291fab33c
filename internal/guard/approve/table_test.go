package approve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The whole table of section 9.6: every kind of call, clean and tainted, in
// every mode and containment.
func TestTable(t *testing.T) {
	t.Parallel()
	const yes, no = "asked", "allowed"
	sandboxed := func(network string) approve.Options {
		return approve.Options{Mode: approve.Auto, Sandboxed: true, Network: network}
	}
	for _, row := range []struct {
		name           string
		o              approve.Options
		tool           tool.Tool
		args           args
		clean, tainted string
	}{
		{"read", sandboxed("host"), readTool, args{"path": "x"}, no, no},
		{"short address", sandboxed("host"), fetchTool, args{"url": "https://h/a"}, no, no},
		{"write", sandboxed("host"), writeTool, args{"path": "notes/a.txt", "content": "x"}, no, no},
		{"write outside", sandboxed("host"), writeTool, args{"path": "/tmp/elsewhere/a.txt"}, yes, yes},
		{"write of a patch", sandboxed("host"), tool.Tool{Name: "apply_patch", Sink: tool.SinkWrite}, args{"patch": "x"}, no, yes},
		{"instructions", sandboxed("host"), writeTool, args{"path": "AGENTS.md"}, no, yes},
		{"exec, no network", sandboxed("none"), execTool, args{"command": "curl h"}, no, no},
		{"exec, proxy", sandboxed("proxy"), execTool, args{"command": "curl h"}, no, no},
		{"exec, host network", sandboxed("host"), execTool, args{"command": "curl h"}, no, yes},
		{"exec, network not named", sandboxed(""), execTool, args{"command": "curl h"}, no, yes},
		{"exec unsandboxed", approve.Options{Mode: approve.Auto, Network: "none"}, execTool, args{"command": "ls"}, yes, yes},
		{"poll of a command", approve.Options{Mode: approve.Auto}, stdinTool, args{"session_id": "a"}, no, no},
		{"end of a command", approve.Options{Mode: approve.Auto}, stdinTool, args{"session_id": "a", "terminate": true}, no, no},
		{"typing", approve.Options{Mode: approve.Auto}, stdinTool, args{"session_id": "a", "chars": "id\n"}, yes, yes},
		{"message here", sandboxed("host"), sendTool, args{"content": "x", "channel": "cli", "chat_id": "direct"}, no, no},
		{"message elsewhere", sandboxed("host"), sendTool, args{"content": "x", "chat_id": "other"}, yes, yes},
		{"message on another channel", sandboxed("host"), sendTool, args{"content": "x", "channel": "telegram"}, yes, yes},
		{"media inside", sandboxed("host"), sendTool, args{"content": "x", "media": []string{"in.txt"}}, no, no},
		{"media outside", sandboxed("host"), sendTool, args{"content": "x", "media": []string{"in.txt", "../out.txt"}}, yes, yes},
		{"cron add", sandboxed("host"), cronTool, args{"action": "add"}, no, yes},
		{"cron list", sandboxed("host"), cronTool, args{"action": "list"}, no, no},
		{"memory", sandboxed("host"), memoTool, args{"action": "set"}, no, yes},
		{"spawn", sandboxed("host"), spawnTool, args{"task": "x"}, no, yes},
		{"mcp", sandboxed("host"), remoteTool, args{"x": 1}, no, yes},
		{"mcp set to ask", approve.Options{Mode: approve.Auto, Rules: []approve.Rule{{Tool: "mcp_x_*", Action: approve.ActionAsk}}}, remoteTool, args{}, yes, yes},
		{"mcp set to deny", approve.Options{Mode: approve.Auto, Rules: []approve.Rule{{Tool: "mcp_x_*", Action: approve.ActionDeny}}}, remoteTool, args{}, "denied_policy", "denied_policy"},
		{"unknown kind", sandboxed("host"), strange, args{"x": 1}, no, yes},
		{"ask_user", sandboxed("host"), askUser, args{"question": "x"}, no, no},
		{"risky", approve.Options{Mode: approve.Auto, Sandboxed: true, Network: "none", CommandRisk: func(string) (string, bool) { return "it does", true }}, execTool, args{"command": "$(x)"}, yes, yes},
	} {
		for _, tainted := range []bool{false, true} {
			want := row.clean
			if tainted {
				want = row.tainted
			}
			for _, mode := range []approve.Mode{approve.Auto, approve.Ask, approve.Off} {
				t.Run(fmt.Sprintf("%s/%s/tainted %v", row.name, mode, tainted), func(t *testing.T) {
					t.Parallel()
					o := row.o
					o.Mode = mode
					b := newBench(t, o)
					b.write("in.txt", "x")
					b.write("../out.txt", "x")
					b.call.Tainted = tainted
					expect, answers := want, []string(nil)
					switch {
					case want == "denied_policy":
					case mode == approve.Off:
						expect = no
					case mode == approve.Ask:
						expect = yes
						switch row.name {
						case "read", "short address", "poll of a command", "end of a command", "cron list", "ask_user":
							expect = no
						}
					}
					if expect == yes {
						expect, answers = "allowed asked", []string{"yes"}
					}
					if got := b.check(row.tool, row.args, answers...); got != expect {
						t.Errorf("got %s, want %s", got, expect)
					}
				})
			}
		}
	}
}

func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Auto, Sandboxed: true, Network: "none"})
	b.call.Tainted = true
	b.write("plain.bin", "x")
	b.write("tool.bin", "x")
	b.write("AGENTS.md", "x")
	if err := os.Symlink("AGENTS.md", filepath.Join(b.ws, "innocent.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(b.ws, "skills"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("skills", filepath.Join(b.ws, "dir")); err != nil {
		t.Fatal(err)
	}
	special := []string{
		"AGENTS.md", "agents.MD", "SOUL.md", "USER.md", "memory/MEMORY.md", "HEARTBEAT.md", "skills/x/SKILL.md", "skills/x/y.txt", ".git/hooks/pre-commit",
		".git/config", ".github/workflows/ci.yml", "innocent.txt", ".curlrc", ".ssh/config", "sub/.npmrc", "sub/.anything-new/x",
		"dir/new.txt", "notes/../AGENTS.md", ".envrc", "memory/facts.md",
	}
	for _, name := range special {
		if got := b.check(writeTool, args{"path": name, "content": "y"}, "no"); got != "denied_approval asked" {
			t.Errorf("%s: %s, want a question", name, got)
		}
	}
	// Programs and build files are marked when a tainted turn writes them, so
	// that running them is contained; writing them needs no question.
	for _, name := range []string{"run.sh", "Makefile", "sub/package.json", "tool.bin", "plain.bin", "notes.md", "src/hooks/use.ts", "a.py", "docs/memory/x.md", "data.json", "new/deep/file.txt"} {
		if got := b.check(writeTool, args{"path": name, "content": "y"}); got != "allowed" {
			t.Errorf("%s: %s, want no question", name, got)
		}
	}
}

// A command in a clean turn that can read files from outside is contained, and
// asks where the sandbox cannot hold it.
func TestContained(t *testing.T) {
	t.Parallel()
	marked := func(tool.Call) string { return "it can read a file from outside: repo" }
	for _, row := range []struct {
		name, network, want string
		exposed             bool
	}{
		{"no network", "none", "allowed", false},
		{"proxy", "proxy", "allowed", false},
		{"any host", "host", "denied_approval asked", false},
		{"not named", "", "denied_approval asked", false},
		{"no mounts", "none", "denied_approval asked", true},
	} {
		b := newBench(t, approve.Options{
			Mode:      approve.Auto,
			Sandboxed: true,
			Network:   row.network,
			Contained: marked,
			Exposed:   func() bool { return row.exposed },
		})
		var answers []string
		if row.want != "allowed" {
			answers = []string{"no"}
		}
		if got := b.check(execTool, args{"command": "make"}, answers...); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if row.want != "allowed" && !strings.Contains(b.lastQuestion(), "a file from outside: repo") {
			t.Errorf("%s: the question does not say why: %s", row.name, b.lastQuestion())
		}
	}
}
