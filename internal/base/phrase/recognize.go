package phrase

import (
	"regexp"
	"strings"
	"sync"
)

// Recognize says in a language a sentence that was finished in English, such as the text
// of an error, which passed through packages that do not know who reads it. A sentence
// that the table does not have stays as it is, and so do names in one that it has.
func Recognize(language, english string) string {
	if language != Chinese || english == "" {
		return english
	}
	return recognize(english, maxNested)
}

// maxNested is how many sentences may be in one another.
const maxNested = 6

func recognize(english string, depth int) string {
	if zh, ok := whole(english); ok {
		return zh
	}
	if depth == 0 {
		return english
	}

	zh, known := fill(english, depth)
	if head, ok := beginning(english); ok && len(head) > known {
		known = 0 // "{1} cannot be read: {2}" explains less of "config file cannot be read: x"
	}

	if known > 0 {
		return zh
	}

	if bare := strings.TrimLeft(english, " "); bare != english {
		return english[:len(english)-len(bare)] + recognize(bare, depth)
	}

	// What is not known as a whole may consist of lines, remarks or causes that are.
	if strings.Contains(english, "\n") {
		lines := strings.Split(english, "\n")
		for i, line := range lines {
			lines[i] = recognizePart(line, depth)
		}
		return strings.Join(lines, "\n")
	}

	for _, sign := range [][2]string{{"; ", "；"}, {": ", "："}} {
		parts := strings.Split(english, sign[0])
		changed := false
		for i, part := range parts {
			parts[i] = recognizePart(part, depth)
			changed = changed || parts[i] != part
		}

		if changed {
			return strings.Join(parts, sign[1])
		}
	}

	return english
}

// whole returns the translation of a sentence without arguments.
func whole(english string) (string, bool) {
	if zh, ok := fromEnglish()[english]; ok {
		return zh, true
	}
	zh, ok := program().whole[english]
	return zh, ok
}

// beginning returns what stands before the first colon of a line, if that is a
// sentence.
func beginning(english string) (string, bool) {
	head, _, ok := strings.Cut(english, ": ")
	if !ok || !strings.Contains(head, " ") || strings.Contains(english, "\n") {
		return "", false
	}
	_, ok = whole(head)
	return head, ok
}

// recognizePart looks at a part of a sentence. A single word is a name, and stays, but for
// one such as "today's".
func recognizePart(part string, depth int) string {
	if !strings.ContainsAny(part, " '") {
		return part
	}
	return recognize(part, depth-1)
}

// fill finds the pattern that explains most of a sentence and puts what stands for its
// arguments into the translation. It returns how many bytes the pattern knows.
func fill(english string, depth int) (zh string, known int) {
	var best *pattern
	var values []string
	list := patterns()
	several := strings.Contains(english, "\n")
	for i := range list {
		p := &list[i]
		if best != nil && p.known <= best.known || several && !p.lines {
			continue
		}
		if v, ok := p.match(english); ok {
			best, values = p, v
		}
	}

	if best == nil {
		return "", 0
	}

	front := ""
	if best.parts[0] == "" && best.zh[0] != "" { // the name in "x: name cannot be reached" is behind the colon
		if at := strings.LastIndex(values[0], ": "); at >= 0 {
			front = values[0][:at] + "："
			values[0] = values[0][at+len(": "):]
		}
	}

	for i, v := range values {
		values[i] = recognizePart(v, depth)
	}
	return front + best.fill(values), best.known
}

// pattern is a sentence with arguments, to find it in what a program wrote.
type pattern struct {
	parts []string // of the English format, between the arguments
	known int      // bytes in them
	lines bool     // it has several lines; the others are looked for in single ones
	zh    []string // of the translation, likewise
	order []int    // the argument behind each part of zh but the last
}

// match returns what stands for the arguments, each as short as possible.
func (p *pattern) match(s string) ([]string, bool) {
	s, ok := strings.CutPrefix(s, p.parts[0])
	if !ok {
		return nil, false
	}

	last := len(p.parts) - 1
	s, ok = strings.CutSuffix(s, p.parts[last])
	if !ok {
		return nil, false
	}

	var values []string
	for _, part := range p.parts[1:last] {
		value, rest, ok := strings.Cut(s, part)
		if !ok {
			return nil, false
		}
		values = append(values, value)
		s = rest
	}

	return append(values, s), true
}

func (p *pattern) fill(values []string) string {
	var b strings.Builder
	for i, part := range p.zh {
		b.WriteString(part)
		if i < len(p.order) {
			b.WriteString(values[p.order[i]])
		}
	}
	return b.String()
}

// patterns are the sentences with arguments, made when the first text is looked for.
var patterns = sync.OnceValue(func() []pattern {
	verb := regexp.MustCompile(`%(?:\[(\d)\])?[-+#0]*\d*(?:\.\d+)?[a-z]`)
	var list []pattern
	for _, pair := range chineseErrors() {
		if verb.MatchString(pair[0]) { // the others are found as they are
			list = append(list, newPattern(verb, pair[0], pair[1]))
		}
	}
	return append(list, program().patterns...)
})

// newPattern makes a pattern of a sentence and its translation, whose arguments are what
// verb finds; its group is the number of the argument, if there is one.
func newPattern(verb *regexp.Regexp, english, zh string) pattern {
	p := pattern{
		parts: verb.Split(english, -1),
		lines: strings.Contains(english, "\n"),
		zh:    verb.Split(zh, -1),
	}
	for i, m := range verb.FindAllStringSubmatch(zh, -1) {
		if m[1] != "" {
			i = int(m[1][0] - '1')
		}
		p.order = append(p.order, i)
	}

	for i, part := range p.parts {
		p.parts[i] = strings.ReplaceAll(part, "%%", "%")
		p.known += len(p.parts[i])
	}

	for i, part := range p.zh {
		p.zh[i] = strings.ReplaceAll(part, "%%", "%")
	}
	return p
}
