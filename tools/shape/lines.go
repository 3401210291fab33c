package main

import (
	"bytes"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxColumns = 110
	tabColumns = 4
)

// line is a line of a file without its comments. Imports are empty lines.
type line struct {
	code   string
	quoted bool // it begins inside of a literal of several lines
	data   bool // it is a field with a tag, or a row of a table
}

// isWide reports whether the line is a statement, or a part of one, that is too wide.
func (l line) isWide() bool {
	return !l.quoted && !l.data && columns(l.code) > maxColumns
}

func columns(code string) int {
	return utf8.RuneCountInString(code) + strings.Count(code, "\t")*(tabColumns-1)
}

func (l line) hasWords() bool {
	return strings.ContainsFunc(l.code, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// countLines returns how many lines a text has, and how many of them are blank.
func countLines(text string) (all, blank int) {
	for row := range strings.Lines(text) {
		all++
		if strings.TrimSpace(row) == "" {
			blank++
		}
	}
	return all, blank
}

// splitLines makes the lines of a text from which comments were taken out.
func splitLines(code string) []line {
	var lines []line
	for row := range strings.Lines(code) {
		lines = append(lines, line{code: strings.TrimRightFunc(row, unicode.IsSpace)})
	}
	return lines
}

// goLines returns the lines of a parsed file.
func goLines(set *token.FileSet, parsed *ast.File, text string) []line {
	lines := splitLines(withoutComments(set, parsed, text))
	number := func(p token.Pos) int { return set.PositionFor(p, false).Line - 1 }
	each := func(n ast.Node, change func(*line)) {
		for i := number(n.Pos()); i <= number(n.End()); i++ {
			change(&lines[i])
		}
	}
	empty := func(l *line) { l.code = "" }
	markData := func(l *line) { l.data = true }

	each(parsed.Name, empty)
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.IMPORT {
				each(n, empty)
			}
		case *ast.Field:
			if n.Tag != nil {
				each(n, markData)
			}
		case *ast.BasicLit:
			for i := number(n.Pos()) + 1; i <= number(n.End()); i++ {
				lines[i].quoted = true
			}
		case *ast.CompositeLit:
			for _, row := range tableRows(n, number) {
				each(row, markData)
			}
		}
		return true
	})
	return lines
}

func withoutComments(set *token.FileSet, parsed *ast.File, text string) string {
	code := []byte(text)
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			begin := set.PositionFor(c.Pos(), false).Offset
			end := min(begin+len(c.Text), len(code))
			for i := begin; i < end; i++ {
				if code[i] != '\n' {
					code[i] = ' '
				}
			}
		}
	}
	return string(code)
}

// tableRows returns the elements of a literal that are rows of data: it has several,
// none begins on the line of another one, and no function is in them. The named
// fields of a struct are no rows.
func tableRows(literal *ast.CompositeLit, number func(token.Pos) int) []ast.Expr {
	_, isArray := literal.Type.(*ast.ArrayType)
	_, isMap := literal.Type.(*ast.MapType)
	if len(literal.Elts) < 2 || !isArray && !isMap && hasNamedFields(literal) {
		return nil
	}

	var rows []ast.Expr
	last := number(literal.Lbrace)
	for _, element := range literal.Elts {
		begins := number(element.Pos())
		if begins == last {
			return nil
		}
		last = begins
		if !hasFunction(element) {
			rows = append(rows, element)
		}
	}
	return rows
}

func hasNamedFields(literal *ast.CompositeLit) bool {
	pair, ok := literal.Elts[0].(*ast.KeyValueExpr)
	if !ok {
		return false
	}
	_, ok = pair.Key.(*ast.Ident)
	return ok
}

func hasFunction(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		_, ok := n.(*ast.FuncLit)
		found = found || ok
		return !found
	})
	return found
}

// scriptRow is a line of TypeScript that is a row of a table: a list, an object, a
// string, or a string or number with its key, and a comma behind it.
var scriptRow = regexp.MustCompile("^(?:[\\w$]+\\??: *|[\"'][^\"']*[\"']: *)?[\"'`\\[{\\d].*,$")

