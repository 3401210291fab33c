package phrase_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// TestTerminal looks at every text of more than one word in the packages that write to a
// terminal, and at what their functions are told to say: each has a translation.
func TestTerminal(t *testing.T) {
	t.Parallel()
	table := phrase.Table()
	shared := phrase.Program()
	found := 0
	for _, dir := range terminalPackages() {
		for english, where := range terminalSentences(t, dir) {
			found++
			if table[english] == "" && shared[numbered(english)] == "" {
				t.Errorf("%s: no translation of %q", where, english)
			}
		}
	}
	if found < 900 {
		t.Fatalf("only %d sentences were found: the search does not work", found)
	}
}

// TestErrorsAreRecognized: what these packages put together of a format reaches a person as a
// finished sentence, so it must be found as one, whatever stands for its arguments.
func TestErrorsAreRecognized(t *testing.T) {
	t.Parallel()
	found := 0
	for _, dir := range terminalPackages() {
		for format, where := range terminalFormats(t, dir) {
			found++
			said := withoutVerbsBut(format, "NAME")
			if phrase.Recognize(phrase.Chinese, said) == said {
				t.Errorf("%s: %q is not recognized; its translation belongs into zh_errors.go", where, format)
			}
		}
	}
	if found < 100 {
		t.Fatalf("only %d formats were found: the search does not work", found)
	}
}

// terminalFormats are the formats of errors and of finished sentences in a package.
func terminalFormats(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, files := parseTerminal(t, dir)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.Contains([]string{"Errorf", "Sprintf"}, calledName(call)) {
				return true
			}
			if text, ok := s.text(call.Args[0]); ok && isSentence(text) {
				s.add(call.Args[0])
			}
			return true
		})
	}
	return s.found
}

// numbered is a format as the tables of findings write it: {1} is its first value.
func numbered(format string) string {
	n := 0
	return regexp.MustCompile(`%(?:\[\d\])?[-+#0]*\d*(?:\.\d+)?[a-z]`).ReplaceAllStringFunc(format, func(string) string {
		n++
		return "{" + strconv.Itoa(n) + "}"
	})
}

// TestOneSource: no sentence is in a table of the terminal or of chats and in one of findings,
// too, where the two could differ.
func TestOneSource(t *testing.T) {
	t.Parallel()
	shared := phrase.Program()
	if len(shared) < 700 {
		t.Fatalf("only %d sentences are in the tables of findings", len(shared))
	}
	for english := range phrase.Table() {
		if _, ok := shared[numbered(english)]; ok {
			t.Errorf("%q is translated in zh.json or zh_terminal.json, too", english)
		}
	}
}

func terminalPackages() []string { return []string{"internal/cli", "internal/cli/tui"} }

// terminalSayers are functions and methods of these packages by name, with the number of
// the argument that is a sentence, after a command of cobra; -1 stands for all.
func terminalSayers() map[string]int {
	return map[string]int{
		"say": 0, "sayErr": 0, "words": 0, "in": 0, "agree": 0, "headed": -1, "table": -1, "answer": 0,
		"Later": 0, "Counted": 1, "Errorf": 0,
	}
}

// terminalSentences are the sentences in a package that people read in a terminal.
func terminalSentences(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, files := parseTerminal(t, dir)
	for _, f := range files {
		ast.Inspect(f, s.look)
	}
	return s.found
}

// parseTerminal reads the files of a package and their constants.
func parseTerminal(t *testing.T, dir string) (*terminalSearch, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	s := &terminalSearch{search: search{dir: dir, consts: map[string]string{}, found: map[string]string{}, fset: token.NewFileSet()}}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		ast.Inspect(f, s.constant)
	}
	return s, files
}

type terminalSearch struct {
	search
}

// look takes note of the sentences below a node.
func (s *terminalSearch) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if name, ok := n.Key.(*ast.Ident); ok && name.Name == "Example" {
			return false // commands; comments in them may be translated
		}
	case *ast.AssignStmt:
		if sel, ok := n.Lhs[0].(*ast.SelectorExpr); ok && sel.Sel.Name == "Example" {
			return false
		}
	case *ast.CallExpr:
		name := calledName(n)
		if slices.Contains([]string{"DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Warn"}, name) {
			return false // the log is in English
		}
		s.said(n, name)
	case *ast.BinaryExpr, *ast.BasicLit:
		if text, ok := s.text(n.(ast.Expr)); ok {
			if isSentence(text) {
				s.add(n.(ast.Expr))
			}
			return false
		}
	}
	return true
}

