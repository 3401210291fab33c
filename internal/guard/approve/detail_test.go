package approve_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A question says part by part what its text says: the whole command, where it
// runs, what a write changes, and what a lasting yes covers.
func TestDetail(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask, Sandboxed: true, Network: "proxy"})
	b.write("sub/x", "one\ntwo\n")
	detail := func(tl tool.Tool, a args) bus.Detail {
		t.Helper()
		b.check(tl, a, "no")
		if d := b.asked[len(b.asked)-1].Detail; d != nil {
			return *d
		}
		t.Fatalf("%s: a question without detail", tl.Name)
		return bus.Detail{}
	}
	long := "touch " + strings.Repeat("y", 3000)
	d := detail(execTool, args{"command": long, "working_dir": "sub"})
	if d.Tool != "exec" || d.Command != long || !strings.HasSuffix(d.Folder, "/sub") || !d.Sandbox || d.Network != "proxy" || d.Covers != "exactly this call" ||
		string(d.Arguments) != `{"working_dir":"sub"}` || !strings.Contains(d.Reason, "every change needs a yes") {
		t.Errorf("a command: %+v", d)
	}
	if d := detail(execTool, args{"command": "bash x.sh"}); d.Covers != "" {
		t.Errorf("what cannot be remembered covers %q", d.Covers)
	}
	d = detail(writeTool, args{"path": "sub/x", "content": "one\n2\u202e\n"})
	if len(d.Paths) != 1 || d.Paths[0] != "sub/x" || !strings.Contains(d.Diff, "-two\n+2‹U+202E›\n") || d.Folder != "" || d.Sandbox {
		t.Errorf("a write: %+v", d)
	}
	if d := detail(writeTool, args{"path": "new", "content": "a\n"}); !strings.Contains(d.Diff, "+a\n") {
		t.Errorf("a new file: %q", d.Diff)
	}
	edit := tool.Tool{Name: "edit_file", Sink: tool.SinkWrite, Paths: tool.PathArg("path")}
	for want, a := range map[string]args{
		"-two\n+three\n": {"path": "sub/x", "old_text": "two", "new_text": "three"},
		"":               {"path": "sub/x", "old_text": "nowhere", "new_text": "three"}, // the tool decides
	} {
		if d := detail(edit, a); want == "" && d.Diff != "" || !strings.Contains(d.Diff, want) {
			t.Errorf("%v: diff %q", a, d.Diff)
		}
	}
	patch := tool.Tool{Name: "apply_patch", Sink: tool.SinkWrite}
	both := []any{args{"path": "sub/x", "action": "replace", "old_text": "one", "new_text": "1"}, args{"path": "sub/x", "action": "replace", "old_text": "two", "new_text": "2"}, args{"path": "z", "action": "add", "new_text": "zz\n"}}
	if d := detail(patch, args{"edits": both}); !strings.Contains(d.Diff, "-one\n-two\n+1\n+2\n") || !strings.Contains(d.Diff, "+zz\n") {
		t.Errorf("several edits: %q", d.Diff)
	}
	end := []any{args{"path": "sub/x", "action": "add", "new_text": "three\n"}}
	if d := detail(patch, args{"edits": end}); !strings.Contains(d.Diff, "+three\n") || strings.Contains(d.Diff, "-one\n") {
		t.Errorf("lines at the end: %q", d.Diff)
	}
}

// Explain says what Check would do, without a question.
func TestExplain(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{
		Mode: approve.Auto, Sandboxed: true, Network: "host", Leaks: func(s string) (string, bool) { return "KEY", strings.Contains(s, "hunter2") },
		Rules: []approve.Rule{{Tool: "exec", Match: "git push", Action: approve.ActionDeny}, {Tool: "exec", Match: "touch", Action: approve.ActionAsk}},
	})
	for _, c := range []struct {
		tool    tool.Tool
		args    string
		tainted bool
		want    approve.Action
		rule    string
		reason  string
	}{
		{execTool, `{"command":"git push"}`, false, approve.ActionDeny, "exec: git push", "a rule of tools.approval"},
		{execTool, `{"command":"touch x"}`, false, approve.ActionAsk, "exec: touch", "a rule of tools.approval"},
		{execTool, `{"command":"ls"}`, false, approve.ActionAllow, "", ""},
		{execTool, `{"command":"ls"}`, true, approve.ActionAsk, "", "the command can reach any host"},
		{execTool, `{"command":"echo hunter2"}`, false, approve.ActionDeny, "", "the secret KEY"},
		{readTool, `{"path":"x"}`, true, approve.ActionAllow, "", ""},
	} {
		call := b.call
		call.Input, call.Tainted = json.RawMessage(c.args), c.tainted
		got := b.policy.Explain(t.Context(), c.tool, call)
		if got.Action != c.want || got.Rule != c.rule || !strings.Contains(got.Reason, c.reason) || (got.Detail != nil) != (c.want == approve.ActionAsk) {
			t.Errorf("%s, tainted %v: %+v", c.args, c.tainted, got)
		}
	}
	if len(b.asked) > 0 {
		t.Errorf("%d questions were asked", len(b.asked))
	}
}
