package config

import (
	"bytes"
	"slices"
)

// Changed names what differs between two configurations, down to the second
// level: "channels.telegram", "gateway.port", "agents.defaults". Credentials
// count, the order of members and comments do not.
func (l *Loaded) Changed(old *Loaded) []string {
	var out []string
	a, b := old.state.tree, l.state.tree
	if a == b {
		return nil
	}

	for _, top := range names(a, b) {
		x, y := a.get(top), b.get(top)
		if sameNode(x, y) {
			continue
		}

		subs := names(x, y)
		if len(subs) == 0 {
			out = append(out, top)
		}

		for _, sub := range subs {
			if !sameNode(x.get(sub), y.get(sub)) {
				out = append(out, top+"."+sub)
			}
		}
	}

	return out
}

func isObject(n *node) bool { return n != nil && n.kind == '{' }

// names returns the members of either object, sorted.
func names(a, b *node) []string {
	var out []string
	for _, n := range []*node{a, b} {
		if n == nil {
			continue
		}
		for _, m := range n.members {
			out = append(out, m.name)
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// sameNode compares what was set. An object with nothing in it sets nothing.
func sameNode(a, b *node) bool {
	switch {
	case a == nil && b == nil:
		return true
	case a == nil:
		return isObject(b) && len(b.members) == 0
	case b == nil:
		return isObject(a) && len(a.members) == 0
	}

	if !isObject(a) || !isObject(b) {
		return bytes.Equal(a.appendJSON(nil), b.appendJSON(nil))
	}

	for _, name := range names(a, b) {
		if !sameNode(a.get(name), b.get(name)) {
			return false
		}
	}
	return true
}
