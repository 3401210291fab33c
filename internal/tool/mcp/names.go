package mcp

import (
	"crypto/sha1" //nolint:gosec // a short name, not a signature; the form is given by the format of names
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
)

// maxName is what all providers accept as the name of a tool.
const maxName = 64

// kind is what a server offers.
type kind string

const (
	kindTool     kind = ""
	kindResource kind = "resource"
	kindPrompt   kind = "prompt"
)

func (k kind) label() string {
	if k == kindTool {
		return "tool"
	}
	return string(k)
}

// offeredName is the name under which the model knows something of a server,
// before collisions are looked at. The prefix keeps it apart from the names of
// built-in tools, whatever a server calls its own.
func offeredName(server string, k kind, raw string) string {
	full := "mcp_" + server + "_"
	if k != kindTool {
		full += string(k) + "_"
	}
	full += raw
	name := plainName(full)
	if len(name) <= maxName {
		return name
	}
	sum := sha1.Sum([]byte(full)) //nolint:gosec // see above
	return name[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
}

// plainName keeps letters, digits, _ and -; anything else becomes _, and
// neighbouring underscores become one.
func plainName(s string) string {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			out = append(out, byte(r)) //nolint:gosec // ASCII, see above
		case len(out) == 0 || out[len(out)-1] != '_':
			out = append(out, '_')
		}
	}
	return string(out)
}

// identity is what stays the same about an offer whatever it is called.
type identity struct {
	server string
	kind   kind
	raw    string
}

func (id identity) suffix() string {
	sum := sha256.Sum256([]byte(id.server + "\x00" + string(id.kind) + "\x00" + id.raw))
	return hex.EncodeToString(sum[:4])
}

// uniqueNames gives every identity a name of its own. All that would share one
// get a suffix, so that none of them can pass as another, and so does what
// would be called like a tool that is not ours. The result does not depend on
// the order. An identity that cannot be told from another has no name.
func uniqueNames(ids []identity, reserved []string) map[identity]string {
	wanted := map[string][]identity{}
	for _, id := range ids {
		name := offeredName(id.server, id.kind, id.raw)
		if !slices.Contains(wanted[name], id) {
			wanted[name] = append(wanted[name], id)
		}
	}
	taken := map[string]int{}
	for _, r := range reserved {
		taken[r] = 2 // never free
	}
	names := map[identity]string{}
	for name, group := range wanted {
		for _, id := range group {
			n := name
			if len(group) > 1 || taken[name] > 1 {
				n = name[:min(len(name), maxName-9)] + "_" + id.suffix()
			}
			names[id] = n
		}
	}
	for _, n := range names {
		taken[n]++
	}
	for id, n := range names {
		if taken[n] > 1 {
			delete(names, id)
		}
	}
	return names
}

// visible removes what a person would not see in a text: control characters
// except line breaks and tabs, direction marks, zero-width and private
// characters, the tag block. They serve to hide instructions.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\u2028' || r == '\u2029' || r == '\v' || r == '\f' || r == '\u0085':
			return '\n'
		case r == unicode.ReplacementChar, unicode.IsControl(r), hidden(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

func hidden(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
		return true
	case r >= 0xE0000 && r <= 0xE0FFF, r >= 0xFE00 && r <= 0xFE0F, r >= 0x180B && r <= 0x180F:
		return true // tags and variation selectors
	case r == 0x034F, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x3164, r == 0xFFA0, r == 0x2800:
		return true // blank letters
	}
	return r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF
}

// oneLine is visible text without line breaks, at most n characters.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(visible(s)), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
