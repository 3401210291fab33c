package arch_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sentencesFile is Chinese for sentences of the program, from the folder of the pages.
const sentencesFile = "../internal/base/phrase/zh.json"

// TestWebSentences: the pages have a Chinese text for every sentence of the program
// that they show: descriptions of settings, findings of the doctor, and what is
// wrong with a configuration.
func TestWebSentences(t *testing.T) {
	var zh map[string]string
	if err := json.Unmarshal(readFile(t, filepath.Join(webDir, sentencesFile)), &zh); err != nil {
		t.Fatal(err)
	}
	value := regexp.MustCompile(`\{\d\}`)
	said := map[string]bool{}
	for sentence, path := range saidElsewhere {
		said[sentence] = true
		source := string(readFile(t, filepath.FromSlash(path)))
		for _, part := range value.Split(sentence, -1) {
			if !strings.Contains(source, strings.TrimSuffix(part, ")")) {
				t.Errorf("%s does not say %q any more", path, sentence)
			}
		}
	}
	described(t, said)
	labelled(t, said)
	settings := len(said)
	for _, dir := range []string{"internal/run/doctor", "internal/run/config"} {
		for _, path := range filesBelow(t, filepath.FromSlash(dir)) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				findSentences(t, path, said)
			}
		}
	}
	if settings < 600 || len(said)-settings < 150 {
		t.Errorf("found only %d descriptions and %d sentences", settings, len(said)-settings)
	}
	values := func(s string) []string {
		return slices.Compact(slices.Sorted(slices.Values(value.FindAllString(s, -1))))
	}
	for english := range said {
		switch to, ok := zh[english]; {
		case !ok:
			t.Errorf("internal/base/phrase/zh.json has no %q", english)
		case !slices.Equal(values(english), values(to)):
			t.Errorf("internal/base/phrase/zh.json: %q has other values in Chinese: %q", english, to)
		case !regexp.MustCompile(`\p{Han}`).MatchString(to) && to != english:
			t.Errorf("internal/base/phrase/zh.json: %q is not Chinese", to)
		}
	}
	for english := range zh {
		if !said[english] {
			t.Errorf("internal/base/phrase/zh.json: %q is not said any more", english)
		}
	}
}

// saidElsewhere are sentences that the finder does not see, with the file of each.
var saidElsewhere = map[string]string{
	"{1} (line {2}, column {3})": "internal/run/config/problem.go",
	"{1} (from {2})":             "internal/run/config/problem.go",
	"other users of this machine cannot read nanobot's files":                                       "internal/run/doctor/security.go",
	"{1} in {2} is a link; nanobot does not follow links inside a workspace and does not use it.":   "internal/run/app/workspace.go",
	"{1} in {2} are links; nanobot does not follow links inside a workspace and does not use them.": "internal/run/app/workspace.go",
	"{1} namespaces": "internal/base/sandbox/sandbox.go",
	"missing: {1}":   "internal/base/sandbox/sandbox.go",
}

// described finds the descriptions of the settings.
func described(t *testing.T, said map[string]bool) {
	t.Helper()
	var schema any
	if err := json.Unmarshal(readFile(t, filepath.Join("docs", "reference", "config.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if s, ok := v["description"].(string); ok {
				said[s] = true
			}
			for _, below := range v {
				walk(below)
			}
		case []any:
			for _, below := range v {
				walk(below)
			}
		}
	}
	walk(schema)
}

