package qq

import (
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// version is one way to say a message. The next one is tried if QQ refuses it.
type version struct {
	text     string
	markdown bool
	urls     bool // only if QQ refused an address in the one before
}

// versions returns the ways to say a text, the best first.
func (b *bot) versions(out bus.Outbound, k kind) []version {
	tree := markdown.Parse(out.Text)
	plain := out.Text
	if !out.Plain && out.Kind != bus.ToolHint {
		plain = markdown.Plain(tree)
	}
	if strings.TrimSpace(plain) == "" || utf8.RuneCountInString(plain) > hardText { // tables grow
		plain = out.Text
	}

	plain = harmless(plain)

	// QQ would fetch pictures, and what is in such an address would leave without a
	// click: a text with one is sent without markup.
	var list []version
	if b.o.MsgFormat == formatMarkdown && k.modern() && !out.Plain && !tree.Has(markdown.Image) {
		list = append(list, version{text: harmless(out.Text), markdown: true})
	}

	list = append(list, version{text: plain})
	if veiled := addresses(plain, veil); veiled != plain {
		list = append(list, version{text: veiled, urls: true}, version{text: addresses(plain, func(string) string { return "[link]" }), urls: true})
	}
	return list
}

// harmless keeps a text from calling people and from being read as a sign of QQ,
// whatever the model wrote.
func harmless(s string) string {
	return strings.NewReplacer(
		"<@", "<\u200b@",
		"<#", "<\u200b#",
		"<qqbot-", "<\u200bqqbot-",
		"<emoji:", "<\u200bemoji:",
		"<faceType", "<\u200bfaceType",
		"@everyone", "＠everyone",
	).Replace(s)
}

// addresses replaces the web addresses in a text.
func addresses(s string, with func(address string) string) string {
	var b strings.Builder
	for {
		i := next(s)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}

		end := strings.IndexFunc(s[i:], func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`<>"')]`, r)
		})
		if end < 0 {
			end = len(s) - i
		}

		b.WriteString(s[:i] + with(s[i:i+end]))
		s = s[i+end:]
	}
}

// next returns where the next address begins, -1 if there is none.
func next(s string) int {
	a, b := strings.Index(s, "http://"), strings.Index(s, "https://")
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// veil writes an address so that QQ does not take it for one, and a person still
// reads it.
func veil(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	host, path, more := strings.Cut(rest, "/")
	address = scheme + "://" + strings.ReplaceAll(host, ".", "。")
	if more {
		address += "/" + path
	}
	return address
}
