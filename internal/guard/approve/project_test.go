package approve_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Names in a conversation with a folder of its own are judged where they lead,
// not where they would lead in the workspace.
func TestProject(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Auto})
	other := filepath.Join(filepath.Dir(b.ws), "other")
	for _, dir := range []string{filepath.Join(b.ws, "proj"), other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir, path, want string
		tainted         bool
	}{
		{"", "../other/a.txt", "denied_approval asked", false},
		{filepath.Join(b.ws, "proj"), "../../other/a.txt", "denied_approval asked", false},
		{filepath.Join(b.ws, "proj"), "../other/a.txt", "allowed", false}, // ws/other
		{filepath.Join(b.ws, "proj"), "a.txt", "allowed", true},
		{filepath.Join(b.ws, "proj"), "../AGENTS.md", "denied_approval asked", true},
		{other, "a.txt", "allowed", false}, // the folder that was chosen
		{other, filepath.Join(b.ws, "a.txt"), "allowed", false},
		{other, "../a.txt", "denied_approval asked", false},
	} {
		b.call.Project, b.call.Tainted = tool.Project{Dir: c.dir}, c.tainted
		var answers []string
		if strings.HasSuffix(c.want, "asked") {
			answers = []string{"no"}
		}
		if got := b.check(writeTool, args{"path": c.path, "content": "x"}, answers...); got != c.want {
			t.Errorf("%s in %q: %s, want %s", c.path, c.dir, got, c.want)
		}
	}
}

// A yes for one folder is none for another, or for the same with other limits,
// and the question names it.
func TestProjectIsPartOfAnApproval(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	b.write("a/bin/job", "same")
	b.write("b/bin/job", "same")
	call := args{"command": "bin/job one"}
	b.call.Project = tool.Project{Dir: filepath.Join(b.ws, "a")}
	if got := b.check(execTool, call, "session"); got != "allowed asked" || !strings.Contains(b.lastQuestion(), "in the folder "+b.call.Project.Dir) {
		t.Fatalf("%s: %s", got, b.lastQuestion())
	}
	if got := b.check(execTool, call); got != "allowed" {
		t.Errorf("the same call: %s", got)
	}
	for _, p := range []tool.Project{{}, {Dir: filepath.Join(b.ws, "b")}, {Dir: filepath.Join(b.ws, "a"), Only: true}} {
		b.call.Project = p
		if got := b.check(execTool, call, "yes"); got != "allowed asked" {
			t.Errorf("in %+v: %s", p, got)
		}
	}
	b.call.Project = tool.Project{Dir: filepath.Join(b.ws, "a")}
	b.write("a/bin/job", "evil")
	if got := b.check(execTool, call, "no"); got != "denied_approval asked" {
		t.Errorf("after the script changed: %s", got)
	}
}

// Commands of a conversation that is kept inside a folder run in a sandbox also
// where others do not.
func TestProjectIsASandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Auto})
	b.call.Project = tool.Project{Dir: b.ws, Only: true}
	if got := b.check(execTool, args{"command": "bin/job"}); got != "allowed" {
		t.Errorf("inside: %s", got)
	}
	b.call.Tainted = true
	if got := b.check(execTool, args{"command": "bin/job"}); got != "allowed" { // contained
		t.Errorf("after content from outside: %s", got)
	}
	b.call.Project.Only, b.call.Tainted = false, false
	if got := b.check(execTool, args{"command": "bin/other"}, "no"); got != "denied_approval asked" {
		t.Errorf("in the folder only: %s", got)
	}
}
