package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// The way to a workspace that somebody names is not made.
func TestWorkspaceOfATypingError(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l, err := config.Load(config.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(home, "nope", "x")
	if _, err := app.Workspace(wrong, l); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Dir(wrong)); err == nil {
		t.Error("it was made")
	}
	for _, right := range []string{"", filepath.Join(home, "x"), home} {
		if _, err := app.Workspace(right, l); err != nil {
			t.Errorf("%q: %v", right, err)
		}
	}
}
