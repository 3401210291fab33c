package channel

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const nameMax = 100 // bytes; a random prefix comes before it

// SafeName makes of a sender's file name one that any file system takes and
// that leads nowhere else.
func SafeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || strings.ContainsRune(`<>:"/\|?*`, r) {
			return '_'
		}
		return r
	}, name)
	name = strings.Trim(name, " .")
	for len(name) > nameMax { // keep the end: it says what kind of file it is
		_, size := utf8.DecodeRuneInString(name)
		name = name[size:]
	}
	if name == "" {
		return "file"
	}
	return name
}
