package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

const (
	maxFileBytes = 4 << 20 // far above any real file; bounds memory on a wrong path
	maxDepth     = 100     // the parser recurses
)

// node is one value of the merged tree. Numbers keep their digits, so 64-bit
// identifiers survive.
type node struct {
	kind    hujson.Kind // 'n' 't' 'f' '0' '"' '{' '['
	text    string      // decoded string, or the literal
	members []member    // of an object, in file order
	items   []*node     // of a list
	from    origin
	raw     string // text before references were resolved, if there were any
	unknown bool   // key that no setting has; kept out of decoding
	under   *node  // the value this one replaced
}

type member struct {
	name string
	off  int // offset of the key in the file
	val  *node
}

// origin says where a value came from.
type origin struct {
	layer Layer
	name  string // environment variable or flag path
	off   int    // offset in the file
}

// Layer is a source of settings.
type Layer string

// The layers, weakest first.
const (
	LayerDefault Layer = "default"
	LayerFile    Layer = "file"
	LayerEnv     Layer = "env"
	LayerFlag    Layer = "flag"
)

func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.members {
		if n.members[i].name == name {
			return n.members[i].val
		}
	}
	return nil
}

func (n *node) set(name string, off int, v *node) {
	for i := range n.members {
		if n.members[i].name == name {
			n.members[i].val = v
			return
		}
	}
	n.members = append(n.members, member{name, off, v})
}

// document is a parsed text and the means to speak about positions in it.
type document struct {
	file   string
	text   []byte // without byte order mark
	bom    bool
	value  hujson.Value
	hidden int // bytes appended for the parser
}

// parse reads JSON with comments and trailing commas. An empty text is an
// empty object: an editor that truncated the file lost nothing we could guess,
// but "touch config.json" must not break the first start.
func parse(file string, data []byte) (*document, error) {
	d := &document{file: file}
	d.text, d.bom = bytes.CutPrefix(data, []byte("\xef\xbb\xbf"))
	fail := func(kind Kind, off int, msg, hint string) (*document, error) {
		line, col := d.position(off)
		e := &Error{Kind: kind, File: file, Issues: []Problem{{Message: msg, Hint: hint, Line: line, Column: col}}}
		if kind == InvalidJSON {
			e.Excerpt = d.excerpt(off)
		}
		return nil, e
	}
	switch {
	case len(data) > maxFileBytes:
		return nil, &Error{Kind: IOError, File: file, Issues: []Problem{{Message: "the file is larger than 4 MiB"}}}
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return nil, &Error{Kind: IOError, File: file, Issues: []Problem{{Message: "the file is saved as UTF-16", Hint: "save it as UTF-8"}}}
	case !utf8.Valid(d.text):
		return fail(IOError, invalidUTF8(d.text), "the file is not UTF-8 text", "save it as UTF-8")
	}

	if len(bytes.TrimSpace(d.text)) == 0 {
		d.text = []byte("{}\n")
	}

	if off := tooDeep(d.text); off >= 0 {
		return fail(InvalidJSON, off, fmt.Sprintf("more than %d levels of nesting", maxDepth), "")
	}

	input := d.text
	if input[len(input)-1] != '\n' { // a last comment needs its line end
		input = append(slices.Clip(input), '\n')
		d.hidden = 1
	}

	var err error
	if d.value, err = hujson.Parse(input); err != nil {
		off, msg, hint := d.syntax(err)
		return fail(InvalidJSON, off, msg, hint)
	}
	if _, ok := d.value.Value.(*hujson.Object); !ok {
		return fail(InvalidRoot, d.value.StartOffset, "the file must start with { and end with }", "")
	}
	return d, nil
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return 0
}

