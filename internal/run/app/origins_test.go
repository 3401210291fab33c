package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// If the record of files from outside cannot be read, that is said, and no file is
// blamed for it.
func TestUnreadableRecordIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() (id, notes string) {
		t.Helper()
		a, err := app.New(t.Context(), app.Options{
			UseModel: llmtest.NewScript(t), Env: []string{"NANOBOT_HOME=" + dir}, Config: config.Options{Home: dir},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		return a.Sessions.Workspace().ID, strings.Join(a.Notes, "\n")
	}
	id, notes := start()
	if strings.Contains(notes, "outside") {
		t.Errorf("notes of a new workspace: %s", notes)
	}
	record := filepath.Join(datadir.Origin.In(dir), id+".jsonl")
	if err := os.RemoveAll(record); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(record, 0o700); err != nil {
		t.Fatal(err)
	}
	_, notes = start()
	if !strings.Contains(notes, "The record of files from outside cannot be read: ") || !strings.Contains(notes, record) {
		t.Errorf("the record is not named: %s", notes)
	}
	if strings.Contains(notes, "AGENTS.md") {
		t.Errorf("a file is blamed: %s", notes)
	}
}
