package arch_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

// program is the whole module with its types, without tests. It is loaded once
// for all tests that need it, as it is built.
var program = sync.OnceValues(func() ([]*packages.Package, error) {
	return packages.Load(&packages.Config{
		Mode:       packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile,
		BuildFlags: []string{"-tags=goolm"},
	}, "./...")
})

func loadProgram(t *testing.T) []*packages.Package {
	t.Helper()
	if testing.Short() {
		t.Skip("type-checks the whole module")
	}
	list, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
	}
	return list
}

// short is the path of a package inside the module; "." is the root.
func short(pkgPath string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkgPath, module), "/"), ".")
}

// ownTypes are the named types of the product, by "package.Name".
func ownTypes(list []*packages.Package) map[string]*types.Named {
	out := map[string]*types.Named{}
	for _, p := range list {
		if !isProduct(short(p.PkgPath)) {
			continue
		}
		for _, obj := range p.TypesInfo.Defs {
			name, ok := obj.(*types.TypeName)
			if !ok || name.IsAlias() {
				continue
			}
			if named, ok := name.Type().(*types.Named); ok {
				out[short(p.PkgPath)+"."+name.Name()] = named
			}
		}
	}
	return out
}

// The interfaces of package chat beside Channel itself, which a platform may
// implement or use, are listed. Another one is a decision for review: each
// doubles the combinations that the supervisor has to serve.
func TestChannelInterfaces(t *testing.T) {
	b := readBudget(t)
	var found []string
	for name, typ := range ownTypes(loadProgram(t)) {
		pkg, local := name[:strings.LastIndex(name, ".")], name[strings.LastIndex(name, ".")+1:]
		if pkg == "internal/chat" && token.IsExported(local) && types.IsInterface(typ) && local != "Channel" {
			found = append(found, local)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, b.ChannelInterfaces) {
		t.Errorf("package chat has the interfaces %q, budget.json lists %q in channel_interfaces: prefer data in Caps to another interface; remove what is gone", found, b.ChannelInterfaces)
	}
}

// exports finds exported names that no other package of the program uses. Tests
// do not count: what only they need is unexported, or deleted.
type exports struct {
	used      map[string]bool // "path.Name" or "path.Type.Method"
	seen      map[types.Type]bool
	ifaces    map[string][]*types.Interface // by the name of a method
	embedders map[*types.TypeName][]*types.Named
}

func key(obj types.Object) string {
	if obj.Pkg() == nil {
		return ""
	}
	name := short(obj.Pkg().Path()) + "."
	if fn, ok := obj.(*types.Func); ok {
		if recv := fn.Signature().Recv(); recv != nil {
			if named := namedOf(recv.Type()); named != nil {
				return name + named.Obj().Name() + "." + obj.Name()
			}
			return ""
		}
		obj = fn.Origin()
	}
	return name + obj.Name()
}

func namedOf(t types.Type) *types.Named {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, _ := types.Unalias(t).(*types.Named)
	return named
}

// use marks an object, and the types that whoever uses it has to deal with.
func (x *exports) use(obj types.Object) {
	switch o := obj.(type) {
	case *types.Var:
		if !o.IsField() {
			x.used[key(o)] = true
		}
	case *types.Func, *types.TypeName, *types.Const:
		x.used[key(obj)] = true
	default:
		return
	}
	x.reach(obj.Type())
}

func (x *exports) reach(t types.Type) {
	if t == nil || x.seen[t] {
		return
	}
	x.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		x.used[key(t.Obj())] = true
		for arg := range t.TypeArgs().Types() {
			x.reach(arg)
		}
		x.reach(t.Underlying())
	case *types.Alias:
		x.used[key(t.Obj())] = true
		x.reach(types.Unalias(t))
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				x.reach(f.Type())
			}
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			x.reach(v.Type())
		}
		for v := range t.Results().Variables() {
			x.reach(v.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			x.reach(m.Type())
		}
		for e := range t.EmbeddedTypes() {
			x.reach(e)
		}
	case *types.Map:
		x.reach(t.Key())
		x.reach(t.Elem())
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		x.reach(t.Elem())
	}
}

// implements reports whether a method is there for an interface, which the type or
// one that embeds it implements.
func (x *exports) implements(recv *types.Named, method string) bool {
	return slices.ContainsFunc(append([]*types.Named{recv}, x.embedders[recv.Obj()]...), func(n *types.Named) bool {
		return slices.ContainsFunc(x.ifaces[method], func(i *types.Interface) bool {
			return types.Implements(n, i) || types.Implements(types.NewPointer(n), i)
		})
	})
}

// embedded notes which type of the module embeds which.
func (x *exports) embedded(p *packages.Package) {
	for _, name := range p.Types.Scope().Names() {
		n, ok := p.Types.Scope().Lookup(name).Type().(*types.Named)
		if !ok {
			continue
		}
		s, ok := n.Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for f := range s.Fields() {
			if inner := namedOf(f.Type()); f.Embedded() && inner != nil {
				x.embedders[inner.Obj()] = append(x.embedders[inner.Obj()], n)
			}
		}
	}
}

