package main

import "go/ast"

// maxMethods is how many methods a type may have before the report names it.
const maxMethods = 25

// typeName is a type of a package.
type typeName struct{ folder, name string }

// countMethods returns how many methods each type of a package has by the honest
// count, which the comment of the command explains.
func countMethods(parsed []*ast.File) map[string]int {
	types := map[string]bool{}
	wrapped := map[string]string{} // struct with one field -> type of the field
	methods := namesByType{}
	functions := namesByType{} // that take the type first

	for _, f := range parsed {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods.add(baseName(d.Recv.List[0].Type), d.Name.Name)
				} else if first := firstParameter(d.Type); first != nil {
					functions.add(baseName(first), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range typeSpecs(d) {
					types[spec.Name.Name] = true
					if inner := onlyField(spec.Type); inner != "" {
						wrapped[spec.Name.Name] = inner
					}
					for _, name := range interfaceMethods(spec.Type) {
						methods.add(spec.Name.Name, name)
					}
				}
			}
		}
	}

	counts := map[string]int{}
	for t := range types {
		counts[t] = len(methods[t]) + len(functions[t])
	}
	for wrapper, inner := range wrapped {
		if types[inner] {
			counts[inner] += len(methods[wrapper])
		}
	}
	return counts
}

// namesByType are the different names that were added for each type.
type namesByType map[string]map[string]bool

func (n namesByType) add(to, name string) {
	if n[to] == nil {
		n[to] = map[string]bool{}
	}
	n[to][name] = true
}

func typeSpecs(d *ast.GenDecl) []*ast.TypeSpec {
	var specs []*ast.TypeSpec
	for _, s := range d.Specs {
		if spec, ok := s.(*ast.TypeSpec); ok {
			specs = append(specs, spec)
		}
	}
	return specs
}

// firstParameter returns the type of the first parameter that is not a context, and
// nil if there is none.
func firstParameter(f *ast.FuncType) ast.Expr {
	for _, field := range f.Params.List {
		if !isContext(field.Type) {
			return field.Type
		}
	}
	return nil
}

func isContext(e ast.Expr) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Context" {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "context"
}

// baseName returns the name of a type of the package itself, of a pointer to it and
// of a generic type with its arguments, and "" for other types.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.ParenExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	}
	return ""
}

// onlyField returns the type of the only field of a struct.
func onlyField(e ast.Expr) string {
	s, ok := e.(*ast.StructType)
	if !ok || s.Fields.NumFields() != 1 {
		return ""
	}
	return baseName(s.Fields.List[0].Type)
}

func interfaceMethods(e ast.Expr) []string {
	i, ok := e.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var names []string
	for _, m := range i.Methods.List {
		for _, name := range m.Names {
			names = append(names, name.Name)
		}
	}
	return names
}
