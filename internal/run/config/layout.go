package config

import (
	"bytes"
	"slices"

	"github.com/tailscale/hujson"
)

// The functions here change members and elements of the text tree so that
// indentation, line ends, trailing commas and comments around them stay as a
// person would have left them. A comment behind a value on the same line
// belongs to that value, although the tree keeps it with what follows.

// sameLine splits extra at its first line end. The first part is empty unless
// it holds a comment.
func sameLine(extra []byte) (line, rest []byte) {
	i := bytes.IndexByte(extra, '\n')
	if i < 0 {
		return nil, extra
	}

	if i > 0 && extra[i-1] == '\r' {
		i--
	}

	line, rest = extra[:i], extra[i:]
	if len(bytes.TrimSpace(line)) == 0 {
		line = nil
	}
	return line, rest
}

// lead returns the line break and indentation in front of what follows extra, or
// nil when that stands on the same line.
func lead(extra []byte) []byte {
	i := bytes.LastIndexByte(extra, '\n')
	if i < 0 {
		return nil
	}

	if i > 0 && extra[i-1] == '\r' {
		i--
	}

	for j := i; j < len(extra); j++ {
		if extra[j] != '\r' && extra[j] != '\n' && extra[j] != ' ' && extra[j] != '\t' {
			return extra[i:j]
		}
	}
	return extra[i:]
}

func removeMember(o *hujson.Object, i int) {
	own := o.Members[i].Name.BeforeExtra
	next := &o.AfterExtra
	if i+1 < len(o.Members) {
		next = &o.Members[i+1].Name.BeforeExtra
	}

	*next = joinExtra(own, *next, i == 0)
	if i == len(o.Members)-1 && i > 0 {
		setTrailingComma(&o.Members[i-1].Value, o.Members[i].Value.AfterExtra != nil, &o.AfterExtra)
	}
	o.Members = slices.Delete(o.Members, i, i+1)
}

func removeElement(a *hujson.Array, i int) {
	own := a.Elements[i].BeforeExtra
	next := &a.AfterExtra
	if i+1 < len(a.Elements) {
		next = &a.Elements[i+1].BeforeExtra
	}

	*next = joinExtra(own, *next, i == 0)
	if i == len(a.Elements)-1 && i > 0 {
		setTrailingComma(&a.Elements[i-1], a.Elements[i].AfterExtra != nil, &a.AfterExtra)
	}
	a.Elements = slices.Delete(a.Elements, i, i+1)
}

// joinExtra returns what stands between the neighbours of a removed value: the
// comment of the one before, and the following text without the comment of the
// removed one.
func joinExtra(own, next []byte, first bool) hujson.Extra {
	if !bytes.Contains(next, []byte("\n")) {
		if first && bytes.Contains(own, []byte("\n")) || first && len(next) > 0 {
			return own
		}
		return next
	}
	line, _ := sameLine(own)
	_, rest := sameLine(next)
	return append(slices.Clone(line), rest...)
}

// setTrailingComma makes v the last value, with a comma behind it only if comma.
func setTrailingComma(v *hujson.Value, comma bool, after *hujson.Extra) {
	if comma {
		if v.AfterExtra == nil {
			v.AfterExtra = hujson.Extra{}
		}
		return
	}

	if len(bytes.TrimSpace(v.AfterExtra)) > 0 {
		*after = append(slices.Clone(v.AfterExtra), *after...)
	}
	v.AfterExtra = nil
}

// appendMember adds a member at the end of o, laid out like its neighbours;
// unit is one step of indentation.
func appendMember(o *hujson.Object, m hujson.ObjectMember, unit string) {
	m.Name.AfterExtra, m.Value.AfterExtra = nil, nil
	if m.Value.BeforeExtra == nil || bytes.Contains(m.Value.BeforeExtra, []byte("\n")) {
		m.Value.BeforeExtra = hujson.Extra(" ")
	}

	if len(o.Members) == 0 {
		m.Name.BeforeExtra = nil
		if l := lead(o.AfterExtra); l != nil {
			m.Name.BeforeExtra = append(slices.Clone(o.AfterExtra[:len(o.AfterExtra)-len(l)]), append(slices.Clone(l), unit...)...)
			o.AfterExtra = slices.Clone(l)
		}
		o.Members = []hujson.ObjectMember{m}
		return
	}

	last := &o.Members[len(o.Members)-1]
	m.Name.BeforeExtra, o.AfterExtra = follow(last.Name.BeforeExtra, o.AfterExtra)
	if last.Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{}
	}
	o.Members = append(o.Members, m)
}

func appendElement(a *hujson.Array, v hujson.Value) {
	v.AfterExtra = nil
	if len(a.Elements) == 0 {
		v.BeforeExtra = nil
		a.Elements = []hujson.Value{v}
		return
	}

	last := &a.Elements[len(a.Elements)-1]
	v.BeforeExtra, a.AfterExtra = follow(last.BeforeExtra, a.AfterExtra)
	if last.AfterExtra != nil {
		v.AfterExtra = hujson.Extra{}
	}
	a.Elements = append(a.Elements, v)
}

// follow returns the text in front of a new last value, and what then remains in
// front of the closing bracket.
func follow(before, after []byte) (own, rest hujson.Extra) {
	l := lead(before)
	if l == nil {
		return hujson.Extra(" "), after
	}

	line, tail := sameLine(after)
	if tail == nil || !bytes.Contains(tail, []byte("\n")) {
		tail = after
		line = nil
	}
	return append(slices.Clone(line), l...), slices.Clone(tail)
}
