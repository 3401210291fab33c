package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

func parseTexts(t *testing.T, texts ...string) []*ast.File {
	t.Helper()
	set := token.NewFileSet()
	var parsed []*ast.File
	for i, text := range texts {
		f, err := parser.ParseFile(set, strconv.Itoa(i)+".go", "package a\n"+text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	return parsed
}

func TestCountMethods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want int // methods of the type a
	}{
		"none":                              {"type a struct{}", 0},
		"methods":                           {"type a struct{}; func (x a) f() {}; func (x *a) g() {}", 2},
		"of a generic type":                 {"type a[T any] struct{}; func (x *a[T]) f() {}; func g[T any](x *a[T]) {}", 2},
		"a function that takes it first":    {"type a struct{}; func f(x a, n int) {}", 1},
		"a function that takes a pointer":   {"type a struct{}; func f(x, y *a) {}", 1},
		"after a context":                   {"type a struct{}; func f(ctx context.Context, x *a) {}", 1},
		"after a context of another kind":   {"type a struct{}; func f(ctx tool.Context, x *a) {}", 0},
		"a function that takes it second":   {"type a struct{}; func f(n int, x *a) {}", 0},
		"a function that takes several":     {"type a struct{}; func f(x []a) {}", 0},
		"a function that takes another one": {"type a struct{}; func f(x *other.a) {}", 0},
		"a wrapper":                         {"type a struct{}; type b struct{ x *a }; func (b) f() {}; func (b) g() {}", 2},
		"an embedding wrapper":              {"type a struct{}; type b struct{ *a }; func (b) f() {}", 1},
		"a struct with a second field":      {"type a struct{}; type b struct{ x *a; n int }; func (b) f() {}", 0},
		"a struct with two of them":         {"type a struct{}; type b struct{ x, y *a }; func (b) f() {}", 0},
		"functions that take a wrapper":     {"type a struct{}; type b struct{ x *a }; func f(b) {}", 0},
		"an interface":                      {"type a interface{ f(); g(); other }", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := countMethods(parseTexts(t, c.text))["a"]; got != c.want {
				t.Errorf("a has %d methods, want %d", got, c.want)
			}
		})
	}
}

func TestCountMethodsOfSeveralFiles(t *testing.T) {
	t.Parallel()
	got := countMethods(parseTexts(t,
		"type a struct{}; func (a) f() {}",
		"//go:build linux\n\nfunc (a) onSystem() {}; func take(a) {}",
		"//go:build windows\n\nfunc (a) onSystem() {}; func take(a) {}",
	))
	if len(got) != 1 || got["a"] != 3 {
		t.Errorf("the methods are %v, want 3 of a: a function for two systems counts once", got)
	}
}