// implemented reports an interface that a type of another package implements,
// which need not name it.
func (x *exports) implemented(name *types.TypeName, list []*packages.Package) bool {
	i, ok := name.Type().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for _, p := range list {
		if p.Types == name.Pkg() {
			continue
		}
		for _, other := range p.Types.Scope().Names() {
			if tn, ok := p.Types.Scope().Lookup(other).(*types.TypeName); ok && types.Implements(types.NewPointer(tn.Type()), i) {
				return true
			}
		}
	}
	return false
}

// interfaces collects those of the module and of what it imports.
func (x *exports) interfaces(list []*packages.Package) {
	add := func(t types.Type) {
		i, ok := t.Underlying().(*types.Interface)
		if !ok || i.NumMethods() == 0 {
			return
		}
		for m := range i.Methods() {
			x.ifaces[m.Name()] = append(x.ifaces[m.Name()], i)
		}
	}
	add(types.Universe.Lookup("error").Type())
	seen := map[string]bool{}
	for _, p := range list {
		for _, tv := range p.TypesInfo.Types {
			if _, literal := tv.Type.(*types.Interface); literal && tv.IsType() {
				add(tv.Type)
			}
		}
		for _, imp := range append(p.Types.Imports(), p.Types) {
			if seen[imp.Path()] {
				continue
			}
			seen[imp.Path()] = true
			for _, name := range imp.Scope().Names() {
				if tn, ok := imp.Scope().Lookup(name).(*types.TypeName); ok {
					if n, ok := tn.Type().(*types.Named); !ok || n.TypeParams().Len() == 0 {
						add(tn.Type())
					}
				}
			}
		}
	}
}

// elsewhere marks what files for other systems name, by its spelling.
func (x *exports) elsewhere(p *packages.Package) error {
	for _, file := range p.IgnoredFiles {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		names := map[string]string{}
		for _, imp := range f.Imports {
			if at := strings.Trim(imp.Path.Value, `"`); strings.HasPrefix(at, module) {
				names[path.Base(at)] = short(at)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && names[pkg.Name] != "" {
					x.used[names[pkg.Name]+"."+sel.Sel.Name] = true
				}
				x.used["*."+sel.Sel.Name] = true // perhaps a method
			}
			return true
		})
	}
	return nil
}

// unnamed are methods that the standard library calls without a named interface.
var unnamed = []string{"As", "Is", "IsZero", "Unwrap"}

