package schedule

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The list of tasks is not read through a link, wherever it leads.
func TestFilesFollowNoLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	ws, out := t.TempDir(), t.TempDir()
	put(t, out, "tasks.md", "## Active Tasks\n- canary\n")
	put(t, ws, "inside.md", "## Active Tasks\n- canary\n")
	for name, target := range map[string]string{
		heartbeatFile: filepath.Join(out, "tasks.md"),
	} {
		if err := os.Symlink(target, filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	h := &heartbeat{o: &Options{Workspace: ws}}
	for _, target := range []string{"", "inside.md"} {
		if target != "" {
			if err := os.Remove(filepath.Join(ws, heartbeatFile)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(ws, heartbeatFile)); err != nil {
				t.Fatal(err)
			}
		}
		tasks, err := h.activeTasks()
		if tasks != "" || err == nil || !strings.Contains(err.Error(), "does not follow links") {
			t.Errorf("tasks are %q, %v", tasks, err)
		}
	}
}
