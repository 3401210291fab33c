package main

import "go/ast"

// minFiles is from how many files on the order of the files of a package is looked at.
const minFiles = 4

// upward is how many references between the files of a package run back up.
type upward struct{ up, all int }

func (u upward) share() float64 {
	if u.all == 0 {
		return 0
	}
	return float64(u.up) / float64(u.all)
}

// countUpward counts the references between the files of a package.
func countUpward(parsed []*ast.File) upward {
	uses := newIndex(parsed).uses()
	var count upward
	top := order(uses)
	for i, higher := range top {
		for _, lower := range top[i+1:] {
			count.up += uses[lower][higher]
			count.all += uses[lower][higher] + uses[higher][lower]
		}
	}
	return count
}

// order puts files in an order in which few uses run from a later file to an earlier
// one. uses[i][j] is how often file i uses file j, and none uses itself.
func order(uses [][]int) []int {
	var first, last []int // the last ones from the end
	rest := make([]int, len(uses))
	for i := range rest {
		rest[i] = i
	}

	// A file that uses none of the rest goes to the end, one that none of the rest
	// uses to the beginning. If there is neither, the one that uses most and is used
	// least goes to the beginning.
	for len(rest) > 0 {
		best, bestGain, atEnd := 0, 0, false
		for k, i := range rest {
			out, in := 0, 0
			for _, j := range rest {
				out += uses[i][j]
				in += uses[j][i]
			}
			if out == 0 || in == 0 {
				best, atEnd = k, out == 0
				break
			}
			if k == 0 || out-in > bestGain {
				best, bestGain = k, out-in
			}
		}
		if atEnd {
			last = append(last, rest[best])
		} else {
			first = append(first, rest[best])
		}
		rest = append(rest[:best], rest[best+1:]...)
	}

	for i := len(last) - 1; i >= 0; i-- {
		first = append(first, last[i])
	}
	for improve(first, uses) {
	}
	return first
}

// improve moves the first file that is better elsewhere, and reports whether there
// was one.
func improve(top []int, uses [][]int) bool {
	for from, file := range top {
		best, bestGain := from, 0

		// gain is how many uses stop running up when the file moves to a place.
		gain := 0
		for to := from + 1; to < len(top); to++ {
			gain += uses[top[to]][file] - uses[file][top[to]]
			if gain > bestGain {
				best, bestGain = to, gain
			}
		}
		gain = 0
		for to := from - 1; to >= 0; to-- {
			gain += uses[file][top[to]] - uses[top[to]][file]
			if gain > bestGain {
				best, bestGain = to, gain
			}
		}
		if best == from {
			continue
		}

		for i := from; i < best; i++ {
			top[i] = top[i+1]
		}
		for i := from; i > best; i-- {
			top[i] = top[i-1]
		}
		top[best] = file
		return true
	}
	return false
}

// index is what the files of a package declare.
type index struct {
	parsed  []*ast.File
	names   map[string]int // function, type, variable or constant -> number of its file
	methods map[string][]method
	fields  map[field]string  // a field's type, if it is one of the package
	isField map[string]bool   // names of fields
	results map[string]string // function -> type of its first result
}

type method struct {
	receiver string
	file     int
	result   string // type of the first result
}

type field struct{ of, name string }

func newIndex(parsed []*ast.File) *index {
	x := &index{
		parsed:  parsed,
		names:   map[string]int{},
		methods: map[string][]method{},
		fields:  map[field]string{},
		isField: map[string]bool{},
		results: map[string]string{},
	}
	for number, f := range parsed {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				x.addFunction(number, d)
			case *ast.GenDecl:
				x.addNames(number, d)
			}
		}
	}
	return x
}

func (x *index) addFunction(file int, d *ast.FuncDecl) {
	result := ""
	if d.Type.Results != nil && len(d.Type.Results.List) > 0 {
		result = baseName(d.Type.Results.List[0].Type)
	}
	if d.Recv == nil {
		x.addName(file, d.Name)
		x.results[d.Name.Name] = result
		return
	}
	m := method{baseName(d.Recv.List[0].Type), file, result}
	if x.method(m.receiver, d.Name.Name) == nil {
		x.methods[d.Name.Name] = append(x.methods[d.Name.Name], m)
	}
}

func (x *index) addNames(file int, d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch spec := s.(type) {
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				x.addName(file, name)
			}
		case *ast.TypeSpec:
			x.addName(file, spec.Name)
			if st, ok := spec.Type.(*ast.StructType); ok {
				x.addFields(spec.Name.Name, st)
			}
		}
	}
}

