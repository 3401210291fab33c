package mattermost

import "strings"

// harmless keeps a text from calling all members of a channel and, unless the
// settings allow it, from loading pictures of foreign addresses: what is in such
// an address would leave without a click. Code stays as it is.
func harmless(s string, pictures bool) string {
	if !strings.ContainsAny(s, "@!") {
		return s
	}

	var out strings.Builder
	fence := ""
	for line := range strings.Lines(s) {
		trimmed := strings.TrimLeft(line, " >")
		switch mark := fenceOf(trimmed); {
		case fence == "" && mark != "":
			fence = mark
		case fence != "" && strings.HasPrefix(mark, fence):
			fence = ""
		case fence == "":
			line = harmlessLine(line, pictures)
		}

		out.WriteString(line)
	}

	return out.String()
}

// fenceOf returns the row of marks that begins or ends a block of code.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return strings.Repeat(c, n)
		}
	}
	return ""
}

func harmlessLine(line string, pictures bool) string {
	var out strings.Builder
	code := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '`':
			code = !code && strings.IndexByte(line[i+1:], '`') >= 0
			out.WriteByte(c)
		case c == '@' && !code && callsAll(line[i+1:]):
			out.WriteString("＠") // looks the same and does not notify
		case c == '!' && !code && !pictures && strings.HasPrefix(line[i+1:], "["):
		default:
			out.WriteByte(c)
		}
	}

	return out.String()
}

// callsAll reports whether an @ before rest calls all members of a channel.
func callsAll(rest string) bool {
	for _, word := range []string{"all", "channel", "here"} {
		if len(rest) >= len(word) && strings.EqualFold(rest[:len(word)], word) && endsName(rest[len(word):]) {
			return true
		}
	}
	return false
}