// said takes note of what a call is told to say, also if it is a single word.
func (s *terminalSearch) said(call *ast.CallExpr, name string) {
	at, ok := terminalSayers()[name]
	if !ok {
		return
	}
	args := call.Args
	if len(args) > 0 {
		if first, ok := args[0].(*ast.Ident); ok && first.Name == "cmd" {
			args = args[1:]
		}
	}
	switch {
	case at < 0:
	case at < len(args):
		args = args[at : at+1]
	default:
		return
	}
	for _, a := range args {
		if text, ok := s.text(a); ok && regexp.MustCompile(`[A-Za-z]{2}`).MatchString(withoutVerbs(text)) {
			s.add(a)
		}
	}
}

func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.Ident:
		return fun.Name
	}
	return ""
}

// isSentence reports whether a text has two words in a row.
func isSentence(text string) bool {
	return !notForPeople()[text] && regexp.MustCompile(`[A-Za-z]{2,}[,;:.]? [a-z]{2,}`).MatchString(withoutVerbs(text))
}

func withoutVerbs(text string) string { return withoutVerbsBut(text, "") }

// withoutVerbsBut has a value in the place of each verb.
func withoutVerbsBut(text, value string) string {
	return regexp.MustCompile(`%(?:\[\d\])?[-+#0]*[\d*]*(?:\.\d+)?[a-zA-Z]`).ReplaceAllString(text, value)
}

// notForPeople are texts with several words that no person reads as a sentence.
func notForPeople() map[string]bool {
	return map[string]bool{
		"nanobot memory log": true, "nanobot undo TURN --force": true, // commands, as arguments of sentences
		"snapshot: before an edit by hand": true, "edit: by hand": true, // in the history of the memory files
		"exit code %d": true, "another step": true, "no model": true, "too many open files": true, // errors that are handled
		"unknown flag: --": true, "environment variable ": true, // to cut them off
	}
}

// TestTerminalTable looks at the tables of the terminal: each translation has the
// arguments of its sentence and is Chinese, and each sentence is still in the tree.
func TestTerminalTable(t *testing.T) {
	t.Parallel()
	literals := literalsOf(t, filepath.Join("..", "..", "..", "internal"))
	seen := map[string]bool{}
	for _, pairs := range phrase.Terminal() {
		for _, p := range pairs {
			english, zh := p[0], p[1]
			switch {
			case seen[english]:
				t.Errorf("%q is translated twice", english)
			case !literals[english] && !saidByOthers()[english]:
				t.Errorf("the translation of %q is not used", english)
			case !slices.Equal(verbs(withoutWrap(english)), verbs(withoutWrap(zh))):
				t.Errorf("%q has the arguments %v, its translation %v", english, verbs(english), verbs(zh))
			case !regexp.MustCompile(`\p{Han}`).MatchString(zh) && zh != english && !regexp.MustCompile(`[（），：；]`).MatchString(zh):
				t.Errorf("%q is not Chinese", zh)
			case strings.Count(english, "\n") > 0 && strings.HasSuffix(english, "\n") != strings.HasSuffix(zh, "\n"):
				t.Errorf("%q ends in a line end, or its translation %q does", english, zh)
			}
			seen[english] = true
		}
	}
}

// withoutWrap makes %w a %v: a translation is never an error.
func withoutWrap(format string) string { return strings.ReplaceAll(format, "%w", "%v") }

// saidByOthers are errors of packages that are not ours, which people read.
func saidByOthers() map[string]bool {
	return map[string]bool{
		"unknown flag: --%s": true, "unknown shorthand flag: %s in %s": true, "flag needs an argument: %s": true,
		"invalid argument %s for %s flag: %w":          true,
		"strconv.ParseInt: parsing %s: invalid syntax": true, "strconv.ParseBool: parsing %s: invalid syntax": true,
		"strconv.ParseFloat: parsing %s: invalid syntax": true,
		"no such file or directory":                      true, "file does not exist": true, "permission denied": true,
		"no space left on device": true, "read-only file system": true, "connection refused": true,
		"address already in use": true,
		// Put together of a path and fixed words.
		"the answer of %s is not a list of models; is the base URL right?": true,
		"is the model server running at %s?":                               true, "unknown host %s": true,
		"unknown setting %s": true, "unknown setting %s; did you mean %s?": true,
		"%s in the configuration": true, "%s in the configuration and the environment variable %s": true,
	}
}

// literalsOf are the constant texts of the Go files below a folder.
func literalsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	s := terminalSearch{search: search{consts: map[string]string{}, found: map[string]string{}, fset: token.NewFileSet()}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "phrase" {
				return filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if text, ok := s.text(e); ok {
				s.found[text] = path
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for text := range s.found {
		found[text] = true
	}
	return found
}
