package feishu

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
)

// What becomes of every kind of block and word.
func TestRenderSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "card", func(s string) string { return toCard(markdown.Parse(s), maxTables) })
}
