package markdown

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxInline is the longest paragraph that is looked at for markup, in bytes.
const maxInline = 64 << 10

// maxAddress is the longest address of a link, in bytes.
const maxAddress = 4 << 10

// inline reads the words of a paragraph.
func inline(s string) []Node {
	if s == "" {
		return nil
	}
	if len(s) > maxInline {
		return []Node{{Kind: Text, Text: s}}
	}
	p := &words{s: s}
	p.head.next, p.head.prev = &p.head, &p.head
	for p.i < len(s) {
		p.step()
	}
	p.flush()
	p.emphasize(&p.head)
	return p.nodes(p.head.next, &p.head)
}

// piece is a node while its paragraph is read, in a ring. A run of * or _ or ~
// and an opening bracket are text unless something closes them.
type piece struct {
	prev, next  *piece
	node        Node
	depth       int
	delim       byte // * _ ~ of a run, [ or ! of a bracket
	n, orig     int  // of the run: left, and at first
	open, close bool
	dead        bool // a bracket that can be no link any more
	at          int  // of a bracket: where its text begins
}

type words struct {
	s     string
	i     int
	text  strings.Builder // not in a piece yet
	head  piece           // of the ring
	ticks map[int]bool    // lengths of backtick runs that nothing closes
	stack []*piece        // open brackets
}

func (p *words) push(x *piece) *piece {
	p.flush()
	x.prev, x.next = p.head.prev, &p.head
	x.prev.next, p.head.prev = x, x
	return x
}

// flush makes a piece of the text read so far.
func (p *words) flush() {
	if p.text.Len() == 0 {
		return
	}
	t := p.text.String()
	p.text.Reset()
	p.push(&piece{node: Node{Kind: Text, Text: t}})
}

// step reads whatever stands at p.i.
func (p *words) step() {
	c := p.s[p.i]
	done := false
	switch c {
	case '\\':
		done = p.escape()
	case '`':
		p.code()
		done = true
	case '*', '_', '~':
		done = p.delimiter(c)
	case '[':
		p.bracket('[', 1)
		done = true
	case '!':
		if done = strings.HasPrefix(p.s[p.i:], "!["); done {
			p.bracket('!', 2)
		}
	case ']':
		done = p.link()
	case '<':
		done = p.angle()
	case '&':
		done = p.entity()
	case '\n':
		p.lineEnd()
		done = true
	case 'h', 'H':
		done = p.bare()
	}
	if done {
		return
	}
	n := 1
	for p.i+n < len(p.s) && strings.IndexByte("\\`*_~[!]<&\nhH", p.s[p.i+n]) < 0 {
		n++
	}
	p.text.WriteString(p.s[p.i : p.i+n])
	p.i += n
}

func (p *words) escape() bool {
	if p.i+1 >= len(p.s) {
		return false
	}
	switch c := p.s[p.i+1]; {
	case c == '\n':
		p.push(&piece{node: Node{Kind: HardBreak}})
		p.i += 2
		p.skipSpace()
	case isPunct(c):
		p.text.WriteByte(c)
		p.i += 2
	default:
		return false
	}
	return true
}

func isPunct(c byte) bool {
	return c > ' ' && c < 0x7f && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

func (p *words) skipSpace() {
	for p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
	}
}

func (p *words) lineEnd() {
	t := p.text.String()
	bare := strings.TrimRight(t, " ")
	p.text.Reset()
	p.text.WriteString(bare)
	kind := SoftBreak
	if len(t)-len(bare) >= 2 {
		kind = HardBreak
	}
	p.push(&piece{node: Node{Kind: kind}})
	p.i++
	p.skipSpace()
}

func (p *words) code() {
	n := run(p.s[p.i:], '`')
	rest := p.s[p.i+n:]
	if !p.ticks[n] {
		for i := 0; i < len(rest); {
			k := strings.IndexByte(rest[i:], '`')
			if k < 0 {
				break
			}
			m := run(rest[i+k:], '`')
			if m == n {
				p.push(&piece{node: Node{Kind: CodeSpan, Text: codeText(rest[:i+k])}})
				p.i += n + i + k + n
				return
			}
			i += k + m
		}
		if p.ticks == nil {
			p.ticks = map[int]bool{}
		}
		p.ticks[n] = true
	}
	p.text.WriteString(p.s[p.i : p.i+n])
	p.i += n
}

