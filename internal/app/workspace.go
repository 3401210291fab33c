package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/diskio"
)

// bootstrap names the templates a workspace starts with.
func bootstrap() []string {
	return []string{"AGENTS.md", "SOUL.md", "USER.md", "HEARTBEAT.md", "memory/MEMORY.md"}
}

// prepareWorkspace makes the workspace and writes the templates it does not
// have yet. A file the user deleted is not written again: the manifest
// remembers what was given once.
func (a *App) prepareWorkspace() error {
	manifest := filepath.Join(a.Workspace, ".nanobot", "templates.json")
	if b, err := os.ReadFile(manifest); err == nil {
		var given map[string]string
		if json.Unmarshal(b, &given) == nil && len(given) >= len(bootstrap()) {
			return nil
		}
	}
	_, err := SyncTemplates(a.Workspace)
	return err
}

// SyncTemplates writes missing templates into a workspace, never over an
// existing file, and returns the names it wrote.
func SyncTemplates(workspace string) ([]string, error) {
	for _, dir := range []string{"", ".nanobot", "memory", "skills"} {
		if err := os.MkdirAll(filepath.Join(workspace, dir), 0o700); err != nil {
			return nil, fmt.Errorf("make the workspace: %w", err)
		}
	}
	manifest := filepath.Join(workspace, ".nanobot", "templates.json")
	given := map[string]string{}
	if b, err := os.ReadFile(manifest); err == nil {
		_ = json.Unmarshal(b, &given) // a damaged manifest only means asking again
	}
	var written []string
	for _, name := range bootstrap() {
		body, err := fs.ReadFile(agent.Templates(), name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(body)
		if _, done := given[name]; done {
			continue
		}
		given[name] = hex.EncodeToString(sum[:8])
		ok, err := writeNew(filepath.Join(workspace, filepath.FromSlash(name)), body)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		if ok {
			written = append(written, name)
		}
	}
	if _, err := writeNew(filepath.Join(workspace, "memory", "history.jsonl"), nil); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(given, "", "  ")
	if err != nil {
		return nil, err
	}
	return written, diskio.WriteFile(manifest, append(b, '\n'), 0o600)
}

// writeNew creates a file and reports false if it was there already.
func writeNew(path string, body []byte) (bool, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := f.Write(body); err != nil {
		_ = f.Close() // the write error is what matters
		return false, err
	}
	return true, f.Close()
}
