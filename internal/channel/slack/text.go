package slack

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/text"
)

// plain makes of Slack's markup the words that people see: names instead of
// ids, addresses instead of brackets.
func plain(s string, name func(id string) string) string {
	var out strings.Builder
	for s != "" {
		before, rest, found := strings.Cut(s, "<")
		out.WriteString(before)
		if !found {
			break
		}
		inner, after, closed := strings.Cut(rest, ">")
		if !closed || strings.Contains(inner, "<") {
			out.WriteString("<")
			s = rest
			continue
		}
		s = after
		out.WriteString(token(inner, name))
	}
	return strings.TrimSpace(text.Valid(unescaper().Replace(out.String())))
}

// mentioned reports whether the bot is named in a text.
func (b *bot) mentioned(s string) bool {
	me := "<@" + b.me.Load().UserID
	return strings.Contains(s, me+">") || strings.Contains(s, me+"|")
}

// withoutUs removes the mention that only says that the bot is meant.
func (b *bot) withoutUs(s string) string {
	me := "<@" + b.me.Load().UserID
	s = strings.ReplaceAll(strings.ReplaceAll(s, me+"> ", ""), me+">", "")
	for {
		before, rest, found := strings.Cut(s, me+"|")
		_, after, closed := strings.Cut(rest, ">")
		if !found || !closed {
			return s
		}
		s = before + strings.TrimPrefix(after, " ")
	}
}

// token is what people see of a piece in angle brackets.
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
