package phrase_test

import (
	"context"
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

// TestLanguages finds the language of a tag.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{"zh": "zh", "zh-Hans-CN": "zh", "zh_CN": "zh", "EN-gb": "en", "de": "", "": "", "zhx": ""} {
		if got := phrase.Language(tag); got != want {
			t.Errorf("Language(%q) = %q, want %q", tag, got, want)
		}
	}
}

// TestSentences says something in both languages.
func TestSentences(t *testing.T) {
	t.Parallel()
	zh := phrase.With(t.Context(), phrase.Chinese)
	why := phrase.Later("the file %s is outside the workspace", "a.txt")
	for _, tt := range []struct {
		ctx  context.Context //nolint:containedctx // a case
		want string
	}{
		{t.Context(), "You are asked because the file a.txt is outside the workspace."},
		{zh, "需要您确认，原因：文件 a.txt 在工作区之外。"},
	} {
		if got := phrase.Of(tt.ctx, "You are asked because %s.", why); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if got := phrase.Count(zh, 2, "subagent") + phrase.Count(t.Context(), 2, "subagent") + phrase.Count(t.Context(), 1, "subagent"); got != "2 个子代理2 subagents1 subagent" {
		t.Errorf("Count: %q", got)
	}
	if got := phrase.In(phrase.Chinese, "100% of it"); got != "100% of it" {
		t.Errorf("a sentence without arguments is a format: %q", got)
	}
}

// TestComplete compares the sentences in the tree with the Chinese table: each
// has a translation with the same arguments, and no translation is left over.
func TestComplete(t *testing.T) {
	t.Parallel()
	used := sentences(t)
	if len(used) < 200 {
		t.Fatalf("only %d sentences were found: the search does not work", len(used))
	}
	table := phrase.Table()
	for english, where := range used {
		zh, ok := table[english]
		switch {
		case !ok:
			t.Errorf("%s: no translation of %q", where, english)
		case !slices.Equal(verbs(english), verbs(zh)):
			t.Errorf("%s: %q has the arguments %v, its translation %v", where, english, verbs(english), verbs(zh))
		case !regexp.MustCompile(`\p{Han}`).MatchString(zh) && zh != english:
			t.Errorf("%q is not Chinese", zh)
		}
	}
	terminal := map[string]bool{}
	for _, pairs := range phrase.Terminal() {
		for _, p := range pairs {
			terminal[p[0]] = true
		}
	}
	for english := range table {
		if used[english] == "" && !terminal[english] {
			t.Errorf("the translation of %q is not used", english)
		}
	}
}

// verbs are the arguments of a format, by number and kind.
func verbs(format string) []string {
	var out []string
	next := 1
	for _, m := range regexp.MustCompile(`%(?:\[(\d+)\])?[-+#0]*(?:\d+)?(?:\.\d+)?([a-zA-Z%])`).FindAllStringSubmatch(format, -1) {
		if m[2] == "%" {
			continue
		}
		if m[1] != "" {
			next, _ = strconv.Atoi(m[1])
		}
		out = append(out, strconv.Itoa(next)+m[2])
		next++
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sayers are functions whose argument of this number is a sentence, besides
// those of package phrase: they hand it on.
var sayers = map[string]int{
	"internal/guard/approve.asks": 0, "internal/guard/approve.also": 0, "internal/guard/approve.whenTainted": 1,
	"internal/core/schedule.refusal": 0, "internal/core/runner.stopBudget": 2, "internal/run/app.promptRow": 2,
}

// sources are functions that return sentences, and fields that hold them.
var (
	sources = []string{"internal/core/turn.obstacle", "internal/guard/approve.special"}
	fields  = map[string]string{"internal/core/agent": "Help", "internal/run/app": "Help", "internal/guard/approve": "what"}
)

type search struct {
	dir    string
	consts map[string]string
	found  map[string]string
	fset   *token.FileSet
}

// sentences are the English sentences in the tree, with where they are.
func sentences(t *testing.T) map[string]string {
	t.Helper()
	s := search{found: map[string]string{}, fset: token.NewFileSet()}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() == "phrase" || d.Name() == "testdata" {
			return err
		}
		names, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		var files []*ast.File
		s.dir, _ = filepath.Rel(root, path)
		s.dir, s.consts = filepath.ToSlash(s.dir), map[string]string{}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(s.fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, f)
			ast.Inspect(f, s.constant)
		}
		for _, f := range files {
			ast.Inspect(f, s.visit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"yes", "no", "turn", "session"} { // answers to approvals, by bus
		s.found[option] = "internal/bus"
	}
	return s.found
}

func (s *search) constant(n ast.Node) bool {
	if v, ok := n.(*ast.ValueSpec); ok {
		for i, name := range v.Names {
			if i < len(v.Values) {
				if text, ok := s.text(v.Values[i]); ok {
					s.consts[name.Name] = text
				}
			}
		}
	}
	return true
}

// text is the value of a constant text.
func (s *search) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := s.consts[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		a, ok1 := s.text(e.X)
		b, ok2 := s.text(e.Y)
		return a + b, ok1 && ok2 && e.Op == token.ADD
	case *ast.ParenExpr:
		return s.text(e.X)
	}
	return "", false
}

func (s *search) add(e ast.Expr) {
	if text, ok := s.text(e); ok && text != "" {
		s.found[text] = s.fset.Position(e.Pos()).String()
	}
}

func (s *search) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		arg := -1
		switch fun := n.Fun.(type) {
		case *ast.SelectorExpr:
			if x, ok := fun.X.(*ast.Ident); ok && x.Name == "phrase" {
				arg = map[string]int{"Of": 2, "In": 2, "Later": 1, "Count": 3, "Counted": 2}[fun.Sel.Name] - 1
			} else if i, ok := sayers[s.dir+"."+fun.Sel.Name]; ok {
				arg = i
			}
		case *ast.Ident:
			if i, ok := sayers[s.dir+"."+fun.Name]; ok {
				arg = i
			}
		}
		if arg >= 0 && arg < len(n.Args) {
			s.add(n.Args[arg])
		}
	case *ast.KeyValueExpr:
		if name, ok := n.Key.(*ast.Ident); ok && name.Name == fields[s.dir] {
			s.add(n.Value)
		}
	case *ast.AssignStmt:
		for i, l := range n.Lhs {
			if sel, ok := l.(*ast.SelectorExpr); ok && sel.Sel.Name == fields[s.dir] && i < len(n.Rhs) {
				s.add(n.Rhs[i])
			}
		}
	case *ast.FuncDecl:
		if slices.Contains(sources, s.dir+"."+n.Name.Name) {
			ast.Inspect(n.Body, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok {
					s.add(r.Results[0])
				}
				return true
			})
		}
	}
	return true
}
