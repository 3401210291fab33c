package main

import (
	"cmp"
	"slices"
	"strings"
)

// match says for folders of the tree of now what they were called before. A folder
// that was there before is itself. Another one is the one that has gone, had a file
// of the same name, and whose path ended in the same way: with as many equal elements
// as possible, then with as many files of the same names. New folders are left out.
func match(now, before map[string][]string) map[string]string {
	type candidate struct {
		now, before     string
		elements, files int
	}
	was := map[string]string{}
	var candidates []candidate
	for folder, files := range now {
		if _, ok := before[folder]; ok {
			was[folder] = folder
			continue
		}
		for old, oldFiles := range before {
			if _, stays := now[old]; stays {
				continue
			}
			c := candidate{folder, old, sameEnd(folder, old), common(files, oldFiles)}
			if c.elements > 0 && c.files > 0 {
				candidates = append(candidates, c)
			}
		}
	}

	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(b.elements, a.elements), cmp.Compare(b.files, a.files),
			cmp.Compare(a.now, b.now), cmp.Compare(a.before, b.before),
		)
	})

	taken := map[string]bool{}
	for _, c := range candidates {
		if _, ok := was[c.now]; !ok && !taken[c.before] {
			was[c.now] = c.before
			taken[c.before] = true
		}
	}
	return was
}

// sameEnd returns with how many equal elements two paths end.
func sameEnd(a, b string) int {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(x) && n < len(y) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
}

// common returns how many names are in both lists.
func common(a, b []string) int {
	n := 0
	for _, name := range a {
		if slices.Contains(b, name) {
			n++
		}
	}
	return n
}