func codeText(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if len(s) > 2 && s[0] == ' ' && s[len(s)-1] == ' ' && strings.Trim(s, " ") != "" {
		return s[1 : len(s)-1]
	}
	return s
}

// delimiter reads a run that may begin or end emphasis.
func (p *words) delimiter(c byte) bool {
	n := run(p.s[p.i:], c)
	before, _ := utf8.DecodeLastRuneInString(p.s[:p.i])
	after, _ := utf8.DecodeRuneInString(p.s[p.i+n:])
	if p.i == 0 {
		before = ' '
	}
	if p.i+n == len(p.s) {
		after = ' '
	}
	left := !unicode.IsSpace(after) && (!punct(after) || unicode.IsSpace(before) || punct(before))
	right := !unicode.IsSpace(before) && (!punct(before) || unicode.IsSpace(after) || punct(after))
	x := &piece{node: Node{Kind: Text}, delim: c, n: n, orig: n, open: left, close: right}
	switch {
	case c == '_':
		x.open, x.close = left && (!right || punct(before)), right && (!left || punct(after))
	case c == '~' && n != 2: // a single one stands for "about" far too often
		x.open, x.close = false, false
	}
	p.push(x)
	p.i += n
	return true
}

func punct(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

func (p *words) bracket(c byte, n int) {
	x := p.push(&piece{node: Node{Kind: Text, Text: p.s[p.i : p.i+n]}, delim: c, at: p.i + n})
	p.stack = append(p.stack, x)
	p.i += n
}

// link closes a bracket, if an address follows.
func (p *words) link() bool {
	if len(p.stack) == 0 {
		return false
	}
	from := p.stack[len(p.stack)-1]
	p.stack = p.stack[:len(p.stack)-1]
	if from.dead {
		return false
	}
	url, n, ok := target(p.s[p.i+1:])
	if !ok {
		return false
	}
	p.flush()
	p.emphasize(from)
	node := Node{Kind: Link, URL: url, Children: p.nodes(from.next, &p.head)}
	depth := 1 + p.deepest(from.next, &p.head)
	if from.delim == '!' {
		node.Kind = Image
	} else {
		for _, b := range p.stack { // no links within links
			b.dead = b.dead || b.delim == '['
		}
	}
	from.prev.next, p.head.prev = &p.head, from.prev
	p.push(&piece{node: node, depth: depth})
	p.i += 1 + n
	return true
}

func (p *words) deepest(from, to *piece) (d int) {
	for x := from; x != to; x = x.next {
		d = max(d, x.depth)
	}
	return d
}

// target reads (address "title").
func target(s string) (url string, n int, ok bool) {
	if !strings.HasPrefix(s, "(") {
		return "", 0, false
	}
	i := 1 + space(s[1:])
	url, k, ok := address(s[i:])
	if !ok {
		return "", 0, false
	}
	i += k
	gap := space(s[i:])
	i += gap
	if gap > 0 && i < len(s) && strings.IndexByte(`"'(`, s[i]) >= 0 {
		end := s[i]
		if end == '(' {
			end = ')'
		}
		k := 1
		for ; i+k < len(s) && s[i+k] != end; k++ {
			if s[i+k] == '\\' {
				k++
			}
		}
		if i+k >= len(s) {
			return "", 0, false
		}
		i += k + 1
		i += space(s[i:])
	}
	if i >= len(s) || s[i] != ')' {
		return "", 0, false
	}
	return url, i + 1, true
}

func space(s string) int { return len(s) - len(strings.TrimLeft(s, " \t\n")) }

// address reads <anything but line ends> or text with balanced parentheses.
func address(s string) (url string, n int, ok bool) {
	if strings.HasPrefix(s, "<") {
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '\n', '<':
				return "", 0, false
			case '>':
				return unescape(s[1:i]), i + 1, true
			}
		}
		return "", 0, false
	}
	depth := 0
	for n < min(len(s), maxAddress) && s[n] > ' ' && s[n] != 0x7f {
		switch s[n] {
		case '\\':
			if n+1 < len(s) && isPunct(s[n+1]) {
				n++
			}
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth < 0 {
			break
		}
		n++
	}
	return unescape(s[:n]), n, depth <= 0
}

