package diskio_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// A workspace inside a protected folder is open, and nothing else in there is:
// neither what exists, nor what appears later, nor what is protected inside of
// the workspace again.
func TestRootsInsideProtected(t *testing.T) {
	t.Parallel()
	for _, restrict := range []bool{false, true} {
		data := t.TempDir()
		put := func(name string) string {
			t.Helper()
			path := filepath.Join(data, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
				t.Fatal(err)
			}
			return path
		}
		open := []string{put("workspace/a.txt"), put("media/b.txt")}
		shut := []string{
			put("config.json"), put("usage/totals.json"), put("a-name-of-tomorrow"), put("workspace2/c"), put("workspace/shut/d"),
			filepath.Join(data, "workspace", "..", "config.json"),
		}
		j, err := diskio.OpenJail(diskio.JailOptions{
			Workspace: filepath.Join(data, "workspace"), Restrict: restrict, ReadOnly: []string{filepath.Join(data, "media")},
			Protected: []string{data, filepath.Join(data, "workspace", "shut")},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range open {
			if f, err := j.Open(path); err != nil {
				t.Errorf("restrict %v: %v", restrict, err)
			} else if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, path := range append(shut, put("later")) {
			if _, err := j.Open(path); !errors.Is(err, diskio.ErrProtected) {
				t.Errorf("restrict %v: Open %s: %v", restrict, path, err)
			}
			if _, err := j.WriteAtomic(t.Context(), path, []byte("y")); err == nil {
				t.Errorf("restrict %v: wrote %s", restrict, path)
			}
		}
		if list, err := j.ReadDir(data); err == nil {
			t.Errorf("restrict %v: listed the data folder: %v", restrict, list)
		}
		link := filepath.Join(data, "workspace", "link")
		if err := os.Link(filepath.Join(data, "config.json"), link); err == nil {
			if f, err := j.Open(link); err == nil {
				_ = f.Close()
				t.Logf("restrict %v: a hard link into a protected folder is not recognised", restrict)
			}
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}
