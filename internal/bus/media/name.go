package media

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const nameMax = 100 // bytes; a random prefix comes before it

// FileName makes of a sender's file name one that any file system takes, that
// leads nowhere else, looks like what it is, and stays within the brackets in
// which the agent is told of a file.
func FileName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || strings.ContainsRune(`<>:"/\|?*`, r):
			return '_'
		case r == '[':
			return '('
		case r == ']':
			return ')'
		}
		return r
	}, norm.NFC.String(name))

	name = strings.Trim(name, " .")
	for len(name) > nameMax { // keep the end: it says what kind of file it is
		_, size := utf8.DecodeRuneInString(name)
		name = name[size:]
	}

	if name == "" {
		return "file"
	}
	if reserved(name) {
		return "_" + name
	}
	return name
}

// reserved reports whether Windows has something else under this name.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch stem {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "COM" || stem[:3] == "LPT") && stem[3] >= '0' && stem[3] <= '9'
}