// unescape takes backslashes before punctuation away and reads entities.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && isPunct(s[i+1]) {
			i++
		} else if s[i] == '&' {
			if t, n := readEntity(s[i:]); n > 0 {
				b.WriteString(t)
				i += n - 1
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (p *words) entity() bool {
	t, n := readEntity(p.s[p.i:])
	p.text.WriteString(t)
	p.i += n
	return n > 0
}

// readEntity reads one such as &amp; and says how long it is, 0 for none.
func readEntity(s string) (string, int) {
	n := strings.IndexByte(s[:min(len(s), 34)], ';') + 1
	if n < 3 {
		return "", 0
	}
	t := html.UnescapeString(s[:n])
	if t == s[:n] || strings.HasSuffix(t, ";") && t != ";" {
		return "", 0
	}
	return t, n
}

// angle reads <https://...>, <someone@example.org> and <br>.
func (p *words) angle() bool {
	end := strings.IndexByte(p.s[p.i:], '>')
	if end < 0 {
		return false
	}
	in := p.s[p.i+1 : p.i+end]
	switch {
	case strings.EqualFold(strings.TrimRight(in, " /"), "br"):
		p.push(&piece{node: Node{Kind: HardBreak}})
		p.i += end + 1
		if p.i < len(p.s) && p.s[p.i] == '\n' {
			p.i++
			p.skipSpace()
		}
		return true
	case strings.ContainsAny(in, " \n\t<"):
		return false
	case scheme(in):
		p.auto(in, in)
	case isMail(in):
		p.auto("mailto:"+in, in)
	default:
		return false
	}
	p.i += end + 1
	return true
}

func (p *words) auto(url, text string) {
	p.push(&piece{node: Node{Kind: Link, URL: url, Children: []Node{{Kind: Text, Text: text}}}})
}

func scheme(s string) bool {
	name, _, ok := strings.Cut(s, ":")
	if !ok || len(name) < 2 || len(name) > 32 {
		return false
	}
	for i, c := range []byte(name) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '.' && c != '-') {
			return false
		}
	}
	return true
}

func isMail(s string) bool {
	name, host, ok := strings.Cut(s, "@")
	return ok && name != "" && host != "" && !strings.ContainsAny(host, "@_/:") && !strings.ContainsAny(name, `\()[]:;,"`)
}

// bare reads a web address without marks around it.
func (p *words) bare() bool {
	rest := p.s[p.i:]
	low := strings.ToLower(rest[:min(8, len(rest))])
	if !strings.HasPrefix(low, "http://") && low != "https://" {
		return false
	}
	if r, _ := utf8.DecodeLastRuneInString(p.s[:p.i]); p.i > 0 && !unicode.IsSpace(r) && !strings.ContainsRune("*_~([", r) {
		return false
	}
	for _, b := range p.stack {
		if b.delim == '[' && !b.dead && strings.Contains(rest, "](") {
			return false // the text of a link
		}
	}
	n := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == '<' || r == '`' })
	if n < 0 {
		n = len(rest)
	}
	url := trimAddress(rest[:n])
	if host := url[strings.Index(url, "//")+2:]; host == "" || isPunct(host[0]) {
		return false
	}
	p.auto(url, url)
	p.i += len(url)
	return true
}

// trimAddress leaves off what ends a sentence rather than an address.
func trimAddress(s string) string {
	for s != "" {
		last := s[len(s)-1]
		switch {
		case strings.IndexByte("?!.,:*_~'\"]", last) >= 0:
		case last == ')' && strings.Count(s, ")") > strings.Count(s, "("):
		case last == ';':
			if i := strings.LastIndexByte(s, '&'); i >= 0 && !strings.ContainsAny(s[i+1:len(s)-1], "/?=&.") {
				s = s[:i]
				continue
			}
		default:
			return s
		}
		s = s[:len(s)-1]
	}
	return s
}
