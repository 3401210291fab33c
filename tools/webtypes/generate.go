package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// webType is a type of the pages and the Go code that it is made from.
type webType struct {
	name string // in TypeScript
	dir  string // of the Go package
	// from is a struct; or with (), a function whose map or frame is sent, as
	// "name()", "receiver.name()", or "name(key)" for that one of its maps which
	// has the key. "()" is all functions.
	from string
	// types are those that Go does not tell, by member. A member with ? behind its
	// name may be missing; one with + before it is added by other code.
	types map[string]string
}

// generate writes the files of the pages, by name, for the Go code below root. The
// error names all that is wrong with the tables.
func generate(root string, files []webFile) (map[string][]byte, error) {
	g := &webGen{root: root, parsed: map[string]*webPackage{}, rows: map[string]string{}, home: map[string]string{}}
	for _, f := range files {
		for _, w := range f.types {
			name, _, _ := strings.Cut(w.name, " ")
			if g.home[name] != "" {
				g.report("the tables have %s twice", name)
			}
			g.rows[w.dir+": "+w.from] = name
			g.home[name] = f.name
		}
	}

	out := map[string][]byte{}
	for _, f := range files {
		out[f.name] = g.file(f)
	}
	if len(g.problems) > 0 {
		return nil, errors.New(strings.Join(g.problems, "\n"))
	}
	return out, nil
}

func (g *webGen) report(format string, args ...any) {
	g.problems = append(g.problems, fmt.Sprintf(format, args...))
}

// webFile is a file below web/src/wire.
type webFile struct {
	name, about string
	types       []webType
	tail        string
}

func webFiles() []webFile {
	const frame = "\n/** Frame is what the page sends over the socket. */\nexport interface Frame {\n  type: string;\n  [member: string]: unknown;\n}\n"
	return []webFile{
		{"types.ts", "What crosses the wire.", webTypes(), frame},
		{"reads.ts", "What the pages read.", webReads(), ""},
	}
}

// webGen writes TypeScript for Go code. It reads the source, because most of the
// types are not exported.
type webGen struct {
	root     string   // of the module
	problems []string // of the tables
	parsed   map[string]*webPackage
	rows     map[string]string // names in TypeScript by "dir: struct"
	home     map[string]string // files by such a name
}

type webPackage struct {
	dir     string
	imports map[string]string // folders of packages of ours by name
	structs map[string]*ast.StructType
	others  map[string]ast.Expr // types that are no structs
	funcs   map[string][]*ast.BlockStmt
}

type member struct {
	name, kind string
	optional   bool
}

func (g *webGen) file(f webFile) []byte {
	var out bytes.Buffer
	used := map[string]map[string]string{} // types by the other file they are in
	for _, w := range f.types {
		var lines []string
		for _, m := range g.members(w) {
			mark := ""
			if m.optional {
				mark = "?"
			}
			lines = append(lines, fmt.Sprintf("%s%s: %s;", m.name, mark, m.kind))
			for _, name := range regexp.MustCompile(`\b[A-Z]\w*`).FindAllString(m.kind, -1) {
				if home := cmp.Or(g.home[name], webForeign()[name]); home != "" && home != f.name {
					if used[home] == nil {
						used[home] = map[string]string{}
					}
					used[home][name] = name
				}
			}
		}
		from := strings.TrimSuffix(w.dir+": "+w.from, ": ")
		fmt.Fprintf(&out, "\n/** %s */\nexport interface %s {\n  %s\n}\n", from, w.name, strings.Join(lines, "\n  "))
	}
	head := []byte("// " + f.about + " Made from the Go code by make web-types; do not edit.\n// docs/reference/websocket.md and docs/reference/web-clients.md say what it means.\n")
	for _, home := range slices.Sorted(maps.Keys(used)) {
		from := "./" + strings.TrimSuffix(home, ".ts")
		if strings.HasPrefix(home, ".") {
			from = home
		}
		head = fmt.Appendf(head, "import type { %s } from %q;\n", strings.Join(sortedKeys(used[home]), ", "), from)
	}
	return slices.Concat(head, out.Bytes(), []byte(f.tail))
}