// addName records where a name is declared. Of files for different systems the first
// one counts.
func (x *index) addName(file int, name *ast.Ident) {
	if _, ok := x.names[name.Name]; !ok && name.Name != "_" && name.Name != "init" {
		x.names[name.Name] = file
	}
}

func (x *index) addFields(of string, st *ast.StructType) {
	for _, f := range st.Fields.List {
		for _, name := range f.Names {
			x.isField[name.Name] = true
			x.fields[field{of, name.Name}] = baseName(f.Type)
		}
		if len(f.Names) == 0 {
			embedded := baseName(f.Type)
			x.isField[embedded] = true
			x.fields[field{of, embedded}] = embedded
		}
	}
}

// method returns a method of a type, and nil if the type has none of that name.
func (x *index) method(of, name string) *method {
	for i, m := range x.methods[name] {
		if m.receiver == of {
			return &x.methods[name][i]
		}
	}
	return nil
}

// uses returns how often each file uses what each other one declares.
func (x *index) uses() [][]int {
	uses := make([][]int, len(x.parsed))
	for from, f := range x.parsed {
		uses[from] = make([]int, len(x.parsed))
		count := func(to int) {
			if to != from {
				uses[from][to]++
			}
		}

		// The parser knows what is declared within the file; the rest is imported,
		// built in or declared in another file.
		for _, name := range f.Unresolved {
			if to, ok := x.names[name.Name]; ok {
				count(to)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				if m := x.used(selector); m != nil {
					count(m.file)
				}
			}
			return true
		})
	}
	return uses
}

// used returns the method that a selector names, and nil if it names something else
// or the type in front of it cannot be told.
func (x *index) used(s *ast.SelectorExpr) *method {
	name := s.Sel.Name
	if m := x.method(x.typeOf(s.X, 0), name); m != nil {
		return m
	}
	candidates := x.methods[name]
	if len(candidates) == 1 && !s.Sel.IsExported() && !x.isField[name] {
		return &candidates[0] // other packages cannot be meant
	}
	return nil
}

// typeOf returns the type of an expression if it is one of the package, or a pointer
// to one, and can be told from the declarations, and else "" or a name of no type.
func (x *index) typeOf(e ast.Expr, depth int) string {
	if depth++; depth > 10 {
		return ""
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return x.typeOf(e.X, depth)
	case *ast.StarExpr:
		return x.typeOf(e.X, depth)
	case *ast.UnaryExpr:
		return x.typeOf(e.X, depth)
	case *ast.CompositeLit:
		return baseName(e.Type)
	case *ast.TypeAssertExpr:
		return baseName(e.Type)
	case *ast.SelectorExpr:
		return x.fields[field{x.typeOf(e.X, depth), e.Sel.Name}]
	case *ast.CallExpr:
		return x.resultOf(e, depth)
	case *ast.Ident:
		if e.Obj != nil {
			return x.declaredType(e, depth)
		}
	}
	return ""
}

// resultOf returns the type of the first result of a call.
func (x *index) resultOf(call *ast.CallExpr, depth int) string {
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return x.results[called.Name]
	case *ast.SelectorExpr:
		if m := x.method(x.typeOf(called.X, depth), called.Sel.Name); m != nil {
			return m.result
		}
	}
	return ""
}

// declaredType returns the type of a receiver, a parameter or a variable.
func (x *index) declaredType(name *ast.Ident, depth int) string {
	switch d := name.Obj.Decl.(type) {
	case *ast.Field:
		return baseName(d.Type)
	case *ast.ValueSpec:
		if d.Type != nil {
			return baseName(d.Type)
		}
		return x.assignedType(name.Name, asExprs(d.Names), d.Values, depth)
	case *ast.AssignStmt:
		return x.assignedType(name.Name, d.Lhs, d.Rhs, depth)
	}
	return ""
}

// assignedType returns the type of what a variable gets in its declaration.
func (x *index) assignedType(name string, to, values []ast.Expr, depth int) string {
	for i, t := range to {
		ident, ok := t.(*ast.Ident)
		if !ok || ident.Name != name {
			continue
		}
		if len(values) == len(to) || i == 0 && len(values) == 1 {
			return x.typeOf(values[i], depth)
		}
	}
	return ""
}

func asExprs(names []*ast.Ident) []ast.Expr {
	var all []ast.Expr
	for _, name := range names {
		all = append(all, name)
	}
	return all
}
