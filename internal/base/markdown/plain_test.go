package markdown_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
)

func TestPlainSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "plain", func(s string) string { return markdown.Plain(markdown.Parse(s)) })
}
