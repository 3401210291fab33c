package text

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShortPath folds a path for a one-line hint of at most n code points: home
// becomes "~"; if that is still too long, the base name and as many of the
// directories before it as fit are kept behind "…/". A base name that is too
// long itself loses its beginning, since the extension says more. Both kinds
// of separators are understood, and "/" is written.
func ShortPath(path, home string, n int) string {
	p := strings.ReplaceAll(path, `\`, "/")
	if h := strings.TrimRight(strings.ReplaceAll(home, `\`, "/"), "/"); h != "" {
		if rest, ok := strings.CutPrefix(p, h); ok && (rest == "" || rest[0] == '/') {
			p = "~" + rest
		}
	}

	if utf8.RuneCountInString(p) <= n {
		return p
	}

	trimmed := strings.TrimRight(p, "/")
	keep := len(trimmed)
	for at := strings.LastIndexByte(trimmed, '/'); at >= 0; at = strings.LastIndexByte(trimmed[:at], '/') {
		if utf8.RuneCountInString(trimmed[at:]) > n-1 {
			break
		}
		keep = at
	}

	if keep < len(trimmed) {
		return "…" + trimmed[keep:]
	}
	if n < 1 {
		return ""
	}
	return "…" + CutEnd(trimmed[strings.LastIndexByte(trimmed, '/')+1:], n-1)
}

// safeNameBytes bounds the readable part of a SafeName; with the hash it stays
// far below the 255 bytes that file systems allow.
const safeNameBytes = 64

// SafeName turns any string, such as an id that a model chose, into a file
// name that is legal on every platform and cannot leave its directory: a
// readable part and, always, a hash of the whole input. Two different inputs
// therefore get different names even where the file system ignores case.
func SafeName(s string) string {
	sum := sha256.Sum256([]byte(s))
	readable := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.IsSpace(r), r == utf8.RuneError, !unicode.IsPrint(r), strings.ContainsRune(`<>:"/\|?*`, r):
			return '_'
		}
		return r
	}, s)

	readable = strings.Trim(readable, "._ ")
	readable = CutBytes(readable, safeNameBytes)
	if readable == "" {
		readable = "x"
	}
	return readable + "-" + hex.EncodeToString(sum[:6])
}