// members are those of the Go code, with what the table knows better.
func (g *webGen) members(w webType) (out []member) {
	p := g.load(w.dir)
	switch name, key, isFunc := strings.Cut(strings.TrimSuffix(w.from, ")"), "("); {
	case w.from == "": // the table knows all
		for _, k := range sortedKeys(w.types) {
			name, optional := strings.CutSuffix(k, "?")
			out = append(out, member{name, w.types[k], optional})
		}
		return out
	case isFunc:
		out = g.sent(p, name, key, w)
	case p.structs[name] == nil:
		g.report("%s has no struct %s", w.dir, name)
	default:
		out = g.fields(p, p.structs[name])
	}
	known := map[string]bool{}
	for i := range out {
		m := &out[i]
		known[m.name] = true
		if kind, ok := w.types[m.name]; ok {
			m.kind, m.optional = kind, m.optional && !isDeclared(w, m.name)
		}
		if kind, ok := w.types[m.name+"?"]; ok {
			m.kind, m.optional = kind, true
		}
		if m.kind == "" {
			g.report("%s.%s: the tables must say what it is", w.name, m.name)
		}
	}
	for _, k := range sortedKeys(w.types) {
		if name, ok := strings.CutPrefix(k, "+"); ok {
			name, optional := strings.CutSuffix(name, "?")
			out = append(out, member{name, w.types[k], optional})
		} else if name := strings.TrimSuffix(k, "?"); !known[name] {
			g.report("%s.%s is in the tables, but %s %s does not have it", w.name, name, w.dir, w.from)
		}
	}
	return out
}

// isDeclared reports whether the table says that a member is always there.
func isDeclared(w webType, name string) bool {
	_, ok := w.types[name]
	return ok && strings.HasSuffix(w.from, ")")
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (g *webGen) load(dir string) *webPackage {
	if p := g.parsed[dir]; p != nil {
		return p
	}
	p := &webPackage{dir: dir, imports: map[string]string{}, structs: map[string]*ast.StructType{}, others: map[string]ast.Expr{}, funcs: map[string][]*ast.BlockStmt{}}
	g.parsed[dir] = p
	files, err := filepath.Glob(filepath.Join(g.root, filepath.FromSlash(dir), "*.go"))
	if err != nil || len(files) == 0 {
		g.report("%s has no Go files", dir)
		return p
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			g.report("%v", err)
			continue
		}
		for _, i := range f.Imports {
			if path, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "github.com/nanobot-go/nanobot/"); ours {
				name := g.packageName(path)
				if i.Name != nil {
					name = i.Name.Name
				}
				p.imports[name] = path
			}
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body != nil {
					p.funcs[d.Name.Name] = append(p.funcs[d.Name.Name], d.Body)
				}
				if d.Body != nil && d.Recv != nil {
					if id, ok := baseOf(d.Recv.List[0].Type).(*ast.Ident); ok {
						p.funcs[id.Name+"."+d.Name.Name] = []*ast.BlockStmt{d.Body}
					}
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok {
						p.others[ts.Name.Name] = ts.Type
						if st, ok := ts.Type.(*ast.StructType); ok {
							p.structs[ts.Name.Name] = st
						}
					}
				}
			}
		}
	}
	return p
}

// packageName is the name by which other files know the package in a folder.
func (g *webGen) packageName(dir string) string {
	files, err := filepath.Glob(filepath.Join(g.root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return filepath.Base(dir)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly)
		if err == nil && !strings.HasSuffix(file, "_test.go") {
			return f.Name.Name
		}
	}
	return filepath.Base(dir)
}

// fields are the members of a struct, those of embedded structs included.
func (g *webGen) fields(p *webPackage, st *ast.StructType) (out []member) {
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			if of, name := g.find(p, baseOf(f.Type)); of != nil && of.structs[name] != nil {
				out = append(out, g.fields(of, of.structs[name])...)
			}
			continue
		}
		for _, n := range f.Names {
			if !n.IsExported() {
				continue
			}
			name, optional := n.Name, false
			if f.Tag != nil {
				tag, _ := strconv.Unquote(f.Tag.Value)
				parts := strings.Split(reflect.StructTag(tag).Get("json"), ",")
				if parts[0] == "-" {
					continue
				}
				if parts[0] != "" {
					name = parts[0]
				}
				optional = slices.Contains(parts, "omitempty") || slices.Contains(parts, "omitzero")
			}
			out = append(out, member{name, g.kind(p, f.Type), optional})
		}
	}
	return out
}

func baseOf(e ast.Expr) ast.Expr {
	if s, ok := e.(*ast.StarExpr); ok {
		return s.X
	}
	return e
}

// find tells the package of a named type; nil: it is not ours.
func (g *webGen) find(p *webPackage, e ast.Expr) (*webPackage, string) {
	switch e := e.(type) {
	case *ast.Ident:
		return p, e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && p.imports[x.Name] != "" {
			return g.load(p.imports[x.Name]), e.Sel.Name
		}
	}
	return nil, ""
}

