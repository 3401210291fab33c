package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Fence marks content that came from outside, so that the model can tell it
// from what its user wants. The id is a hash of the call and of the content
// itself: content cannot contain its own hash, no call has the id of another,
// and a replayed turn has the same bytes. Copies of the marker inside are bent.
func Fence(c llm.Content, callID, source string) llm.Content {
	sum := sha256.Sum256([]byte(callID + "\x00" + source + "\x00" + c.String()))
	id := hex.EncodeToString(sum[:8])
	opens := "<untrusted id=" + id + " source=" + source + ">"
	closes := "</untrusted id=" + id + ">"
	if c.Blocks == nil {
		return llm.Text(opens + "\n" + bend(c.Text) + "\n" + closes)
	}

	blocks := []llm.Block{{Type: "text", Text: opens}}
	for _, b := range c.Blocks {
		b.Text = bend(b.Text)
		blocks = append(blocks, b)
	}
	return llm.Content{Blocks: append(blocks, llm.Block{Type: "text", Text: closes})}
}

// Fenced reports whether content stands in a fence as a whole. It looks at the
// beginning only, so it costs the same for every length.
func Fenced(c llm.Content) bool {
	said := c.Text
	if len(c.Blocks) > 0 {
		said = c.Blocks[0].Text
	}
	return strings.HasPrefix(said, "<untrusted id=")
}

// Unfence is the text of a result as people should see it, and whether it was
// fenced.
func Unfence(c llm.Content) (string, bool) {
	said := c.String()
	if !Fenced(c) {
		return said, false
	}
	_, said, _ = strings.Cut(said, "\n")
	if i := strings.LastIndex(said, "</untrusted id="); i >= 0 {
		said = strings.TrimSuffix(said[:i], "\n")
	}
	return said, true
}

var marker = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)[<＜]([\s/]*untrusted)`) })

// bend makes marker words inside the content look different from ours.
func bend(s string) string {
	if !strings.ContainsAny(s, "<＜") {
		return s
	}
	return marker().ReplaceAllString(s, "&lt;$1")
}
