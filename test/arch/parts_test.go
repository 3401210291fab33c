package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// The parts of a gateway are complete when they are made: only the constructor and
// the methods of a type assign its fields. What is filled in later works in the order
// of the day only, and a reader has to look for the place.
func TestPartsAreComplete(t *testing.T) {
	for _, p := range loadProgram(t) {
		if short(p.PkgPath) != "internal/run/gateway" {
			continue
		}
		for _, late := range lateFields(p.Fset, p.Syntax, p.TypesInfo, p.Types) {
			t.Error(late)
		}
	}
}

// The rule finds a field that is filled in later, and nothing else.
func TestLateFields(t *testing.T) {
	t.Parallel()
	const source = `package p
type part struct{ name string; in *inner }
type inner struct{ n int }
type data struct{ n int }
type whole struct{ part *part; n int; data *data; inside inner }
func (w *whole) late() { w.part.name = "late" }
func (w *whole) deeper() { w.part.in.n++ }
func (w *whole) own() { w.n = 1; w.inside.n = 2; w.data.n = 3 }
func (i *inner) method() {}
func (p *part) own() { p.name = "own" }
func newPart() *part { p := &part{}; p.name = "made here"; return p }
func values() { var i inner; i.n = 2; list := []inner{{}}; list[0].n = 1 }
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{}).Check("p", fset, []*ast.File{f}, info)
	if err != nil {
		t.Fatal(err)
	}
	got := lateFields(fset, []*ast.File{f}, info, pkg)
	want := []string{"p.go:6:26: late assigns part.name", "p.go:7:28: deeper assigns inner.n"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// lateFields are the assignments to fields of types of a package, those with methods,
// by functions that are neither methods of the type nor hold the value in a variable
// of their own.
func lateFields(fset *token.FileSet, files []*ast.File, info *types.Info, pkg *types.Package) (out []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			check := func(target ast.Expr) {
				sel, ok := target.(*ast.SelectorExpr)
				if !ok || info.Selections[sel] == nil || inVariable(sel.X, fn, info) {
					return
				}
				through, pointer := info.Selections[sel].Recv().(*types.Pointer)
				if !pointer {
					return // inside of what the function has itself
				}
				owner := namedOf(through)
				if owner == nil || owner.Obj().Pkg() != pkg || owner.NumMethods() == 0 || receiver(fn, info) == owner.Obj() {
					return
				}
				out = append(out, fmt.Sprintf("%s: %s assigns %s.%s", fset.Position(sel.Pos()), fn.Name.Name, owner.Obj().Name(), sel.Sel.Name))
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, target := range n.Lhs {
						check(target)
					}
				case *ast.IncDecStmt:
					check(n.X)
				}
				return true
			})
		}
	}
	return out
}

// inVariable reports whether an expression is a variable of the function itself, or
// an element of one: a value that it makes, or was given.
func inVariable(x ast.Expr, fn *ast.FuncDecl, info *types.Info) bool {
	for {
		switch e := x.(type) {
		case *ast.IndexExpr:
			x = e.X
		case *ast.ParenExpr:
			x = e.X
		case *ast.Ident:
			v, ok := info.Uses[e].(*types.Var)
			return ok && v.Pos() >= fn.Body.Pos() && v.Pos() < fn.Body.End()
		default:
			return false
		}
	}
}

// receiver is the type that a function is a method of, nil if it is none.
func receiver(fn *ast.FuncDecl, info *types.Info) *types.TypeName {
	f, ok := info.Defs[fn.Name].(*types.Func)
	if !ok || f.Signature().Recv() == nil {
		return nil
	}
	named := namedOf(f.Signature().Recv().Type())
	if named == nil {
		return nil
	}
	return named.Obj()
}
