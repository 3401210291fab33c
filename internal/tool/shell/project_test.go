//go:build unix

package shell_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// Commands start in the folder of their conversation, and one that is kept
// inside it is confined by its own means or not run.
func TestProject(t *testing.T) {
	t.Parallel()
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(ws, "proj")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	var wrapped []tool.Call
	confine := func(c tool.Call, _ *exec.Cmd) (shell.Confined, error) {
		wrapped = append(wrapped, c)
		if c.Tainted {
			return shell.Confined{}, errors.New("not now")
		}
		return shell.Confined{}, nil
	}
	run := func(o shell.Options, c tool.Call, args map[string]any) string {
		t.Helper()
		o.Workspace, o.Restrict = ws, true
		c.Input, _ = json.Marshal(args)
		for _, tl := range newShell(t, o).Tools() {
			if tl.Name == "exec" {
				r, err := tl.Run(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				return r.Content.String()
			}
		}
		return ""
	}
	open, only := tool.Call{Project: tool.Project{Dir: dir}}, tool.Call{Project: tool.Project{Dir: dir, Only: true}}
	tainted := only
	tainted.Tainted = true
	for _, c := range []struct {
		name    string
		o       shell.Options
		call    tool.Call
		args    map[string]any
		want    string
		wrapped int
	}{
		{"workspace", shell.Options{}, tool.Call{}, map[string]any{"command": "pwd"}, ws + "\n", 0},
		{"folder", shell.Options{Confine: confine}, open, map[string]any{"command": "pwd"}, dir + "\n", 0},
		{"below", shell.Options{Confine: confine}, open, map[string]any{"command": "pwd", "working_dir": "sub"}, filepath.Join(dir, "sub") + "\n", 0},
		{"above", shell.Options{Confine: confine}, open, map[string]any{"command": "pwd", "working_dir": ".."}, ws + "\n", 0},
		{"outside", shell.Options{Confine: confine}, open, map[string]any{"command": "pwd", "working_dir": "../.."}, "outside the workspace", 0},
		{"only", shell.Options{Confine: confine}, only, map[string]any{"command": "pwd; echo home $HOME"}, dir + "\nhome\n", 1},
		{"only above", shell.Options{Confine: confine}, only, map[string]any{"command": "pwd", "working_dir": ".."}, "outside the workspace", 0},
		{"only absolute", shell.Options{Confine: confine}, only, map[string]any{"command": "pwd", "working_dir": ws}, "outside the workspace", 0},
		{"only without means", shell.Options{}, only, map[string]any{"command": "pwd"}, "commands are not run in a chat that is kept inside a folder", 0},
		{"only refused", shell.Options{Confine: confine}, tainted, map[string]any{"command": "pwd"}, "was not run: it could not be started: not now", 1},
	} {
		wrapped = nil
		if got := run(c.o, c.call, c.args); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if len(wrapped) != c.wrapped {
			t.Errorf("%s: confined %d times, want %d", c.name, len(wrapped), c.wrapped)
		}
	}
}
