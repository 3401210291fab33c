package diskio_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

func TestJailRemove(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.link(t, y.outside, "evil")
	for _, f := range []string{"a", "changed", "locked"} {
		y.put(t, filepath.Join(y.ws, f), "content")
	}
	if err := os.Mkdir(filepath.Join(y.ws, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	j := y.jail(t, func(o *diskio.JailOptions) { o.ProtectedWrite = []string{"locked"} })
	for _, c := range []struct {
		name, path, expect string
		want               error
		gone               bool
	}{
		{"as expected", "a", "content", nil, true},
		{"missing", "none", "", os.ErrNotExist, true},
		{"missing directory", "none/x", "", os.ErrNotExist, true},
		{"other content", "changed", "contenT", diskio.ErrChanged, false},
		{"longer than expected", "changed", "cont", diskio.ErrChanged, false},
		{"protected", "locked", "content", diskio.ErrProtected, false},
		{"directory", "dir", "", diskio.ErrNotRegular, false},
		{"outside", "evil/" + filepath.Base(y.secret), canary, diskio.ErrOutside, false},
		{"parent", "..", "", diskio.ErrOutside, false},
	} {
		if err := j.Remove(t.Context(), c.path, []byte(c.expect)); !errors.Is(err, c.want) {
			t.Errorf("%s: Remove = %v, want %v", c.name, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(y.ws, c.path)); errors.Is(err, os.ErrNotExist) != c.gone {
			t.Errorf("%s: afterwards Stat = %v", c.name, err)
		}
	}
}
