package origin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// TestMain is also the process that dies in TestProcessThatDied.
func TestMain(m *testing.M) {
	dir, root, ok := strings.Cut(os.Getenv("ORIGIN_DIE"), "|")
	if !ok {
		m.Run()
		return
	}
	s, err := origin.Open(origin.Options{Store: disk.Open(dir, nil), Name: "ws", Root: root})
	if err == nil {
		_, err = s.Begin(origin.Running{})
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "written.txt"), []byte(text), 0o600)
	}
	if err != nil {
		panic(err)
	} // else the process ends, and the window does not
}

// settleClock waits until files that are written now are surely later than
// the one at path.
func settleClock(tb testing.TB, path string) {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	timer := time.NewTimer(time.Until(info.ModTime().Add(60 * time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-tb.Context().Done():
	}
}
