package markdown

import "strings"

// emphasize pairs the runs behind bottom, innermost first, as CommonMark does.
func (p *words) emphasize(bottom *piece) {
	p.flush()
	floor := map[[4]int]*piece{} // below it nothing opens for this kind of closer
	for c := bottom.next; c != &p.head; {
		if !c.close || c.n == 0 {
			c = c.next
			continue
		}
		key := [4]int{int(c.delim), c.orig % 3, toInt(c.open), min(c.n, 2)}
		stop := floor[key]
		o := c.prev
		for o != bottom && o != stop && !pairs(o, c) {
			o = o.prev
		}
		if o == bottom || o == stop {
			floor[key] = c.prev
			c = c.next
			continue
		}
		c = p.wrap(o, c)
	}
	for x := bottom.next; x != &p.head; x = x.next { // nothing closes them any more
		x.open, x.close = false, false
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pairs reports whether a run closes another.
func pairs(o, c *piece) bool {
	if !o.open || o.n == 0 || o.delim != c.delim {
		return false
	}
	if o.delim == '~' {
		return o.n == 2 && c.n == 2
	}
	both := o.close || c.open
	return !both || (o.orig+c.orig)%3 != 0 || o.orig%3 == 0 && c.orig%3 == 0
}

// wrap puts what stands between two runs into one piece and returns where to
// go on.
func (p *words) wrap(o, c *piece) *piece {
	depth := 1 + p.deepest(o.next, c)
	if depth > maxDepth {
		o.open = false
		return c
	}
	n := min(o.n, c.n, 2)
	x := &piece{node: Node{Kind: Emphasis}, depth: depth}
	switch {
	case o.delim == '~':
		x.node.Kind = Strike
	case n == 2:
		x.node.Kind = Strong
	}
	x.node.Children = p.nodes(o.next, c)
	x.prev, x.next = o, c
	o.next, c.prev = x, x
	o.n -= n
	c.n -= n
	if o.n == 0 {
		o.prev.next, x.prev = x, o.prev
	}
	if c.n > 0 {
		return c
	}
	next := c.next
	x.next, next.prev = next, x
	return next
}

// nodes makes nodes of the pieces from one up to another, with neighbouring
// texts as one.
func (p *words) nodes(from, to *piece) []Node {
	var out []Node
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out = append(out, Node{Kind: Text, Text: text.String()})
			text = strings.Builder{}
		}
	}
	for x := from; x != to; x = x.next {
		switch {
		case x.node.Kind != Text:
			flush()
			out = append(out, x.node)
		case x.orig > 0:
			for range x.n {
				text.WriteByte(x.delim)
			}
		default:
			text.WriteString(x.node.Text)
		}
	}
	flush()
	return out
}