// unusedExports lists "package.Name" and "package.Type.Method".
func unusedExports(list []*packages.Package) ([]string, error) {
	x := &exports{
		used:      map[string]bool{},
		seen:      map[types.Type]bool{},
		ifaces:    map[string][]*types.Interface{},
		embedders: map[*types.TypeName][]*types.Named{},
	}
	x.interfaces(list)
	for _, p := range list {
		x.embedded(p)
		if err := x.elsewhere(p); err != nil {
			return nil, err
		}
		for _, obj := range p.TypesInfo.Uses {
			if obj.Pkg() != nil && obj.Pkg() != p.Types && strings.HasPrefix(obj.Pkg().Path(), module) {
				x.use(obj)
			}
		}
		if p.PkgPath == module { // the Go library: others use all of it
			for _, name := range p.Types.Scope().Names() {
				obj := p.Types.Scope().Lookup(name)
				if !obj.Exported() {
					continue
				}
				x.use(obj)
				if named := namedOf(obj.Type()); named != nil {
					for m := range named.Methods() { // of what it names in other packages, too
						x.use(m)
					}
				}
			}
		}
	}

	var out []string
	for _, p := range list {
		if p.Name == "main" || p.PkgPath == module || !isProduct(strings.TrimPrefix(p.PkgPath, module+"/")) {
			continue
		}
		for _, obj := range p.TypesInfo.Defs {
			if obj == nil || !obj.Exported() || x.used[key(obj)] {
				continue
			}
			switch o := obj.(type) {
			case *types.Func:
				if recv := o.Signature().Recv(); recv != nil {
					named := namedOf(recv.Type())
					if named == nil || !named.Obj().Exported() || types.IsInterface(named) {
						continue
					}
					if x.used["*."+o.Name()] || slices.Contains(unnamed, o.Name()) || x.implements(named, o.Name()) {
						continue
					}
				}
			case *types.Const:
				if named := namedOf(o.Type()); named != nil && x.used[key(named.Obj())] {
					continue // one value of an enumeration that others use
				}
			case *types.Var:
				if o.IsField() || o.Parent() != p.Types.Scope() {
					continue
				}
			case *types.TypeName:
				if o.Parent() != p.Types.Scope() || x.implemented(o, list) {
					continue
				}
			default:
				continue
			}
			if k := key(obj); k != "" {
				out = append(out, k)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// forTests are names that no product code outside of their package needs. Tests of
// several packages begin from them or judge by them, so they cannot be in a test.
var forTests = []string{
	"internal/chat/access.Book.Ask",               // a request that waits for the owner
	"internal/core/memory.History.SetDreamCursor", // what Dream has read already
	"internal/core/session.CheckLegal",            // the promise of a stored history
	"internal/core/session.Session.Compact",       // a log that was archived early
}

func TestExportsAreUsed(t *testing.T) {
	found, err := unusedExports(loadProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if !slices.Contains(forTests, name) {
			t.Errorf("%s is exported, but no other package uses it (tests do not count): unexport it, or delete it", name)
		}
	}
	for _, name := range forTests {
		if !slices.Contains(found, name) {
			t.Errorf("%s is used, unexported or gone: take it off forTests", name)
		}
	}
}

// Comments that silence a linter name one that runs, and give a reason.
func TestNolint(t *testing.T) {
	conf, err := os.ReadFile(".golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	enabled := enabledLinters(string(conf))
	if len(enabled) < 20 {
		t.Fatalf("cannot read the linters of .golangci.yml: %q", enabled)
	}
	walkSources(t, func(file string) {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(body), "\n") {
			if why := badNolint(line, enabled); why != "" {
				t.Errorf("%s:%d: %s", file, i+1, why)
			}
		}
	})
}

func enabledLinters(conf string) []string {
	m := regexp.MustCompile(`(?s)\n  enable: \[(.*?)\]`).FindStringSubmatch(conf)
	if m == nil {
		return nil
	}
	return strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

var nolint = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\s//\s*nolint\b(?::([\w,]+))?(.*)$`) })

// badNolint says what is wrong with a nolint comment on the line; "" if nothing.
func badNolint(line string, enabled []string) string {
	m := nolint().FindStringSubmatch(line)
	switch {
	case m == nil:
		return ""
	case m[1] == "":
		return "nolint without a linter: name it"
	case len(strings.TrimLeft(m[2], " /")) < 3:
		return "nolint without a reason: add it after a second //"
	}
	for name := range strings.SplitSeq(m[1], ",") {
		if !slices.Contains(enabled, name) {
			return "nolint for " + name + ", which .golangci.yml does not enable: remove the comment"
		}
	}
	return ""
}

func TestNolintRule(t *testing.T) {
	const directive = "x() //no" + "lint"
	for line, ok := range map[string]bool{
		directive + ":errcheck // only read":       true,
		directive + ":errcheck,gosec // only read": true,
		directive + ":errcheck":                    false,
		directive + ":lll // long":                 false,
		directive + ":errcheck,lll // long":        false,
		directive + " // it is fine":               false,
		"// a sentence about them in general":      true,
	} {
		if got := badNolint(line, []string{"errcheck", "gosec"}); (got == "") != ok {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// walkSources calls fn for each Go file of the repository.
func walkSources(t *testing.T, fn func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name()[0] == '.' || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(file, ".go"):
			fn(filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// madeUp type-checks packages from source; later ones import earlier ones.
func madeUp(t *testing.T, sources ...[2]string) []*packages.Package {
	t.Helper()
	known := imports{}
	var list []*packages.Package
	for _, src := range sources {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", src[1], 0)
		if err != nil {
			t.Fatal(err)
		}
		info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
		at := module + "/" + src[0]
		pkg, err := (&types.Config{Importer: known}).Check(at, fset, []*ast.File{f}, info)
		if err != nil {
			t.Fatal(err)
		}
		known[at] = pkg
		list = append(list, &packages.Package{PkgPath: at, Name: pkg.Name(), Types: pkg, TypesInfo: info})
	}
	return list
}

type imports map[string]*types.Package

func (m imports) Import(at string) (*types.Package, error) { return m[at], nil }

// The checkers themselves must be able to fail.
func TestTypeRules(t *testing.T) {
	list := madeUp(t,
		[2]string{"internal/a", `package a
			type Base struct { A, B, C int }
			func (Base) M1() {}
			func (*Base) M2() {}
			type Outer struct { *Base; D int }
			func (*Outer) M3() {}
			func (Outer) Error() string { return "" }
			type Result struct{}
			func Used() Result { return Result{} }
			func Unused() {}
			type Mode int
			const ( Fast Mode = iota; Slow )
			const Limit = 3`},
		[2]string{"internal/b", `package b
			import "` + module + `/internal/a"
			func f() { a.Used(); _ = a.Fast; new(a.Outer).M3() }`})
	got, err := unusedExports(list)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"internal/a.Base.M1", "internal/a.Base.M2", "internal/a.Limit", "internal/a.Unused"}
	if !slices.Equal(got, want) {
		t.Errorf("unused: %q, want %q", got, want)
	}
}
