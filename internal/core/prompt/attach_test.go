package prompt

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// A picture that cannot be shown is said to be what it is: damaged, or one too
// many for what a request holds.
func TestPictureNotShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 9000, 100))); err != nil {
		t.Fatal(err)
	}
	// A PNG whose pixels end too early, and that is too large to be passed on as it is.
	broken := b.Bytes()[:b.Len()/2]
	path := filepath.Join(dir, "broken.png")
	if err := os.WriteFile(path, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	p := New(Options{Workspace: dir})
	images, notes := p.attachments(t.Context(), []bus.Media{{Path: path}})
	said := strings.Join(notes, "\n")
	if len(images) != 0 || !strings.Contains(said, "damaged") || strings.Contains(said, "too large") || !strings.Contains(said, path) {
		t.Errorf("%d pictures, %q", len(images), said)
	}
}
