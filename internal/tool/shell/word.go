package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A word is evaluated as far as its text alone determines it. The rest is
// shown by these characters, which no sensible command contains.
const (
	unknownText = "\uFFFC" // something only the run decides
	fetchedText = "\uFFFB" // the output of a download or a decoder
	unknownSet  = unknownText + fetchedText
	agentPID    = "$PPID" // the parent of the shell is the agent
)

func isUnknown(word string) bool { return strings.ContainsAny(word, unknownSet) }

// maxFields bounds what one word may expand to.
const maxFields = 64

// set records an assignment. A second, different value makes a variable
// unknown, because the walk does not follow branches.
func (s *scan) set(name, value string) {
	const longest = 1024 // variables that double one another would grow without end
	if len(value) > longest {
		value = unknownText
	}
	if old, known := s.vars[name]; known && old != value {
		value = unknownText
	}
	s.vars[name] = value
}

func (s *scan) assign(assigns []*syntax.Assign) {
	for _, a := range assigns {
		value := unknownText
		if a.Value != nil {
			value = s.literal(a.Value)
			s.reach(value)
		}

		if a.Array != nil {
			for _, e := range a.Array.Elems {
				if e.Value != nil {
					s.reach(s.literal(e.Value))
				}
			}
		}

		switch {
		case a.Name == nil || a.Naked && a.Value == nil:
		case a.Append || a.Index != nil || a.Array != nil:
			s.vars[a.Name.Value] = unknownText
		default:
			s.set(a.Name.Value, value)
		}
	}
}

// fields returns what the shell would make of an unquoted word: braces
// multiply it and constant variables split at white space.
func (s *scan) fields(w *syntax.Word) []string {
	var out []string
	for _, parts := range braces(w) {
		b := &fieldBuilder{split: true}
		s.parts(b, parts)
		out = append(out, b.fields()...)
	}
	return out
}

// literal returns a word where the shell does not split, such as a redirection.
func (s *scan) literal(w *syntax.Word) string {
	b := &fieldBuilder{}
	s.parts(b, w.Parts)
	return strings.Join(b.fields(), " ")
}

// braces lists the words that brace expansion makes of one.
func braces(w *syntax.Word) [][]syntax.WordPart {
	c := &syntax.Word{Parts: w.Parts}
	if !syntax.SplitBraces(c) {
		return [][]syntax.WordPart{w.Parts}
	}
	return alternatives(c.Parts)
}

func alternatives(parts []syntax.WordPart) [][]syntax.WordPart {
	out := [][]syntax.WordPart{nil}
	for _, p := range parts {
		choices := [][]syntax.WordPart{{p}}
		if b, ok := p.(*syntax.BraceExp); ok {
			choices = [][]syntax.WordPart{{&syntax.Lit{Value: unknownText}}}
			if !b.Sequence {
				choices = nil
				for _, e := range b.Elems {
					choices = append(choices, alternatives(e.Parts)...)
				}
			}
		}

		full := len(choices)*len(out) > maxFields
		if full {
			choices = [][]syntax.WordPart{{&syntax.Lit{Value: unknownText}}}
		}

		var next [][]syntax.WordPart
		for _, head := range out {
			for _, c := range choices {
				next = append(next, append(head[:len(head):len(head)], c...))
			}
		}

		if out = next; full {
			return out // what follows is part of the unknown
		}
	}

	return out
}

// fieldBuilder collects text and splits where the shell would.
type fieldBuilder struct {
	split bool
	done  []string
	cur   strings.Builder
	open  bool // cur is a field, even if empty
}

func (b *fieldBuilder) add(s string) {
	if b.cur.Len() > maxCommandBytes {
		s = ""
	}
	b.cur.WriteString(s)
	b.open = true
}

// value adds the value of an expansion outside quotes.
func (b *fieldBuilder) value(v string) {
	if !b.split || !strings.ContainsAny(v, " \t\n") {
		if v != "" {
			b.add(v)
		}
		return
	}
	for i, c := range strings.Split(strings.Map(blankToSpace, v), " ") {
		if i > 0 {
			b.flush()
		}
		if c != "" {
			b.add(c)
		}
	}
}

func blankToSpace(r rune) rune {
	if r == '\t' || r == '\n' {
		return ' '
	}
	return r
}

func (b *fieldBuilder) flush() {
	if b.open && len(b.done) < maxFields {
		b.done = append(b.done, b.cur.String())
	}
	b.cur.Reset()
	b.open = false
}

