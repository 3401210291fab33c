package skill

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Problem is something wrong or odd about a skill.
type Problem struct {
	// Code names the kind: file, encoding, front-matter, yaml, name,
	// description, key, metadata, body, reference, invisible.
	Code  string `json:"code"`
	File  string `json:"file"`           // inside the skill
	Line  int    `json:"line,omitempty"` // 0 = the file as a whole
	Text  string `json:"text"`
	Error bool   `json:"error"` // else the skill works, but not as it seems
}

// String is "SKILL.md:3: error: text [code]".
func (p Problem) String() string {
	at, kind := p.File, "warning"
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if p.Error {
		kind = "error"
	}
	return fmt.Sprintf("%s: %s: %s [%s]", at, kind, p.Text, p.Code)
}

// InvalidError is a skill that has errors.
type InvalidError struct {
	Name     string
	Problems []Problem
}

func (e *InvalidError) Error() string {
	var first string
	for _, p := range slices.Backward(e.Problems) {
		if p.Error {
			first = p.String()
		}
	}
	return "the skill is not valid: " + first
}

// hasErrors reports whether one of the problems is an error.
func hasErrors(list []Problem) bool {
	return slices.ContainsFunc(list, func(p Problem) bool { return p.Error })
}

// Validate checks the skill in a directory or an archive, and returns what is
// wrong in the order of the lines. The error is about reading it at all.
func Validate(source string) ([]Problem, error) {
	b, err := readSource(source)
	return found(b, err)
}

// ValidateBuiltin checks a skill of a tree that is laid out like BuiltinFS.
func ValidateBuiltin(tree fs.FS, name string) ([]Problem, error) {
	sub, err := fs.Sub(tree, folder+"/"+name)
	if err != nil {
		return nil, err
	}
	b, err := readTree(sub, name)
	return found(b, err)
}

func found(b *bundle, err error) ([]Problem, error) {
	if bad, ok := errors.AsType[*unsafeError](err); ok {
		return []Problem{{Code: "file", File: bad.path, Text: bad.why, Error: true}}, nil
	}
	if err != nil {
		return nil, err
	}
	return b.validate(), nil
}

// givenName returns the name the front matter gives, else that of the directory.
func (b *bundle) givenName() string {
	if f := b.file(fileName); f != nil {
		front, _, _ := split(string(f.data))
		fields, _ := parseYAML(front)
		if name := scalar(fields["name"]); name != "" {
			return name
		}
	}
	return b.name
}

// checker collects problems of one SKILL.md.
type checker struct {
	problems []Problem
	lines    map[string]int // of the outermost keys
}

func (c *checker) errorf(code string, line int, format string, args ...any) {
	c.problems = append(c.problems, Problem{code, fileName, line, fmt.Sprintf(format, args...), true})
}

func (c *checker) warnf(code string, line int, format string, args ...any) {
	c.problems = append(c.problems, Problem{code, fileName, line, fmt.Sprintf(format, args...), false})
}

func (b *bundle) validate() []Problem {
	c := &checker{}
	f := b.file(fileName)
	if f == nil {
		hint := ""
		if i := slices.IndexFunc(b.files, func(f file) bool { return strings.EqualFold(f.path, fileName) }); i >= 0 {
			hint = fmt.Sprintf("; %s must be spelled in upper case", b.files[i].path)
		}
		c.errorf("file", 0, "it is missing%s", hint)
		return c.problems
	}

	if !utf8.Valid(f.data) {
		c.errorf("encoding", badLine(f.data), "not UTF-8")
	}

	data := normal(string(f.data))
	front, _, found := split(data)
	if !found {
		c.errorf("front-matter", 1, "the file must begin with front matter between two lines that are ---")
	}

	fields, p := readYAML(front)
	c.lines = p.keys
	for _, n := range p.notes {
		c.warnf("yaml", n.line, "%s", n.text)
	}

	if len(b.files) > manyFiles {
		c.warnf("file", 0, "the skill has %d files, which is many", len(b.files))
	}

	c.name(fields, b.name)
	c.description(fields)
	c.keys(fields)
	c.metadata(fields)
	c.body(data, front, found)
	c.references(data, b)
	c.invisible(data)
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return c.problems
}

func (c *checker) name(fields map[string]any, dir string) {
	line := max(c.lines["name"], 1)
	switch name := scalar(fields["name"]); {
	case name == "":
		c.warnf("name", line, "name is missing; the directory's name %q counts", dir)
		if dir == "" || oddName(dir) != "" || len(dir) > 64 {
			c.errorf("name", line, "the directory's name %q is none for a skill: at most 64 lower-case letters and digits with single hyphens", text.Ellipsis(dir, 80))
		}

	case oddName(name) != "" || len(name) > 64:
		c.errorf("name", line, "%q is not a name: at most 64 lower-case letters and digits with single hyphens", text.Ellipsis(name, 80))
	case name != dir:
		c.errorf("name", line, "the name is %q, but the directory is called %q", name, text.Ellipsis(dir, 80))
	}
}

