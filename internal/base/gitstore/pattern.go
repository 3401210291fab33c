package gitstore

import (
	"path"
	"slices"
	"strings"
)

// pattern is a tracked path, cut at its slashes.
type pattern []string

func (s *Store) patterns() (out []pattern) {
	for _, f := range s.o.Files {
		out = append(out, strings.Split(f, "/"))
	}
	return out
}

// fixed returns the folders a pattern begins with that hold no wildcard.
func (p pattern) fixed() []string {
	i := slices.IndexFunc(p, func(s string) bool { return strings.ContainsAny(s, "*?[") })
	if i < 0 {
		i = len(p) - 1
	}
	return p[:i]
}

func (p pattern) wild() bool {
	return slices.ContainsFunc(p, func(s string) bool { return strings.ContainsAny(s, "*?[") })
}

// match reports whether a path is one of those the pattern means; with open,
// whether such a path may lie below it.
func (p pattern) match(segs []string, open bool) bool {
	switch {
	case len(segs) == 0:
		return open && len(p) > 0 || len(p) == 0
	case len(p) == 0:
		return false
	case p[0] == "**":
		return p[1:].match(segs, open) || p.match(segs[1:], open)
	}

	ok, err := path.Match(p[0], segs[0])
	return err == nil && ok && p[1:].match(segs[1:], open)
}

// tracks reports whether a file is tracked.
func tracks(ps []pattern, name string) bool {
	segs := strings.Split(name, "/")
	return sound(segs) && slices.ContainsFunc(ps, func(p pattern) bool { return p.match(segs, false) })
}

// leads reports whether tracked files may lie in a folder.
func leads(ps []pattern, dir string) bool {
	segs := strings.Split(dir, "/")
	return sound(segs) && slices.ContainsFunc(ps, func(p pattern) bool { return p.match(segs, true) })
}

// sound refuses names that would leave the work tree or enter a repository,
// whatever a pattern or a damaged tree says.
func sound(segs []string) bool {
	return !slices.ContainsFunc(segs, func(s string) bool {
		return s == "" || s == "." || s == ".." || strings.EqualFold(s, ".git") || strings.ContainsAny(s, "\\\x00")
	})
}

// ignoreLines make git look at nothing but the tracked files.
func ignoreLines(ps []pattern) []string {
	lines := []string{"/*"}
	add := func(more ...string) {
		for _, l := range more {
			if !slices.Contains(lines, l) {
				lines = append(lines, l)
			}
		}
	}
	for depth := 1; depth < 16; depth++ {
		for _, p := range ps {
			if len(p) <= depth {
				continue
			}

			dir := "/" + strings.Join(p[:depth], "/")
			if p[depth-1] == "**" {
				add("!" + dir + "/") // every folder below, but no file
				continue
			}

			rest := "/*"
			if p[depth] == "**" {
				rest = "/**"
			}
			add("!"+dir+"/", dir+rest)
		}
	}

	for _, p := range ps {
		add("!/" + strings.Join(p, "/"))
	}
	return lines
}

// ignoreRest makes git itself look at nothing but the tracked files.
func (s *Store) ignoreRest(r *repo) error {
	block := strings.Join(ignoreLines(s.patterns()), "\n") + "\n"
	if b, err := r.root.ReadFile("info/exclude", maxPart); err == nil && strings.Contains(string(b), block) {
		return nil
	}
	return r.replace("info/exclude", []byte(block))
}
