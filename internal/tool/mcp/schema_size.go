package mcp

import (
	"slices"
	"strings"
)

// depth returns how deep a value is nested, up to just above limit.
func depth(v any, limit int) int {
	if limit < 0 {
		return 1
	}

	deepest := 0
	switch x := v.(type) {
	case map[string]any:
		for _, e := range x {
			deepest = max(deepest, depth(e, limit-1))
		}
	case []any:
		for _, e := range x {
			deepest = max(deepest, depth(e, limit-1))
		}
	default:
		return 0
	}

	return deepest + 1
}

// maxFollowed is deeper than those look who check arguments with a schema.
const maxFollowed = 100

// expansion counts the nodes of a schema when its references are followed. It
// is exact up to the limit and costs no more than the schema times the levels.
func expansion(root map[string]any) int {
	e := &expander{known: map[followed]int{}}
	e.defs, _ = root["$defs"].(map[string]any)
	return e.count(root, 0)
}

type followed struct {
	name  string
	level int
}

type expander struct {
	defs  map[string]any
	known map[followed]int
}

func (e *expander) count(v any, level int) int {
	if level > maxFollowed {
		return 1
	}

	sum := 0
	switch x := v.(type) {
	case map[string]any:
		sum = 1
		for k, sub := range x {
			switch k {
			case "$defs":
			case "$ref":
				sum += e.follow(sub, level+1)
			default:
				sum += e.count(sub, level+1)
			}
			sum = min(sum, maxSchemaNodes+1)
		}
	case []any:
		for _, sub := range x {
			sum = min(sum+e.count(sub, level+1), maxSchemaNodes+1)
		}
	}

	return sum
}

func (e *expander) follow(ref any, level int) int {
	at := followed{definition(ref), level}
	if _, ok := e.known[at]; !ok {
		e.known[at] = e.count(e.defs[at.name], level)
	}
	return e.known[at]
}

// definition returns the name a reference of ours leads to; a property that is
// called $ref leads nowhere.
func definition(ref any) string {
	s, _ := ref.(string)
	name, _ := strings.CutPrefix(s, "#/$defs/")
	return name
}

// cutLoops lets every reference that leads back to where it came from allow anything.
func cutLoops(root, defs map[string]any) {
	done := map[string]bool{}
	var walk func(v any, path []string)
	walk = func(v any, path []string) {
		switch x := v.(type) {
		case map[string]any:
			if name := definition(x["$ref"]); name != "" {
				if slices.Contains(path, name) {
					delete(x, "$ref")
				} else if !done[name] {
					done[name] = true
					walk(defs[name], append(path[:len(path):len(path)], name))
				}
			}
			for k, sub := range x {
				if k != "$defs" {
					walk(sub, path)
				}
			}
		case []any:
			for _, sub := range x {
				walk(sub, path)
			}
		}
	}

	walk(root, nil)
}

// dropTexts removes descriptions and examples, the parts a model can do without.
func dropTexts(v any) {
	switch x := v.(type) {
	case map[string]any:
		props, _ := x["properties"].(map[string]any)
		for _, p := range props {
			dropTexts(p)
		}

		for k, e := range x {
			switch k {
			case "properties":
			case "description", "title", "examples", "default":
				delete(x, k)
			default:
				dropTexts(e)
			}
		}
	case []any:
		for _, e := range x {
			dropTexts(e)
		}
	}
}