func (c *checker) description(fields map[string]any) {
	line := max(c.lines["description"], 1)
	full := text.Label(scalar(fields["description"]), 0)
	switch n := utf8.RuneCountInString(full); {
	case n == 0:
		c.errorf("description", line, "a description is missing; the model chooses skills by it")
	case n > maxDescription:
		c.errorf("description", line, "the description has %d characters, at most %d are allowed", n, maxDescription)
	case n > shortLine:
		c.warnf("description", line, "the description has %d characters; small models and prompts with many skills see the first %d", n, shortLine)
	}
}

func (c *checker) keys(fields map[string]any) {
	known := []string{"name", "description", "homepage", "always", "metadata", "license", "version", "author", "allowed-tools", "compatibility"}
	for key := range fields {
		if !slices.Contains(known, key) {
			hint := ""
			if near := text.NearestRatio(strings.ToLower(key), known, 0.6); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			c.warnf("key", c.lines[key], "%q means nothing here%s", text.Label(key, 40), hint)
		}
	}

	if v, ok := fields["always"]; ok && !truth(v) && !slices.Contains([]string{"false", "no", "off", "0", ""}, strings.ToLower(scalar(v))) {
		c.warnf("key", c.lines["always"], "always is true or false")
	}
}

func (c *checker) metadata(fields map[string]any) {
	raw, line := fields["metadata"], c.lines["metadata"]
	if raw == nil {
		return
	}

	if s, ok := raw.(string); ok {
		raw = parseFlow(s)
	}

	if _, ok := raw.(map[string]any); !ok {
		c.warnf("metadata", line, "metadata is not a map")
		return
	}

	ours := vendor(raw)
	if ours == nil {
		return // only notes for other programs
	}

	var s Skill
	s.describe(ours)
	for _, n := range s.Notes {
		c.warnf("metadata", line, "%s", strings.TrimPrefix(n, "metadata: "))
	}

	for _, name := range s.OS {
		if !slices.Contains([]string{"linux", "darwin", "windows", "freebsd", "openbsd", "netbsd", "android"}, name) {
			c.warnf("metadata", line, "os: %q is none; use linux, darwin or windows", name)
		}
	}

	for _, name := range slices.Concat(s.Bins, s.Env, s.Tools) {
		if strings.ContainsAny(name, " /\\=$") {
			c.warnf("metadata", line, "requires: %q is not a plain name", name)
		}
	}
}

func (c *checker) body(data, front string, found bool) {
	body, line := data, 1
	if found {
		line = strings.Count(front, "\n") + 3
		_, body, _ = strings.Cut(data, "\n")
		_, body, _ = strings.Cut(body[len(front):], "\n")
	}

	switch n := len(strings.TrimSpace(body)); {
	case n == 0:
		c.errorf("body", line, "there is no text")
	case n > maxBody:
		c.errorf("body", line, "the text has %d bytes, at most %d KiB are read; move details to files below references/", n, maxBody>>10)
	case n > longBody:
		c.warnf("body", line, "the text has %d bytes, which fill the window of small models; details belong in files below references/", n)
	}
}

var mention = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?:^|[\\s`(\"'])((?:scripts|references|assets)/[A-Za-z0-9._/-]*[A-Za-z0-9_])(?:#[^\\s`)\"']*)?(?:$|[\\s`)\"',;:.])")
})

// references looks for files the text speaks of and that are not there.
func (c *checker) references(data string, b *bundle) {
	told := map[string]bool{}
	line := 0
	for l := range strings.SplitSeq(data, "\n") {
		line++
		if !strings.Contains(l, "/") {
			continue
		}

		for _, m := range mention().FindAllStringSubmatch(l, -1) {
			dir := func(f file) bool { return strings.HasPrefix(f.path, m[1]+"/") }
			if b.file(m[1]) == nil && !slices.ContainsFunc(b.files, dir) && !told[m[1]] {
				told[m[1]] = true
				c.warnf("reference", line, "%s does not exist", m[1])
			}
		}
	}
}

// invisible finds characters that people do not see and models read.
func (c *checker) invisible(data string) {
	line := 0
	for l := range strings.SplitSeq(data, "\n") {
		line++
		hidden := func(r rune) bool {
			// Joiners are part of emoji and of several scripts.
			return unicode.Is(unicode.Cf, r) && r != '\u200D' && r != '\u200C' && r != '\u00AD' || unicode.IsControl(r) && r != '\t'
		}
		if i := strings.IndexFunc(l, hidden); i >= 0 {
			r, _ := utf8.DecodeRuneInString(l[i:])
			c.warnf("invisible", line, "the invisible character U+%04X", r)
		}
	}
}

// badLine returns the line of the first bytes that are not UTF-8.
func badLine(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		data = data[n:]
	}

	return line
}
