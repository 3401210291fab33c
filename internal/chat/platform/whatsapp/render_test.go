package whatsapp

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
)

// What becomes of every kind of block and word.
func TestRenderSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "render", render)
}
