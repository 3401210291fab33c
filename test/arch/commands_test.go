package arch_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// slashWord is how a slash command is written.
var slashWord = regexp.MustCompile(`^/[a-z][a-z-]*$`)

// comparedWords are the texts like slash commands that a file compares
// something with: in a case, with == or !=, or with a function of strings.
func comparedWords(f *ast.File) []string {
	var out []string
	add := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		if s, err := strconv.Unquote(lit.Value); err == nil && slashWord.MatchString(s) {
			out = append(out, s)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CaseClause:
			for _, e := range n.List {
				add(e)
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				add(n.X)
				add(n.Y)
			}
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := fn.X.(*ast.Ident); ok && pkg.Name == "strings" {
					for _, e := range n.Args {
						add(e)
					}
				}
			}
		}
		return true
	})
	return out
}

// A slash command has a row in the command table, wherever its code lives. The
// agent carries out rows only; other packages that messages pass through must
// not answer a command that has none.
func TestCommandsHaveRows(t *testing.T) {
	rows := app.Commands(app.Options{Link: app.Link{Submit: func(context.Context, bus.Inbound) error { return nil }}})
	known := []string{
		"/exit", "/quit", // leave the terminal and are never sent
		"/health", "/healthz", "/livez", "/readyz", // addresses of the WebSocket server
	}
	for _, row := range rows {
		known = append(known, "/"+row.Name)
		for _, alias := range row.Aliases {
			known = append(known, "/"+alias)
		}
	}
	handlers := []string{"internal/core/agent", "internal/core/turn", "internal/run/app", "internal/run/gateway", "internal/cli/tui", "internal/chat", "internal/chat/access", "internal/chat/deliver", "internal/chat/platform/telegram", "internal/chat/platform/email", "internal/web/socket"}
	found := 0
	walkSources(t, func(file string) {
		if !slices.Contains(handlers, path.Dir(file)) || strings.HasSuffix(file, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range comparedWords(f) {
			found++
			if !slices.Contains(known, word) {
				t.Errorf("%s handles %s, which has no row in the command table: hand one in to agent.Options.Commands", file, word)
			}
		}
	})
	if found == 0 {
		t.Error("no command is handled outside of the table, not even /stop of web clients: the test looks in the wrong places")
	}
}

// The check itself must be able to fail.
func TestComparedWords(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
import "strings"
func f(s string) bool {
	switch s {
	case "/a", "b":
		return true
	}
	return s == "/c-d" || strings.EqualFold(s, "/e") || strings.HasPrefix(s, "/f/g")
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := comparedWords(f), []string{"/a", "/c-d", "/e"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