func (b *fieldBuilder) fields() []string {
	b.flush()
	return b.done
}

func (s *scan) parts(b *fieldBuilder, parts []syntax.WordPart) {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			text := p.Value
			if i == 0 {
				text = s.tilde(text)
			}
			b.add(unescape(text, false))

		case *syntax.SglQuoted:
			if p.Dollar {
				b.add(ansi(p.Value))
			} else {
				b.add(p.Value)
			}

		case *syntax.DblQuoted:
			b.add("")
			s.quoted(b, p.Parts)
		case *syntax.ParamExp:
			b.value(s.param(p))
		case *syntax.CmdSubst:
			b.add(s.substitution(p.Stmts))
		case *syntax.ProcSubst:
			b.add(s.substitution(p.Stmts))
		default:
			b.add(unknownText)
		}
	}
}

func (s *scan) quoted(b *fieldBuilder, parts []syntax.WordPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.add(unescape(p.Value, true))
		case *syntax.ParamExp:
			b.add(s.param(p))
		case *syntax.CmdSubst:
			b.add(s.substitution(p.Stmts))
		default:
			b.add(unknownText)
		}
	}
}

// substitution tells output that came from outside from other output: running
// the first as a command is the same as piping it into a shell.
func (s *scan) substitution(stmts []*syntax.Stmt) string {
	if s.shallow {
		return unknownText
	}

	// The walk below reaches nested substitutions by itself.
	flat := &scan{g: s.g, vars: s.vars, cwd: s.cwd, shallow: true}
	for _, st := range stmts {
		for n := range syntax.Preorder(st) {
			c, ok := n.(*syntax.CallExpr)
			if !ok || len(c.Args) == 0 {
				continue
			}

			for _, argv := range effective(flat.argv(c)) {
				if fetches(base(argv[0])) {
					return fetchedText
				}
			}
		}
	}

	return unknownText
}

func (s *scan) tilde(text string) string {
	switch {
	case text == "~" || strings.HasPrefix(text, "~/"):
		return s.g.home + text[1:]
	case (text == "~+" || strings.HasPrefix(text, "~+/")) && s.cwd != "":
		return s.cwd + text[2:]
	}
	return text
}

func (s *scan) param(p *syntax.ParamExp) string {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return unknownText
	}

	value, known := s.vars[p.Param.Value]
	if !known {
		switch p.Param.Value {
		case "HOME":
			value, known = s.g.home, true
		case "PWD":
			value, known = s.cwd, s.cwd != ""
		case "IFS":
			value, known = " ", true
		case "PPID":
			value, known = agentPID, true
		}
	}

	if p.Exp == nil {
		if !known {
			return unknownText
		}
		return value
	}

	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if known {
			return value
		}
		if p.Exp.Word != nil {
			return s.literal(p.Exp.Word)
		}
	}

	return unknownText
}

// unescape removes backslashes. Inside double quotes only a few characters can
// be escaped.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}

	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) || quoted && !strings.ContainsRune("$`\"\\\n", rune(s[i+1])) {
			b.WriteByte(s[i])
			continue
		}
		if i++; s[i] != '\n' {
			b.WriteByte(s[i])
		}
	}

	return b.String()
}

// ansi decodes the inside of $'...'.
func ansi(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}

		i++
		switch c := s[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'x':
			i += number(&b, s[i+1:], 16, 2)
		case 'u':
			i += number(&b, s[i+1:], 16, 4)
		case 'U':
			i += number(&b, s[i+1:], 16, 8)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			i += number(&b, s[i:], 8, 3) - 1
		case 'a', 'b', 'e', 'E', 'f', 'r', 'v', 'c':
			b.WriteByte('?') // a control character; none is part of a name we know
		default:
			b.WriteByte(c)
		}
	}

	return b.String()
}

// number writes the character with the code at the start of s and returns how
// many of at most width digits were used.
func number(b *strings.Builder, s string, radix, width int) int {
	n := 0
	for n < len(s) && n < width {
		if _, err := strconv.ParseUint(s[n:n+1], radix, 8); err != nil {
			break
		}
		n++
	}

	v, err := strconv.ParseUint(s[:n], radix, 32)
	if err != nil || v > utf8.MaxRune {
		return n
	}

	b.WriteRune(rune(v))
	return n
}