// kind is a Go type in TypeScript, or "" if the table has to say it.
func (g *webGen) kind(p *webPackage, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return g.kind(p, e.X)
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "string"
		case "bool":
			return "boolean"
		case "any":
			return "unknown"
		case "int", "int32", "int64", "uint64", "float64":
			return "number"
		}
		if row := g.rows[p.dir+": "+e.Name]; row != "" {
			return row
		}
		if under, ok := p.others[e.Name]; ok && p.structs[e.Name] == nil {
			return g.kind(p, under)
		}
	case *ast.ArrayType:
		if of := g.kind(p, e.Elt); of != "" {
			return of + "[]"
		}
	case *ast.MapType:
		if of := g.kind(p, e.Value); of != "" {
			return "Record<string, " + of + ">"
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			switch x.Name + "." + e.Sel.Name {
			case "time.Time":
				return "string"
			case "time.Duration":
				return "number"
			case "json.RawMessage":
				return "unknown"
			}
		}
		if of, _ := g.find(p, e); of != nil {
			return g.kind(of, e.Sel)
		}
	}
	return ""
}

// sent are the names in the maps and frames that a function makes; with no name,
// all functions of the package; with a key, the map that has it.
func (g *webGen) sent(p *webPackage, name, key string, w webType) (out []member) {
	var bodies []*ast.BlockStmt
	for _, n := range sortedNames(p.funcs) {
		if name == "" || n == name {
			bodies = append(bodies, p.funcs[n]...)
		}
	}
	if len(bodies) == 0 {
		g.report("%s has no function %s", w.dir, name)
	}
	seen := map[string]string{}
	add := func(e ast.Expr, kind string) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		k, err := strconv.Unquote(lit.Value)
		if err != nil || k == "" || strings.ContainsAny(k, " /-:{}") {
			return
		}
		if old := seen[k]; old == "" || old == rawKind {
			seen[k] = kind
		}
	}
	frames := map[string]string{"text": "string", "must": "string", "number": "number", "flag": "boolean", "list": "string[]", "raw": rawKind}
	for _, b := range bodies {
		ast.Inspect(b, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if ok && len(n.Args) == 2 && frames[sel.Sel.Name] != "" {
					add(n.Args[0], frames[sel.Sel.Name])
				} else if ok && len(n.Args) == 1 && sel.Sel.Name == "key" {
					add(n.Args[0], rawKind)
				}
			case *ast.CompositeLit:
				if m, ok := n.Type.(*ast.MapType); ok && name != "" && isStringMap(m) && (key == "" || hasKey(n, key)) {
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							add(kv.Key, rawKind)
						}
					}
				}
				if st, ok := n.Type.(*ast.StructType); ok && name != "" {
					for _, m := range g.fields(p, st) {
						seen[m.name] = m.kind
					}
				}
			case *ast.AssignStmt:
				for _, l := range n.Lhs {
					if ix, ok := l.(*ast.IndexExpr); ok && name != "" {
						if id, ok := ix.X.(*ast.Ident); ok && id.Name == "out" && key == "" {
							add(ix.Index, rawKind)
						}
					}
				}
			}
			return true
		})
	}
	if name == "" {
		out = append(out, member{"event", "string", false})
		seen["chat_id"], seen["seq"] = "string", "number"
	}
	for _, k := range sortedKeys(seen) {
		kind := seen[k]
		if kind == rawKind {
			kind = webRaw()[k]
		}
		out = append(out, member{k, kind, true})
	}
	return out
}

// rawKind stands for what only the tables know.
const rawKind = "?"

// webRaw are the members of events that are made of JSON.
func webRaw() map[string]string {
	return map[string]string{
		"tool_events": "ToolEvent[]", "edits": "Edit[]", "question": "Question", "goal_state": "Goal", "usage": "Usage", "started_at": "number",
		"arguments": "string", "workspace_scope": "Scope", "data": "unknown", "result": "unknown", "state": "unknown", "error": "unknown",
		"media_urls": "{ url: string; name?: string }[]", "buttons": "string[]",
	}
}

func isStringMap(m *ast.MapType) bool {
	k, ok := m.Key.(*ast.Ident)
	return ok && k.Name == "string"
}

func hasKey(m *ast.CompositeLit, key string) bool {
	return slices.ContainsFunc(m.Elts, func(e ast.Expr) bool {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		lit, ok := kv.Key.(*ast.BasicLit)
		return ok && lit.Value == strconv.Quote(key)
	})
}

func sortedNames(m map[string][]*ast.BlockStmt) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
