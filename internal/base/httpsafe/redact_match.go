package httpsafe

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// matcher finds any of many texts in one pass. It looks at the last three bytes
// of a window as long as the shortest text and, where no text has them, moves
// on by several bytes at once, so that most of the input is never read.
type matcher struct {
	needles []needle // by text
	window  int      // in bytes
	longest int
	shift   []uint8            // by hash of three bytes; 0: a text may end its window here
	bucket  map[uint16][]int32 // texts by the hash at the end of their window
	first   [256]bool          // bytes a text begins with
}

type needle struct{ text, name string }

const (
	hashBits  = 15
	maxWindow = 64 // windows longer than this gain nothing
)

func hash3(a, b, c byte) uint16 {
	v := uint32(a) | uint32(b)<<8 | uint32(c)<<16
	return uint16(v * 2654435769 >> (32 - hashBits))
}

// newMatcher prepares the search for values and their encoded forms.
func newMatcher(values map[string]string) *matcher {
	m := &matcher{window: maxWindow}
	seen := map[string]string{}
	for value, name := range values {
		for _, f := range forms(value) {
			if old, dup := seen[f]; len(f) >= minSecret && (!dup || name < old) {
				seen[f] = name
			}
		}
		seen[value] = name // its own name wins over another's encoding
	}

	for text, name := range seen {
		m.needles = append(m.needles, needle{text, name})
		m.window, m.longest = min(m.window, len(text)), max(m.longest, len(text))
		m.first[text[0]] = true
	}

	if len(m.needles) == 0 {
		return m
	}

	slices.SortStableFunc(m.needles, func(a, b needle) int { return cmp.Compare(a.text, b.text) })
	m.shift = make([]uint8, 1<<hashBits)
	for i := range m.shift {
		m.shift[i] = uint8(m.window - 2) //nolint:gosec // at most 62
	}

	m.bucket = make(map[uint16][]int32, len(m.needles))
	for i, n := range m.needles {
		for end := 2; end < m.window; end++ {
			h := hash3(n.text[end-2], n.text[end-1], n.text[end])
			m.shift[h] = min(m.shift[h], uint8(m.window-1-end)) //nolint:gosec // at most 63
			if end == m.window-1 {
				m.bucket[h] = append(m.bucket[h], int32(i))
			}
		}
	}

	return m
}

func (m *matcher) orNil() *matcher {
	if len(m.needles) == 0 {
		return nil
	}
	return m
}

// next finds the first text in s that starts at from or later; of several that
// start there, the longest. The start is -1 when there is none.
func (m *matcher) next(s string, from int) (start int, found needle) {
	shift := m.shift
	for pos := from + m.window - 1; pos < len(s); {
		h := hash3(s[pos-2], s[pos-1], s[pos])
		if d := shift[h]; d > 0 {
			pos += int(d)
			continue
		}

		start := pos - m.window + 1
		for _, i := range m.bucket[h] {
			if n := m.needles[i]; len(n.text) > len(found.text) && strings.HasPrefix(s[start:], n.text) {
				found = n
			}
		}

		if found.text != "" {
			return start, found
		}
		pos++
	}

	return -1, found
}

// span returns the next stretch of s that is covered by texts, which may overlap.
func (m *matcher) span(s string, from int) (start, end int, name string, ok bool) {
	start, n := m.next(s, from)
	if start < 0 {
		return 0, 0, "", false
	}

	end = start + len(n.text)
	for at := start + 1; at < end; {
		reach := min(len(s), end-1+m.longest)
		next, more := m.next(s[:reach], at)
		if next < 0 || next >= end {
			break
		}
		end = max(end, next+len(more.text))
		at = next + 1
	}

	return start, end, n.name, true
}

// partial returns where the longest suffix of s begins that could become one
// of the texts if more followed; len(s) when there is none.
func (m *matcher) partial(s string) int {
	for p := max(0, len(s)-m.longest+1); p < len(s); p++ {
		if !m.first[s[p]] {
			continue
		}

		suffix := s[p:]
		i, exact := slices.BinarySearchFunc(m.needles, suffix, func(n needle, want string) int { return strings.Compare(n.text, want) })
		if exact {
			i++
		}

		if i < len(m.needles) && strings.HasPrefix(m.needles[i].text, suffix) {
			return p
		}
	}
	return len(s)
}

// forms lists how a value may be written.
func forms(v string) []string {
	out := []string{v}
	add := func(s string) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, esc := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		add(esc)
		add(lowerEscapes(esc))
	}

	if b, err := json.Marshal(v); err == nil {
		plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
		for _, q := range []string{string(b), plain, strings.ReplaceAll(plain, "/", `\/`), strconv.Quote(v)} {
			inner := q[1 : len(q)-1]
			add(inner)
			if strings.Contains(inner, `\`) { // JSON inside JSON
				again := strconv.Quote(inner)
				add(again[1 : len(again)-1])
			}
		}
	}

	add(hex.EncodeToString([]byte(v)))
	add(strings.ToUpper(hex.EncodeToString([]byte(v))))
	for offset := range 3 {
		add(base64Core(v, offset, base64.RawStdEncoding))
		add(base64Core(v, offset, base64.RawURLEncoding))
	}
	return out
}

// base64Core returns the part of the base64 form of a text containing v that does
// not depend on what stands around it, if v begins offset bytes into a group.
func base64Core(v string, offset int, enc *base64.Encoding) string {
	s := enc.EncodeToString(append(make([]byte, offset), v...))
	first := (offset*8 + 5) / 6
	last := (offset + len(v)) * 8 / 6
	return s[first:last]
}

func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(s[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// percentDecoded undoes %XX, "" when there is none. Malformed escapes stay.
func percentDecoded(s string) string {
	if !strings.Contains(s, "%") {
		return ""
	}

	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}

	return string(b)
}

// unicodeDecoded undoes \uXXXX, "" when there is none.
func unicodeDecoded(s string) string {
	if !strings.Contains(s, `\u`) {
		return ""
	}

	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+5 < len(s) && s[i+1] == 'u' {
			if n, err := strconv.ParseUint(s[i+2:i+6], 16, 16); err == nil {
				b = utf8.AppendRune(b, rune(n))
				i += 5
				continue
			}
		}
		b = append(b, s[i])
	}

	return string(b)
}
