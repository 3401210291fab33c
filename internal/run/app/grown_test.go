package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// What another program wrote to a conversation in the workspace after the first
// start is named once, and not used.
func TestGrownConversationsAreNamedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() (told bool) {
		t.Helper()
		a, err := app.New(t.Context(), app.Options{
			UseModel: llmtest.NewScript(t), Env: []string{"NANOBOT_HOME=" + dir}, Config: config.Options{Home: dir},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range a.Notes {
			told = told || strings.Contains(n, "cli:direct (1)") && strings.Contains(n, "nanobot migrate")
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		return told
	}
	if start() {
		t.Error("told before there was anything")
	}
	file := filepath.Join(dir, "workspace", "sessions", "cli_direct.jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	log := `{"_type": "metadata", "key": "cli:direct", "created_at": "2026-05-02T10:00:00", "metadata": {}, "last_consolidated": 0}` + "\n" +
		`{"role": "user", "content": "hello", "timestamp": "2026-05-02T10:00:00"}` + "\n"
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if !start() {
		t.Error("not told")
	}
	if start() {
		t.Error("told twice")
	}
}
