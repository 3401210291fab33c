package files

import (
	"fmt"
	"path"
	"strings"
)

// maxAlternatives bounds what braces expand to.
const maxAlternatives = 256

// pattern is a compiled glob: *, ?, [a-z], {a,b} and ** for any number of
// directories. Without a slash it matches names anywhere, with one it matches
// the end of the relative path.
type pattern struct {
	names []nameMatch // alternatives without a slash
	paths [][]string  // alternatives with one, split into elements
}

func compilePattern(p string) (*pattern, error) {
	p = strings.ReplaceAll(p, `\`, "/")
	p = strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/")
	p = strings.TrimLeft(p, "/")
	if p == "" {
		return nil, fmt.Errorf("the pattern is empty")
	}

	alternatives, err := expandBraces(p)
	if err != nil {
		return nil, err
	}

	out := &pattern{}
	for _, a := range alternatives {
		elems := strings.Split(strings.ReplaceAll(a, "[!", "[^"), "/")
		for _, e := range elems {
			if _, err := path.Match(e, ""); err != nil {
				return nil, fmt.Errorf("the pattern %q is malformed", a)
			}
		}

		if len(elems) == 1 && elems[0] != "**" {
			out.names = append(out.names, compileName(elems[0]))
			continue
		}

		if elems[0] != "**" {
			elems = append([]string{"**"}, elems...)
		}
		out.paths = append(out.paths, elems)
	}

	return out, nil
}

// match tests an entry by its name and its slash path.
func (p *pattern) match(dir, name string) bool {
	for _, n := range p.names {
		if n.match(name) {
			return true
		}
	}

	if len(p.paths) == 0 {
		return false
	}

	elems := strings.Split(path.Join(dir, name), "/")
	for _, want := range p.paths {
		if matchElems(want, elems) {
			return true
		}
	}
	return false
}

// matchElems matches path elements; "**" stands for any number of them, at the
// end for at least one. Going back to the last "**" only is enough, so the time
// is bounded by the product of the lengths.
func matchElems(want, have []string) bool {
	if n := len(want); n > 0 && want[n-1] == "**" {
		want = append(append([]string{}, want...), "*")
	}

	i, j := 0, 0
	star, resume := -1, 0
	for j < len(have) {
		if i < len(want) && want[i] == "**" {
			star, resume = i, j
			i++
			continue
		}

		if i < len(want) {
			if ok, _ := path.Match(want[i], have[j]); ok {
				i++
				j++
				continue
			}
		}

		if star < 0 {
			return false
		}

		resume++
		i, j = star+1, resume
	}

	for i < len(want) && want[i] == "**" {
		i++
	}
	return i == len(want)
}

// nameMatch matches one name; the common shapes avoid the general matcher.
type nameMatch struct {
	exact, suffix, glob string
}

func compileName(p string) nameMatch {
	if !strings.ContainsAny(p, `*?[\`) {
		return nameMatch{exact: p}
	}
	if rest, ok := strings.CutPrefix(p, "*"); ok && rest != "" && !strings.ContainsAny(rest, `*?[\`) {
		return nameMatch{suffix: rest}
	}
	return nameMatch{glob: p}
}

func (n nameMatch) match(name string) bool {
	switch {
	case n.exact != "":
		return n.exact == name
	case n.suffix != "":
		return strings.HasSuffix(name, n.suffix)
	}
	ok, _ := path.Match(n.glob, name)
	return ok
}

// expandBraces turns {a,b} into alternatives, nested ones too.
func expandBraces(p string) ([]string, error) {
	open := strings.IndexByte(p, '{')
	if open < 0 {
		return []string{p}, nil
	}

	depth, end := 0, -1
	var cuts []int
	for i := open; i < len(p) && end < 0; i++ {
		switch p[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				end = i
			}
		case ',':
			if depth == 1 {
				cuts = append(cuts, i)
			}
		}
	}

	if end < 0 {
		return nil, fmt.Errorf("the pattern %q has an unclosed {", p)
	}

	var out []string
	from := open + 1
	for _, to := range append(cuts, end) {
		more, err := expandBraces(p[:open] + p[from:to] + p[end+1:])
		if err != nil {
			return nil, err
		}
		if out = append(out, more...); len(out) > maxAlternatives {
			return nil, fmt.Errorf("the pattern has more than %d alternatives", maxAlternatives)
		}
		from = to + 1
	}

	return out, nil
}