// labelled finds the names of the settings that are shown as labels of fields: those
// of channels and MCP servers.
func labelled(t *testing.T, said map[string]bool) {
	t.Helper()
	type node struct {
		Description string
		Properties  map[string]*node
		Items       *node
	}
	var schema struct {
		Properties struct {
			Channels struct {
				Properties map[string]*node
				Rest       *node `json:"additionalProperties"`
			}
		}
	}
	decodeFile(t, filepath.Join("docs", "reference", "config.schema.json"), &schema)
	var walk func(n *node)
	walk = func(n *node) {
		if n == nil {
			return
		}
		for name, below := range n.Properties {
			if !strings.HasPrefix(below.Description, "Ignored") {
				said["@"+name] = true
			}
			walk(below)
		}
		walk(n.Items)
	}
	for _, platform := range schema.Properties.Channels.Properties {
		walk(platform)
	}
	walk(schema.Properties.Channels.Rest)
	form := string(readFile(t, filepath.Join(webDir, "src", "pages", "mcp", "wire.ts")))
	for _, m := range regexp.MustCompile(`\b([a-z]\w*): \{ (?:type: "(?:string|number|boolean)"|\.\.\.(?:lists|secrets))`).FindAllStringSubmatch(form, -1) {
		if m[1] != "items" && m[1] != "additionalProperties" {
			said["@"+m[1]] = true
		}
	}
}

// sayers are the functions that are handed sentences, with the numbers of these
// arguments.
var sayers = map[string][]int{"say": {2, 3}, "issue": {2, 3}, "warning": {2, 3}, "logs": {2}}

// findSentences finds the sentences of a file: what is said by one of the sayers, or
// put into a field for one.
func findSentences(t *testing.T, path string, said map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		s := sentenceFinder{said: said, set: map[string][]ast.Expr{}}
		ast.Inspect(f.Body, s.variables)
		ast.Inspect(f.Body, s.look)
		if f.Name.Name == "suggest" {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok {
					s.add(r.Results[0])
				}
				return true
			})
		}
	}
}

// sentenceFinder looks at one function.
type sentenceFinder struct {
	said map[string]bool
	set  map[string][]ast.Expr // what its variables are set to
}

func (s *sentenceFinder) variables(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if name, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && n.Tok != token.ADD_ASSIGN {
				s.set[name.Name] = append(s.set[name.Name], n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				s.set[name.Name] = append(s.set[name.Name], n.Values[i])
			}
		}
	}
	return true
}

func (s *sentenceFinder) look(n ast.Node) bool {
	field := func(name string) bool { return slices.Contains([]string{"Detail", "Fix", "Message", "Hint"}, name) }
	switch n := n.(type) {
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			name = f.Sel.Name
		case *ast.Ident:
			name = f.Name
		}
		for _, i := range sayers[name] {
			if i < len(n.Args) {
				s.add(n.Args[i])
			}
		}
	case *ast.KeyValueExpr:
		if k, ok := n.Key.(*ast.Ident); ok && field(k.Name) {
			s.add(n.Value)
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if f, ok := to.(*ast.SelectorExpr); ok && field(f.Sel.Name) && len(n.Lhs) == len(n.Rhs) && n.Tok == token.ASSIGN {
				s.add(n.Rhs[i])
			}
		}
	}
	return true
}

// add takes note of a sentence; one without words of its own is said elsewhere.
func (s *sentenceFinder) add(e ast.Expr) {
	if name, ok := e.(*ast.Ident); ok && len(s.set[name.Name]) > 0 {
		values := s.set[name.Name]
		s.set[name.Name] = nil // once
		for _, v := range values {
			s.add(v)
		}
		s.set[name.Name] = values
		return
	}
	n := 0
	sentence := regexp.MustCompile(`\x00`).ReplaceAllStringFunc(s.words(e), func(string) string {
		n++
		return "{" + strconv.Itoa(n) + "}"
	})
	if regexp.MustCompile(`[a-z]{2}`).MatchString(sentence) {
		s.said[sentence] = true
	}
}

// words are those of an expression, with a zero byte for each value.
func (s *sentenceFinder) words(e ast.Expr) string {
	const value = "\x00"
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return s.words(e.X) + s.words(e.Y)
	case *ast.Ident:
		if set := s.set[e.Name]; len(set) == 1 {
			if text := s.words(set[0]); strings.Trim(text, value) != "" {
				return text
			}
		}
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		if ok && f.Sel.Name == "Sprintf" {
			return regexp.MustCompile(`%[-+#0]*\d*(?:\.\d+)?[a-z]`).ReplaceAllString(s.words(e.Args[0]), value)
		}
		if ok && f.Sel.Name == "TrimSpace" {
			return s.words(e.Args[0])
		}
	}
	return value
}
