package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// TestEverySettingIsRead lists every leaf of the configuration, by reflection, and
// the places of the program that read its field, by type. A setting that nothing
// reads fails, unless its own description says that it is ignored or refused.
func TestEverySettingIsRead(t *testing.T) {
	list := loadProgram(t)
	reads := map[string][]string{}
	for _, p := range list {
		if isProduct(short(p.PkgPath)) {
			readFields(p, reads)
		}
	}

	all := settingsBelow(reflect.TypeFor[config.Config](), "")
	if len(all) < 200 {
		t.Fatalf("only %d settings were found", len(all))
	}
	for _, s := range all {
		readers := reads["internal/run/config."+s.owner+"."+s.field]
		if s.owner == "Channel" { // platforms read their sections themselves
			readers = append(readers, reads["internal/chat.Common."+s.field]...)
			readers = append(readers, reads["internal/chat/access.Lists."+s.field]...)
		}
		switch {
		case len(readers) == 0 && !unused(s.doc):
			t.Errorf("%s is read by nothing: give it its effect, or refuse it with a sentence", s.path)
		case testing.Verbose():
			t.Logf("%-50s %s", s.path, strings.Join(readers[:min(len(readers), 3)], " "))
		}
	}

	platforms := 0
	for name, named := range ownTypes(list) { // their sections are structs with JSON names
		s, ok := named.Underlying().(*types.Struct)
		if !ok || name != "internal/chat.Common" && name != "internal/chat/access.Lists" && !embedsCommon(s) {
			continue
		}
		platforms++
		for i := range s.NumFields() {
			tags := reflect.StructTag(s.Tag(i))
			tag, _, _ := strings.Cut(tags.Get("json"), ",")
			if tag != "" && tag != "-" && !unused(tags.Get("doc")) && len(reads[name+"."+s.Field(i).Name()]) == 0 {
				t.Errorf("%s of a channel (%s) is read by nothing", tag, name)
			}
		}
	}
	if platforms < 4 {
		t.Errorf("only %d structs of channels were found", platforms)
	}
}

// unused reports whether a setting says itself that it has no effect.
func unused(doc string) bool {
	return strings.HasPrefix(doc, "Ignored") || strings.HasPrefix(doc, "Not supported")
}

func embedsCommon(s *types.Struct) bool {
	for f := range s.Fields() {
		if named, ok := f.Type().(*types.Named); ok && f.Embedded() && named.Obj().Name() == "Common" && short(named.Obj().Pkg().Path()) == "internal/chat" {
			return true
		}
	}
	return false
}

// readFields notes where a package reads which fields of our own structs, as
// package.Type.Field. What is only assigned to is not read.
func readFields(p *packages.Package, reads map[string][]string) {
	for _, file := range p.Syntax {
		assigned := map[ast.Expr]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					assigned[left] = n.Tok == token.ASSIGN
				}
			case *ast.SelectorExpr:
				s := p.TypesInfo.Selections[n]
				if s == nil || s.Kind() != types.FieldVal || assigned[n] {
					return true
				}
				pos := p.Fset.Position(n.Sel.Pos())
				key := ownerOf(s) + "." + s.Obj().Name()
				reads[key] = append(reads[key], fmt.Sprintf("%s/%s:%d", short(p.PkgPath), path.Base(filepath.ToSlash(pos.Filename)), pos.Line))
			}
			return true
		})
	}
}

// ownerOf is the struct that has a selected field, through embedded ones.
func ownerOf(s *types.Selection) string {
	t := s.Recv()
	for i, at := range s.Index() {
		if ptr, ok := t.Underlying().(*types.Pointer); ok {
			t = ptr.Elem()
		}
		if i == len(s.Index())-1 {
			break
		}
		t = t.Underlying().(*types.Struct).Field(at).Type()
	}
	if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil {
		return short(named.Obj().Pkg().Path()) + "." + named.Obj().Name()
	}
	return ""
}

// leaf is a setting and the field that holds it.
type leaf struct{ path, owner, field, doc string }

// settingsBelow are the settings of a type.
func settingsBelow(t reflect.Type, at string) []leaf {
	var out []leaf
	for f := range t.Fields() {
		name := f.Tag.Get("json")
		if name == "-" {
			name = "<name>" // an open map beside the fields
			if f.Type.Kind() != reflect.Map {
				continue
			}
		}
		where, in := strings.TrimPrefix(at+"."+name, "."), f.Type
		for slices.Contains([]reflect.Kind{reflect.Map, reflect.Slice, reflect.Pointer}, in.Kind()) {
			in = in.Elem()
		}
		if in.Kind() == reflect.Struct && in != reflect.TypeFor[httpsafe.Secret]() && in != reflect.TypeFor[config.Raw]() {
			out = append(out, settingsBelow(in, where)...)
			continue
		}
		out = append(out, leaf{path: where, owner: t.Name(), field: f.Name, doc: f.Tag.Get("doc")})
	}
	return out
}
