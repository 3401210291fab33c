package telegram

import (
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// richText is a message that Telegram itself renders from Markdown, with real
// headings, lists and tables. Newer servers know it; it is a setting because
// older apps show less of it.
type richText struct {
	Markdown string `json:"markdown"`
	Plain    bool   `json:"skip_entity_detection"` // addresses stay words
}

// rich returns the text as a rich message, nil if it is to be HTML.
func (b *bot) rich(out bus.Outbound) *richText {
	if !b.o.RichMessages || b.poor.Load() || out.Plain || quiet(out.Kind) || !harmless(out.Text) {
		return nil
	}
	return &richText{Markdown: out.Text, Plain: true}
}

// harmless reports whether Telegram would make of a text no more than its words.
// It fetches the pictures that a rich message names, from anywhere, and reads
// tags: with both a text that another person wrote could carry words of ours
// away, or hide them. Addresses go where their preview can be switched off.
func harmless(source string) bool {
	for _, s := range []string{"![", "<", "](", "][", "]:", "://"} {
		if strings.Contains(source, s) {
			return false
		}
	}
	return true
}

// conclusive reports whether the answer to a rich message is the last word. If it
// is not, HTML is tried: the text may be more than a rich message can hold, and
// a server that does not know them is not asked again.
func (b *bot) conclusive(err error) bool {
	e := refusal(err)
	if e == nil {
		return true
	}
	if e.Code == http.StatusNotFound {
		b.poor.Store(true)
		return false
	}
	return !aboutMarkup(e)
}
