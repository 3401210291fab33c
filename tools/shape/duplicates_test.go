package main

import (
	"slices"
	"strings"
	"testing"
)

// six are lines of code in which a number can be put.
const six = "one()\nif two {\n\tthree()\n}\nfour()\nfive()\n"

func TestPairs(t *testing.T) {
	t.Parallel()
	inFunction := func(body string) string { return "package a\n\nfunc f() {\n" + body + "}\n" }
	for name, c := range map[string]struct {
		a, b  string
		want  []pair
		lines int
	}{
		"six equal lines": {
			inFunction("a()\n" + six + "a2()\n"), inFunction(six + "b2()\n"),
			[]pair{{place{"a.go", 5}, place{"b.go", 4}, 6}}, 12,
		},
		"other white space, blank lines and comments": {
			inFunction("a()\n" + six), inFunction("b()\n" + strings.NewReplacer("\n", " // why\n\n\t", "if two", "if  two").Replace(six) + "\nb2()\n"),
			[]pair{{place{"a.go", 5}, place{"b.go", 5}, 6}}, 12,
		},
		"five equal lines": {
			inFunction("a()\n" + strings.TrimPrefix(six, "one()\n") + "a2()\n"), inFunction("b()\n" + strings.TrimPrefix(six, "one()\n")),
			nil, 0,
		},
		"twice in a file": {
			inFunction(six + "a()\n" + six), inFunction("b()\n"),
			[]pair{{place{"a.go", 4}, place{"a.go", 11}, 6}}, 12,
		},
		"an overlap in a file": {
			inFunction(strings.Repeat("one()\n", 9)), inFunction("b()\n"),
			nil, 0,
		},
		"three places": {
			inFunction(six + "a()\n" + six + "a2()\n"), inFunction(six),
			[]pair{{place{"a.go", 3}, place{"b.go", 3}, 7}, {place{"a.go", 4}, place{"a.go", 11}, 6}, {place{"a.go", 11}, place{"b.go", 4}, 6}}, 20,
		},
		"imports": {
			"package a\n\nimport (\n\"a\"\n\"b\"\n\"c\"\n\"d\"\n\"e\"\n\"f\"\n)\n", "package a\n\nimport (\n\"a\"\n\"b\"\n\"c\"\n\"d\"\n\"e\"\n\"f\"\n)\n",
			nil, 0,
		},
		"the ends of two loops": {
			inFunction("for {\nfor {\na()\n}\n}\nreturn\n}\nfunc g() {\n"), inFunction("for {\nfor {\nb()\n}\n}\nreturn\n}\nfunc g() {\n"),
			nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFinder()
			f.add("a.go", goLinesOf(t, c.a))
			f.add("b.go", goLinesOf(t, c.b))
			got, lines := f.pairs()
			if !slices.Equal(got, c.want) || lines != c.lines {
				t.Errorf("the pairs are %v with %d lines, want %v with %d", got, lines, c.want, c.lines)
			}
		})
	}
}
