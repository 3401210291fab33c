package schedule

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// Neither the list of tasks nor the evaluator's prompt is read through a link,
// wherever it leads.
func TestFilesFollowNoLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	ws, out := t.TempDir(), t.TempDir()
	put(t, out, "tasks.md", "## Active Tasks\n- canary\n")
	put(t, out, "evaluator.md", "canary")
	put(t, ws, "inside.md", "## Active Tasks\n- canary\n")
	for name, target := range map[string]string{
		HeartbeatFile: filepath.Join(out, "tasks.md"), "prompts": out,
	} {
		if err := os.Symlink(target, filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	h := &heartbeat{o: &Options{Workspace: ws}}
	for _, target := range []string{"", "inside.md"} {
		if target != "" {
			if err := os.Remove(filepath.Join(ws, HeartbeatFile)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(ws, HeartbeatFile)); err != nil {
				t.Fatal(err)
			}
		}
		tasks, err := h.activeTasks()
		if tasks != "" || err == nil || !strings.Contains(err.Error(), "does not follow links") {
			t.Errorf("tasks are %q, %v", tasks, err)
		}
	}

	model := llmtest.NewScript(t, llmtest.Call("evaluate_notification", map[string]any{"should_notify": true}))
	judge := Evaluator(ws, func(context.Context) (llm.Model, string, error) { return model, "cheap", nil })
	if _, err := judge(t.Context(), "look at the stove", "it is off"); err != nil {
		t.Fatal(err)
	}
	if got := model.Last().System; strings.Contains(got, "canary") {
		t.Errorf("the prompt is %q", got)
	}
}
