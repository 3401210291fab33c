package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// wide is a text that makes each line it is on too wide.
var wide = strings.Repeat("w", 100)

func goLinesOf(t *testing.T, text string) []line {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, "a.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return goLines(set, parsed, text)
}

func TestCountLines(t *testing.T) {
	t.Parallel()
	all, blank := countLines("package a\n\n \t\nvar b int")
	if all != 4 || blank != 2 {
		t.Errorf("%d lines, %d of them blank, want 4 and 2", all, blank)
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		"a = b": 5, "\ta": 5, "\t\ta": 9, "über": 4, "": 0,
	} {
		if got := columns(code); got != want {
			t.Errorf("%q has %d columns, want %d", code, got, want)
		}
	}
}

func TestWideGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string // W is replaced by a text of 100 columns
		want int
	}{
		"a call":                        {"func f() { g(\"W\", \"a second\") }", 1},
		"110 columns":                   {"var xyz = W", 0},
		"111 columns":                   {"var xyz0 = W", 1},
		"110 columns with a tab":        {"func f() {\n\tx0 := W\n}", 0},
		"112 columns with a tab":        {"func f() {\n\tx012 := W\n}", 1},
		"a declaration":                 {"func f(a, b, c string, W int) {}", 1},
		"a statement on two lines":      {"func f() { g(\"W\",\n\"W and more\", 12) }", 2},
		"a comment":                     {"// a line of a comment: W", 0},
		"a comment at the end":          {"func f() { g() } // a comment: W", 0},
		"a comment of several lines":    {"/*\na line of a comment: W\n*/", 0},
		"an import":                     {"import \"a/path/that/is/longer/W\"", 0},
		"a literal of several lines":    {"var a = `\nthe second line: W\nthe third line: W`", 0},
		"a field with a tag":            {"type a struct {\n\tB string `json:\"W\"`\n}", 0},
		"a field without a tag":         {"type a struct {\n\tB, C, D, E, W string\n}", 1},
		"rows of a list":                {"var a = []string{\n\"W is wide\",\n\"W as well\",\n}", 0},
		"rows of a map":                 {"var a = map[key]string{\nkeyOfThis: \"W\",\nkeyOfThat: \"W\",\n}", 0},
		"rows of structs":               {"var a = []b{\n{\"one\", \"W\"},\n{\"two\", \"W\"},\n}", 0},
		"rows of a type with a name":    {"var a = names{\n\"W is wide\",\n\"W as well\",\n}", 0},
		"elements on one line":          {"var a = []string{\"W\", \"a second\"}", 1},
		"the named fields of a struct":  {"var a = b{\nfirstField: \"W\",\nsecondField: \"W\",\n}", 2},
		"a row with a function":         {"var a = []b{\n{func() { g(\"W\") }},\n{nil},\n}", 1},
		"the only element of a literal": {"var a = []string{\n\"W is too wide\",\n}", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "package a\n\n" + strings.ReplaceAll(c.code, "W", wide) + "\n"
			if got := countWide(goLinesOf(t, text)); got != c.want {
				t.Errorf("%d lines are too wide, want %d:\n%s", got, c.want, text)
			}
		})
	}
}

func TestWideScript(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string // W is replaced by a text of 100 columns
		want int
	}{
		"a statement":                {"const value = f(W);", 1},
		"an element":                 {"  <Button title={W} />", 1},
		"a comment":                  {"// the rest of this line: W", 0},
		"a comment at the end":       {"f(); // the rest of this line: W", 0},
		"a comment of several lines": {"/*\nin the middle of it: W\n*/", 0},
		"an import":                  {"import { a, W } from \"b\";", 0},
		"an import of several lines": {"import {\n  aLongName, W,\n} from \"b\";\n", 0},
		"after an import":            {"import { a } from \"b\"\nconst value = f(W);", 1},
		"a template":                 {"const a = `first\nthe second line: W\nthe third line: W`;", 0},
		"an escape in a template":    {"const a = `\\``;\nconst value = f(W);", 1},
		"after a template":           {"const a = `${b ? `${c}` : \"`\"}`;\nconst value = f(W);", 1},
		"a slash in a string":        {"const a = \"// W\";", 1},
		"a quote in a pattern":       {"const a = /[\"'`/]/;\nconst value = f(W);", 1},
		"a division":                 {"const a = b / c; // W W", 0},
		"an apostrophe in a page":    {"<p>It doesn't</p>\nconst value = f(W); // it", 1},
		"a row":                      {"  \"a.long.key\": \"W\",", 0},
		"a row without quotes":       {"  aLongKey: \"W\",", 0},
		"a row of objects":           {"  { name: \"a\", text: \"W\" },", 0},
		"a row with a function":      {"  { name: \"a\", text: () => W },", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(c.code, "W", wide) + "\n"
			if got := countWide(scriptLines(text)); got != c.want {
				t.Errorf("%d lines are too wide, want %d:\n%s", got, c.want, text)
			}
		})
	}
}

func TestScriptLinesKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	text := "a();\n/* one\n * two\n */ b();\nconst c = `\n${d(\"}\")}\n`; // four\ne();\n"
	var got []string
	for _, l := range scriptLines(text) {
		got = append(got, l.code)
	}
	want := []string{"a();", "", "", "    b();", "const c = `", `${d("}")}`, "`;", "e();"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the code is %q, want %q", got, want)
	}
}