// scriptLines returns the lines of a file in TypeScript.
func scriptLines(text string) []line {
	code, quoted := withoutScriptComments(text)
	lines := splitLines(code)
	importing := false
	for i := range lines {
		lines[i].quoted = quoted[i]
		row := strings.TrimSpace(lines[i].code)
		if strings.HasPrefix(row, "import ") || strings.HasPrefix(row, "export * from ") {
			importing = true
		}
		if importing {
			lines[i].code = ""
		}
		lines[i].data = scriptRow.MatchString(row) && !strings.Contains(row, "=>")
		if strings.HasSuffix(row, ";") || strings.Contains(row, `from "`) {
			importing = false
		}
	}
	return lines
}

// withoutScriptComments blanks the comments of TypeScript, and says for each line
// whether it begins inside of a template literal.
func withoutScriptComments(text string) (string, []bool) {
	code := []byte(text)
	quoted := []bool{false}

	// open are the template literals and the ${} in them that the place is inside
	// of, from the outermost to the innermost: '`', or '{' for each brace.
	var open []byte
	inTemplate := func() bool { return len(open) > 0 && open[len(open)-1] == '`' }
	pop := func() {
		if len(open) > 0 {
			open = open[:len(open)-1]
		}
	}

	last := byte('\n') // the last character of the code that is not white space
	for i := 0; i < len(code); i++ {
		c := code[i]
		rest := code[i:]
		switch {
		case c == '\n':
			quoted = append(quoted, inTemplate())
		case inTemplate():
			switch {
			case c == '\\' && len(rest) > 1 && rest[1] != '\n':
				i++
			case c == '`':
				pop()
			case c == '$' && len(rest) > 1 && rest[1] == '{':
				open = append(open, '{')
				i++
			}
		case c == '`' || c == '{':
			open = append(open, c)
		case c == '}':
			pop()
		case c == '"' || c == '\'':
			i += quotedLength(rest, c) - 1
		case bytes.HasPrefix(rest, []byte("//")):
			i = blankUntil(code, i, "\n") - 1
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			end := blankUntil(code, i, "*/")
			for range strings.Count(text[i:end], "\n") {
				quoted = append(quoted, false)
			}
			i = end - 1
			continue
		case c == '/' && strings.IndexByte("(,=:[!&|?{;\n>", last) >= 0:
			i += patternLength(rest) - 1
		}
		if i < len(code) && !unicode.IsSpace(rune(c)) {
			last = code[i]
		}
	}
	return string(code), quoted
}

// blankUntil replaces what begins at a place by spaces, up to its end, and returns
// where that is. The end of a line is not part of a comment.
func blankUntil(code []byte, begin int, mark string) int {
	end := len(code)
	if at := bytes.Index(code[begin:], []byte(mark)); at >= 0 {
		end = begin + at
		if mark != "\n" {
			end += len(mark)
		}
	}
	for i := begin; i < end; i++ {
		if code[i] != '\n' {
			code[i] = ' '
		}
	}
	return end
}

// quotedLength returns the length of a string with its quotes. One that does not end
// on its line is text of a page with an apostrophe in it, so only that is passed over.
func quotedLength(code []byte, quote byte) int {
	for i := 1; i < len(code); i++ {
		switch code[i] {
		case '\\':
			i++
		case '\n':
			return 1
		case quote:
			return i + 1
		}
	}
	return 1
}

// patternLength returns the length of a regular expression with its slashes, or 1 if
// it does not end on its line.
func patternLength(code []byte) int {
	inSet := false
	for i := 1; i < len(code); i++ {
		switch code[i] {
		case '\\':
			i++
		case '[':
			inSet = true
		case ']':
			inSet = false
		case '\n':
			return 1
		case '/':
			if !inSet {
				return i + 1
			}
		}
	}
	return 1
}