// tooDeep returns the offset at which nesting exceeds maxDepth, or -1.
func tooDeep(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}

		case '/':
			var end int
			switch {
			case bytes.HasPrefix(b[i:], []byte("//")):
				end = bytes.IndexByte(b[i:], '\n')
			case bytes.HasPrefix(b[i:], []byte("/*")):
				if end = bytes.Index(b[i+2:], []byte("*/")); end >= 0 {
					end += 3
				}
			default:
				continue
			}

			if end < 0 {
				return -1
			}
			i += end
		}
	}

	return -1
}

// position turns an offset into a 1-based line and column in characters.
func (d *document) position(off int) (line, col int) {
	off = min(max(off, 0), len(d.text))
	start := bytes.LastIndexByte(d.text[:off], '\n') + 1
	return 1 + bytes.Count(d.text[:off], []byte("\n")), 1 + utf8.RuneCount(d.text[start:off])
}

// tree converts the syntax tree, reporting keys that appear twice. As in
// earlier versions the last one counts, but no longer silently.
func (d *document) tree(v *hujson.Value, path []string, report func(Problem)) *node {
	n := &node{kind: v.Value.Kind(), from: origin{layer: LayerFile, off: v.StartOffset}}
	switch t := v.Value.(type) {
	case hujson.Literal:
		n.text = unquote(t)
	case *hujson.Array:
		n.items = make([]*node, 0, len(t.Elements))
		for i := range t.Elements {
			n.items = append(n.items, d.tree(&t.Elements[i], append(path, itoa(i)), report))
		}

	case *hujson.Object:
		n.members = make([]member, 0, len(t.Members))
		for i := range t.Members {
			m := &t.Members[i]
			name := unquote(literal(m.Name))
			val := d.tree(&m.Value, append(path, name), report)
			if at := slices.IndexFunc(n.members, func(o member) bool { return o.name == name }); at >= 0 {
				first, _ := d.position(n.members[at].off)
				line, col := d.position(m.Name.StartOffset)
				report(Problem{
					Path: showPath(append(path, name)), Line: line, Column: col,
					Message: fmt.Sprintf("the key appears twice, in lines %d and %d; the last one counts", first, line),
				})
				n.members[at] = member{name, m.Name.StartOffset, val}
				continue
			}

			n.members = append(n.members, member{name, m.Name.StartOffset, val})
		}
	}

	return n
}

// unquote returns the text of a literal; most have nothing to decode.
func unquote(l hujson.Literal) string {
	if l.Kind() == '"' && len(l) > 1 && bytes.IndexByte(l, '\\') < 0 {
		return string(l[1 : len(l)-1])
	}
	return l.String()
}

func literal(v hujson.Value) hujson.Literal {
	l, _ := v.Value.(hujson.Literal)
	return l
}

// parseValue reads a JSON value given outside the file.
func parseValue(text string, from origin) (*node, error) {
	if !utf8.ValidString(text) || tooDeep([]byte(text)) >= 0 {
		return nil, errors.New("not JSON")
	}

	v, err := hujson.Parse([]byte(text + "\n"))
	if err != nil {
		return nil, errors.New("not JSON")
	}

	d := &document{text: []byte(text)}
	n := d.tree(&v, make([]string, 0, 8), func(Problem) {})
	n.stamp(from)
	return n, nil
}

func (n *node) stamp(from origin) {
	n.from = from
	for _, m := range n.members {
		m.val.stamp(from)
	}
	for _, it := range n.items {
		it.stamp(from)
	}
}

// appendJSON writes the tree as compact JSON.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case '{':
		b = append(b, '{')
		for i, m := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, hujson.String(m.name)...)
			b = append(b, ':')
			b = m.val.appendJSON(b)
		}

		return append(b, '}')

	case '[':
		b = append(b, '[')
		for i, it := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = it.appendJSON(b)
		}
		return append(b, ']')

	case '"':
		return append(b, hujson.String(n.text)...)
	default:
		return append(b, n.text...)
	}
}

func (n *node) isBlank() bool { return n.kind == '"' && strings.TrimSpace(n.text) == "" }
