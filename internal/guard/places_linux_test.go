package guard

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A configuration with a name of its own is closed, with its copies and its
// other names, where it lies among the files of the workspace.
func TestConfigurationInTheWorkspace(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	writeFiles(t, ws, map[string]string{
		"own.json": `{"tools":{"exec":{"sandbox":""}}}`, "own.json.bak": "{}", ".own.json.swp": "{}", "other.json": "{}",
	})
	if err := os.Link(filepath.Join(ws, "own.json"), filepath.Join(ws, "hard")); err != nil {
		t.Fatal(err)
	}
	g := openWith(t, config.Options{Path: filepath.Join(ws, "own.json"), Env: []string{}}, ws)
	for name, closed := range map[string]bool{"own.json": true, "own.json.bak": true, ".own.json.swp": true, "hard": true, "other.json": false} {
		f, err := g.jail.Open(name)
		if errors.Is(err, diskio.ErrProtected) != closed || (err == nil) == closed {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = f.Close()
		}
	}

	if _, err := g.CommandTools(); err != nil {
		t.Fatal(err)
	}
	exec := g.commands.Tools()[0]
	for command, refused := range map[string]bool{"cat own.json": true, "cat other.json": false} {
		in, _ := json.Marshal(map[string]string{"command": command})
		r, err := exec.Run(t.Context(), tool.Call{ID: "1", SessionKey: "s", TurnID: "t", Input: in})
		if err != nil || strings.Contains(r.Content.String(), "protected") != refused {
			t.Errorf("%s: %s, %v", command, r.Content.String(), err)
		}
	}
}

// Where tools reach the whole disk, they change neither what runs without a
// question nor what was checked when it was installed.
func TestToolsDoNotChange(t *testing.T) {
	t.Parallel()
	home, elsewhere := t.TempDir(), t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ledger, _ := json.Marshal(map[string]any{"version": 1, "skills": []any{map[string]any{"name": "x", "dir": filepath.Join(elsewhere, "skills", "x")}}})
	writeFiles(t, home, map[string]string{"config.json": `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"}}}`, "skills.json": string(ledger)})
	writeFiles(t, elsewhere, map[string]string{"skills/x/SKILL.md": "x", "skills/y/SKILL.md": "y"})
	g := open(t, home)

	allowed := errors.New("allowed")
	for path, want := range map[string]bool{
		exe: false, ".git/hooks/pre-commit": false, filepath.Join(elsewhere, "skills", "x", "SKILL.md"): false,
		filepath.Join(elsewhere, "skills", "y", "SKILL.md"): true, ".git/description": true,
	} {
		_, err := g.jail.Update(t.Context(), path, 1<<30, func([]byte, fs.FileInfo) ([]byte, error) { return nil, allowed })
		if errors.Is(err, allowed) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
