package config_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Without a home folder nothing is looked for, or made, in the folder of the start.
func TestNoHome(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system has no HOME")
	}
	dir, start := t.TempDir(), t.TempDir()
	t.Chdir(start)
	for _, home := range []string{"", ".", "here"} {
		t.Setenv("HOME", home)
		if _, err := config.Load(config.Options{Env: os.Environ()}); err == nil || !strings.Contains(err.Error(), "NANOBOT_HOME") {
			t.Errorf("HOME=%q: %v", home, err)
		}
		if _, err := config.Load(config.Options{Path: "~/c.json", Optional: true}); err == nil {
			t.Errorf("HOME=%q: ~ is a folder", home)
		}
		for _, o := range []config.Options{
			{Env: []string{"NANOBOT_HOME=" + dir}},
			{Path: filepath.Join(dir, "config.json"), Optional: true},
		} {
			l, err := config.Load(o)
			if err != nil {
				t.Errorf("HOME=%q: %v", home, err)
				continue
			}
			if ws := l.Workspace(); l.DataDir != dir || !strings.HasPrefix(ws, dir+string(filepath.Separator)) {
				t.Errorf("HOME=%q: data in %s, workspace %s", home, l.DataDir, ws)
			}
		}
	}
	if left, _ := os.ReadDir(start); len(left) > 0 {
		t.Errorf("made: %v", left)
	}
}
