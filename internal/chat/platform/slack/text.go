package slack

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// plain makes of Slack's markup the words that people see: names instead of
// ids, addresses instead of brackets. The mention of one person is left out; ""
// is none.
func plain(s, without string, name func(id string) string) string {
	var out strings.Builder
	for s != "" {
		before, rest, found := strings.Cut(s, "<")
		out.WriteString(before)
		if !found {
			break
		}

		end := strings.IndexAny(rest, "<>")
		if end < 0 || rest[end] == '<' {
			out.WriteByte('<')
			s = rest
			continue
		}

		inner := rest[:end]
		s = rest[end+1:]
		if id, _, _ := strings.Cut(inner, "|"); without != "" && id == "@"+without {
			s = strings.TrimPrefix(s, " ")
			continue
		}
		out.WriteString(token(inner, name))
	}

	return strings.TrimSpace(text.Valid(unescaper().Replace(out.String())))
}

// mentioned reports whether the bot is named in a text.
func (b *bot) mentioned(s string) bool {
	me := "<@" + b.me.Load().UserID
	return strings.Contains(s, me+">") || strings.Contains(s, me+"|")
}

// token returns what people see of a piece in angle brackets.
func token(inner string, name func(id string) string) string {
	target, label, _ := strings.Cut(inner, "|")
	switch {
	case target == "":
		return "<" + inner + ">"
	case target[0] == '@':
		if label != "" {
			return "@" + strings.TrimPrefix(label, "@")
		}
		return "@" + name(target[1:])

	case target[0] == '#':
		if label != "" {
			return "#" + label
		}
		return "#" + target[1:]

	case target[0] == '!':
		if label != "" {
			return label
		}
		word, _, _ := strings.Cut(target[1:], "^")
		return "@" + word

	case label == "" || strings.HasSuffix(target, label):
		return strings.TrimPrefix(target, "mailto:")
	}

	return label + " (" + target + ")"
}

func unescaper() *strings.Replacer {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
}

func escaper() *strings.Replacer {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
}
