package diskio_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// A hard link to a file in a protected folder shows nothing, whenever it was made;
// hard links between other files are ordinary.
func TestHardLinksIntoProtectedFolders(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not tell how many names a file has without opening each")
	}
	dir := t.TempDir()
	ws, secrets, cache := filepath.Join(dir, "ws"), filepath.Join(dir, "data", "secrets"), filepath.Join(dir, "data", "cache")
	put := func(path string) string {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(from, to string) string {
		t.Helper()
		if err := os.Link(from, to); err != nil {
			t.Skip("no hard links here: ", err)
		}
		return to
	}
	before := link(put(filepath.Join(secrets, "deep", "key")), put(filepath.Join(ws, "dir", "x"))+"-before")
	for _, restrict := range []bool{true, false} {
		j, err := diskio.OpenJail(diskio.JailOptions{
			Workspace: ws, Restrict: restrict, Protected: []string{filepath.Join(dir, "data")}, Unlinked: []string{secrets, filepath.Join(dir, "none")},
		})
		if err != nil {
			t.Fatal(err)
		}
		name := map[bool]string{true: "a", false: "b"}[restrict]
		own := link(put(filepath.Join(ws, name+"-own")), filepath.Join(ws, name+"-again"))
		cached := link(put(filepath.Join(cache, name)), filepath.Join(ws, name+"-cached"))
		for range 3 {
			for _, path := range []string{own, cached} {
				if f, err := j.Open(path); err != nil {
					t.Errorf("restrict %v: %v", restrict, err)
				} else {
					_ = f.Close()
				}
			}
			if f, err := j.Open(before); !errors.Is(err, diskio.ErrProtected) {
				t.Errorf("restrict %v: a link from before: %v, %v", restrict, f, err)
			}
		}
		after := link(put(filepath.Join(secrets, name)), filepath.Join(ws, name+"-after"))
		if _, err := j.Open(after); !errors.Is(err, diskio.ErrProtected) {
			t.Errorf("restrict %v: a link from now: %v", restrict, err)
		}
		err = j.Close()
		if err != nil {
			t.Error(err)
		}
	}
}
