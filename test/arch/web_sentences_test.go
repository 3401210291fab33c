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

// sentencesFile is Chinese for sentences of the program, from the folder of the pages. A file
// beside it has those that only the terminal shows.
const (
	sentencesFile         = "../internal/base/phrase/zh.json"
	terminalSentencesFile = "../internal/base/phrase/zh_terminal.json"
)

// fromRoot returns the path of a file of sentences as seen from the root of the repository.
func fromRoot(file string) string { return filepath.ToSlash(filepath.Join(webDir, file)) }

// TestWebSentences: pages and the terminal have a Chinese text for every sentence of the
// program that they show: descriptions of settings, findings of the doctor, and what is
// wrong with a configuration.
func TestWebSentences(t *testing.T) {
	var zh, terminal map[string]string
	decodeFile(t, filepath.Join(webDir, sentencesFile), &zh)
	decodeFile(t, filepath.Join(webDir, terminalSentencesFile), &terminal)
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
	var sources []string
	for _, dir := range []string{"internal/run/doctor", "internal/run/config"} {
		for _, path := range filesBelow(t, filepath.FromSlash(dir)) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				findSentences(t, path, said)
				sources = append(sources, path)
			}
		}
	}
	rest := map[string]bool{}
	for _, path := range sources {
		findRest(t, path, rest)
	}
	if settings < 600 || len(said)-settings < 150 || len(rest) < 150 {
		t.Errorf("found only %d descriptions, %d sentences and %d others", settings, len(said)-settings, len(rest))
	}
	values := func(s string) []string {
		return slices.Compact(slices.Sorted(slices.Values(value.FindAllString(s, -1))))
	}
	check := func(file string, table map[string]string) {
		for english, to := range table {
			switch {
			case !said[english] && !rest[english]:
				t.Errorf("%s: %q is not said any more: remove it, or write what is said now", fromRoot(file), english)
			case !slices.Equal(values(english), values(to)):
				t.Errorf("%s: %q has other values in Chinese: %q", fromRoot(file), english, to)
			case !regexp.MustCompile(`\p{Han}`).MatchString(to) && to != english:
				t.Errorf("%s: %q is not Chinese", fromRoot(file), to)
			}
		}
	}
	check(sentencesFile, zh)
	check(terminalSentencesFile, terminal)
	for english := range said {
		if zh[english] == "" {
			t.Errorf("%s has no %q: add it with its Chinese text (of a setting, the text is its doc tag)", fromRoot(sentencesFile), english)
		}
	}
	for english := range rest {
		switch {
		case zh[english] == "" && terminal[english] == "":
			t.Errorf("%s has no %q: add it with its Chinese text; if pages show it, it belongs into %s", fromRoot(terminalSentencesFile), english, fromRoot(sentencesFile))
		case zh[english] != "" && terminal[english] != "":
			t.Errorf("%s: %q is in %s, too; remove one of them", fromRoot(terminalSentencesFile), english, fromRoot(sentencesFile))
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

// findRest finds every text of several words, however it gets to people: good news, advice,
// errors.
func findRest(t *testing.T, path string, rest map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	two := regexp.MustCompile(`[A-Za-z]{2,}[,;:.]? [a-z]{2,}`)
	verb := regexp.MustCompile(`%[-+#0]*\d*(?:\.\d+)?[a-z]`)
	s := sentenceFinder{said: map[string]bool{}}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.StructType: // a path, tags
			return false
		case *ast.BasicLit, *ast.BinaryExpr:
			text := s.words(n.(ast.Expr))
			if two.MatchString(verb.ReplaceAllString(text, "")) {
				s.addWords(verb.ReplaceAllString(text, "\x00"))
				return false
			}
		}
		return true
	})
	for sentence := range s.said {
		if !notForPeople[sentence] {
			rest[sentence] = true
		}
	}
}

// notForPeople are texts with several words that no person reads as a sentence.
var notForPeople = map[string]bool{
	"hujson: line {1}, column {2}:": true, "parsing string": true, "parsing comment": true, // of a parser
	"after top-level value": true, "after object name": true, "object name": true,
	"at start of value": true, "invalid literal": true,
	"too much": true, // stops a program that prints
	"tools.exec.restrictToWorkspace moves to tools.restrictToWorkspace": true, // names of migrations
	"agents.defaults.memoryWindow is dropped":                           true, "agents.defaults.dream.model becomes modelOverride": true,
	"tools.myEnabled and mySet move into tools.my": true,
	"nanobot configuration":                        true, // the title of the schema
	"Older name of {1}.":                           true, // one for each in the schema, found there
	"{1} MB free":                                  true, // parts of sentences that are found whole
	"{1} and is not ready: {2}":                    true,
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
	s.addWords(s.words(e))
}

// addWords takes note of a sentence with a zero byte for each value.
func (s *sentenceFinder) addWords(words string) {
	n := 0
	sentence := regexp.MustCompile(`\x00`).ReplaceAllStringFunc(words, func(string) string {
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
