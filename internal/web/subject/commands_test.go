package subject_test

import (
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

func TestCommandsAndWorkspaces(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	c := read[map[string][]subject.Command](t, h, "commands")
	if len(c["commands"]) != 1 || c["commands"][0].Name != "stop" {
		t.Errorf("commands = %v", c)
	}
	zh := read[map[string][]subject.Command](t, h, "commands?language=zh-CN")
	if about := zh["commands"][0].About; about != phrase.In(phrase.Chinese, c["commands"][0].About) || about == c["commands"][0].About {
		t.Errorf("in Chinese: %q", about)
	}
	type workspace struct {
		Path, Name string
		Default    bool
	}
	w := read[struct {
		Workspaces []workspace
		Default    string
	}](t, h, "workspaces")
	if want := (workspace{h.Workspace, filepath.Base(h.Workspace), true}); w.Default != h.Workspace || len(w.Workspaces) != 1 || w.Workspaces[0] != want {
		t.Errorf("workspaces = %+v, want one: %+v", w, want)
	}
}
