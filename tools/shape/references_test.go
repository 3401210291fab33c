package main

import (
	"slices"
	"testing"
)

func TestUses(t *testing.T) {
	t.Parallel()
	const home = `
type store struct{ inner *part }
type part struct{}
var limit, count int
const most = 3
func open() *store { return nil }
func (s *store) close() {}
func (s *store) Read() *part { return s.inner }
func (p *part) size() int { return 0 }
func (p *part) close() {}
type other struct{ name string }
func (o other) name() {}
`
	for name, c := range map[string]struct {
		text string
		want int // uses of home
	}{
		"nothing":                       {"func f(n int) { n++ }", 0},
		"a function":                    {"func f() { open() }", 1},
		"a type":                        {"func f(s *store) {}", 1},
		"a variable and a constant":     {"func f() { limit = most }", 2},
		"twice the same":                {"func f() { limit++; limit++ }", 2},
		"a name of its own":             {"func f() { open := 1; open++ }", 0},
		"a parameter of that name":      {"func f(limit int) { limit++ }", 0},
		"a selector of a package":       {"func f() { x.open() }", 0},
		"a field of that name":          {"type y struct{ open int }; func f(v y) { v.open++; _ = y{open: 1} }", 0},
		"a method of a receiver":        {"func (s *store) f() { s.close() }", 2},
		"a method of a parameter":       {"func f(s *store) { s.Read() }", 2},
		"a method of a field":           {"func f(s *store) { s.inner.close() }", 2},
		"a method of a variable":        {"func f() { var s store; s.Read() }", 2},
		"a method of what was opened":   {"func f() { s := open(); s.Read() }", 2},
		"a method of a result":          {"func f(s *store) { p := s.Read(); p.close() }", 3},
		"a method of a literal":         {"func f() { s := &store{}; s.Read() }", 2},
		"a method of an asserted type":  {"func f(v any) { v.(*store).Read() }", 2},
		"the only method of a name":     {"func f(v []*part) { v[0].size() }", 2},
		"a method that two types have":  {"func f(v []*part) { v[0].close() }", 1},
		"an exported method of unknown": {"func f(v x.T) { v.Read() }", 0},
		"what is a field, too":          {"func f(v x.T) { v.name() }", 0},
		"a variable that names itself":  {"func f() { s := s.Read(); s.Read() }", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uses := newIndex(parseTexts(t, home, c.text)).uses()
			if got := uses[1][0]; got != c.want {
				t.Errorf("%d uses, want %d", got, c.want)
			}
			if uses[0][1] != 0 {
				t.Errorf("%d uses the other way, want none", uses[0][1])
			}
		})
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		uses [][]int
		want []int
	}{
		"a chain":        {[][]int{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}}, []int{2, 1, 0}},
		"a circle":       {[][]int{{0, 1, 0}, {0, 0, 5}, {5, 0, 0}}, []int{1, 2, 0}},
		"two of a kind":  {[][]int{{0, 2}, {3, 0}}, []int{1, 0}},
		"nothing at all": {nil, nil},
	} {
		if got := order(c.uses); !slices.Equal(got, c.want) {
			t.Errorf("%s: the order is %v, want %v", name, got, c.want)
		}
	}
}

// The first steps alone put file 0, which uses more than it is used, to the beginning.
func TestImprove(t *testing.T) {
	t.Parallel()
	uses := [][]int{{0, 1, 0}, {0, 0, 1}, {3, 0, 0}}
	top := []int{0, 1, 2}
	if !improve(top, uses) || !slices.Equal(top, []int{1, 2, 0}) {
		t.Errorf("the order became %v, want [1 2 0]", top)
	}
	if improve(top, uses) {
		t.Errorf("the best order was changed to %v", top)
	}
}

func TestCountUpward(t *testing.T) {
	t.Parallel()
	got := countUpward(parseTexts(t,
		"func a() { b(); b(); c() }",
		"func b() { c(); c() }",
		"func c() { a() }",
	))
	if got != (upward{1, 6}) {
		t.Errorf("%d of %d references run up, want 1 of 6", got.up, got.all)
	}
	if share := got.share(); share < 0.16 || share > 0.17 {
		t.Errorf("the share is %f, want a sixth", share)
	}
	if share := (upward{}).share(); share != 0 {
		t.Errorf("the share of nothing is %f", share)
	}
}
