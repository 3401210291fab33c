package web_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Every sentence that refuses something has a code, none is left over, and a code
// always has the same params.
func TestCodes(t *testing.T) {
	t.Parallel()
	used := map[string]string{}
	for _, dir := range []string{".", "subject", filepath.Join("..", "run", "settings"), filepath.Join("..", "run", "gateway")} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		must(t, err)
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				refusals(t, name, used)
			}
		}
	}
	if len(used) < 90 {
		t.Fatalf("only %d sentences were found: the search does not work", len(used))
	}

	word := regexp.MustCompile(`^[a-z][a-z0-9_]+$`)
	params := map[string][]string{}
	formats := map[string]bool{}
	for _, c := range web.Codes() {
		was, known := params[c.Name]
		switch {
		case !word.MatchString(c.Name):
			t.Errorf("%q is not a code", c.Name)
		case formats[c.Format]:
			t.Errorf("%q is twice in the table", c.Format)
		case known && !slices.Equal(was, c.Params):
			t.Errorf("%s has params %v and %v", c.Name, was, c.Params)
		case strings.Count(strings.ReplaceAll(c.Format, "%%", ""), "%") != len(c.Params):
			t.Errorf("%s: %q does not have %d values", c.Name, c.Format, len(c.Params))
		case used[c.Format] == "":
			t.Errorf("%s: %q is not used", c.Name, c.Format)
		}
		params[c.Name], formats[c.Format] = c.Params, true
	}
	for format, where := range used {
		if !formats[format] {
			t.Errorf("%s: no code for %q; add a row to internal/web/codes.go, and \"error.NAME\" to web/src/i18n/errors.ts", where, format)
		}
	}
}

// refusals collects the formats that Refuse and refused are called with.
func refusals(t *testing.T, name string, used map[string]string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
	must(t, err)
	consts := map[string]string{
		"textInternal": "that did not work; the log says why", "textNoSession": "there is no such conversation",
		"textSessionExists": "there is a conversation under this key; delete it first", "textNoJob": "there is no such job", "textNoTrigger": "there is no such trigger", "textProtected": schedule.ErrProtected.Error(),
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		fn := ""
		switch x := call.Fun.(type) {
		case *ast.Ident:
			fn = x.Name
		case *ast.SelectorExpr:
			fn = x.Sel.Name
		}
		if fn != "Refuse" && fn != "refused" {
			return true
		}
		switch x := call.Args[1].(type) {
		case *ast.BasicLit:
			format, err := strconv.Unquote(x.Value)
			must(t, err)
			used[format] = fset.Position(x.Pos()).String()
		case *ast.Ident:
			if format := consts[x.Name]; format != "" {
				used[format] = fset.Position(x.Pos()).String()
			}
		}
		return true
	})
}
