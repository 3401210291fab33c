package config

import (
	"bytes"
	"regexp"
	"strings"
	"sync"

	"github.com/tailscale/hujson"
)

// Mask returns the text of a configuration file with credentials replaced by ***,
// also those in comments. Everything else stays as it is written. A text that is
// not JSON is an *Error: what is a credential in it cannot be told.
func Mask(text []byte, known Sections) ([]byte, error) {
	doc, err := parse("", text)
	if err != nil {
		return nil, err
	}
	newMasking(&doc.value, known)
	return doc.pack(), nil
}

// Unmask replaces *** in an edited text by the credentials of was. Each belongs
// to one setting: *** elsewhere, or in a list that was changed, is an *Error
// with the line.
func Unmask(text, was []byte, known Sections) ([]byte, error) {
	doc, err := parse("", text)
	if err != nil {
		return nil, err
	}

	back := masking{}
	if old, err := parse("", was); err == nil {
		back = newMasking(&old.value, known)
	}

	issues := back.undo(doc, &doc.value, nil)
	if len(issues) > 0 {
		return nil, &Error{Kind: InvalidSchema, Issues: issues}
	}
	return doc.pack(), nil
}

// pack returns the text of a document.
func (d *document) pack() []byte {
	b := d.value.Pack()
	b = b[:len(b)-d.hidden]
	if d.bom {
		b = append([]byte("\xef\xbb\xbf"), b...)
	}
	return b
}

// masking holds what was replaced in a text.
type masking struct {
	values   map[string]hujson.ValueTrimmed // texts and lists, by path and form
	comments map[string][]string            // lines in their order, by what they are shown as
	found    []string                       // credentials, which comments may repeat
}

// newMasking replaces the credentials in v.
func newMasking(v *hujson.Value, known Sections) masking {
	k := masking{map[string]hujson.ValueTrimmed{}, map[string][]string{}, nil}
	k.value(v, rootPlace(known), nil)
	extras(v, k.comment)
	return k
}

func (k *masking) value(v *hujson.Value, p place, path []string) {
	switch t := v.Value.(type) {
	case hujson.Literal:
		if kind := t.Kind(); kind == '"' && p.hides(t.String()) || kind == '0' && p.hidden() {
			if s := t.String(); len(s) >= 6 {
				k.found = append(k.found, s)
			}
			v.Value = hujson.String(mask)
			k.values[spot(path, v)] = t
		}

	case *hujson.Array:
		was := v.Clone()
		for i := range t.Elements {
			k.value(&t.Elements[i], p.hiding(itoa(i)), append(path[:len(path):len(path)], "[]")) // undo finds the list, not its entries
		}
		k.values[spot(path, v)] = was.Value

	case *hujson.Object:
		for i := range t.Members {
			m := &t.Members[i]
			name := literal(m.Name).String()
			k.value(&m.Value, p.hiding(name), append(path[:len(path):len(path)], name))
		}
	}
}

// spot returns a place in a text and what is shown there, without comments and spaces.
func spot(path []string, v *hujson.Value) string {
	c := v.Clone()
	c.Minimize()
	return joinPath(path) + "\x00" + string(c.Pack())
}

// undo puts credentials back into v, a part of doc, and tells where there are none.
func (k *masking) undo(doc *document, v *hujson.Value, path []string) (issues []Problem) {
	if path == nil {
		extras(v, k.restore)
	}

	old, known := k.values[spot(path, v)]
	switch t := v.Value.(type) {
	case hujson.Literal:
		if t.Kind() != '"' || t.String() != mask {
			return nil
		}
		if known {
			v.Value = old
			return nil
		}

		line, col := doc.position(v.StartOffset)
		return []Problem{{Path: showPath(path), Message: "*** stands for a hidden value, and there is none here", Hint: "give the value", Line: line, Column: col}}

	case *hujson.Array:
		if known {
			refill(v, old)
			return nil
		}
		for i := range t.Elements { // which entry is which cannot be told
			issues = append(issues, k.undo(doc, &t.Elements[i], append(path[:len(path):len(path)], itoa(i)))...)
		}

	case *hujson.Object:
		for i := range t.Members {
			m := &t.Members[i]
			issues = append(issues, k.undo(doc, &m.Value, append(path[:len(path):len(path)], literal(m.Name).String()))...)
		}
	}

	return issues
}

// refill puts the texts of was into v, which is the same but for what is hidden.
// Spaces and comments of v stay.
func refill(v *hujson.Value, was hujson.ValueTrimmed) {
	switch t := v.Value.(type) {
	case *hujson.Array:
		old, _ := was.(*hujson.Array) // of the same length
		for i := range t.Elements {
			refill(&t.Elements[i], old.Elements[i].Value)
		}

	case *hujson.Object:
		old, _ := was.(*hujson.Object)
		for i := range t.Members {
			refill(&t.Members[i].Value, old.Members[i].Value.Value)
		}

	default:
		v.Value = was
	}
}

// hiding returns the place of a key below p as masked sees it.
func (p place) hiding(key string) place {
	c, ok := p.child(key, false)
	switch {
	case !ok: // a mistyped key may hold what its neighbour should
		return p.at("unknownkey", nil, "")
	case p.hidden():
		return p.at(key, nil, "")
	}
	return c
}

// hides reports whether a text at p is shown as ***. A reference to a variable
// reveals nothing.
func (p place) hides(text string) bool {
	if text == "" || plainReference(text) {
		return false
	}
	return p.hidden() || credentialURL(text) || p.free() && looksSecret(text)
}

// plainReference reports texts such as ${NAME}.
func plainReference(text string) bool {
	name, ok := strings.CutPrefix(text, "${")
	name, end := strings.CutSuffix(name, "}")
	return ok && end && plainPart(name) && !strings.ContainsAny(name, ".-")
}

// extras visits the lines of all comments of v.
func extras(v *hujson.Value, line func(string) string) {
	edit := func(all ...*hujson.Extra) {
		for _, e := range all {
			if !bytes.ContainsRune(*e, '/') {
				continue
			}

			lines := strings.SplitAfter(string(*e), "\n")
			for i, l := range lines {
				if s := strings.TrimSpace(l); s != "" {
					lines[i] = strings.Replace(l, s, line(s), 1)
				}
			}

			*e = hujson.Extra(strings.Join(lines, ""))
		}
	}

	edit(&v.BeforeExtra, &v.AfterExtra)
	switch t := v.Value.(type) {
	case *hujson.Array:
		for i := range t.Elements {
			extras(&t.Elements[i], line)
		}
		edit(&t.AfterExtra)
	case *hujson.Object:
		for i := range t.Members {
			edit(&t.Members[i].Name.BeforeExtra, &t.Members[i].Name.AfterExtra)
			extras(&t.Members[i].Value, line)
		}
		edit(&t.AfterExtra)
	}
}

var (
	commentPair = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`["']?([\w-]+)["']?\s*[:=]\s*("[^"]*"?|'[^']*'?|[^\s,]+)`)
	})
	commentWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[^\\s\"'`,;(){}<>\\[\\]]+") })
)

// comment hides what looks like a credential in a line of a comment, such as a
// setting that is switched off.
func (k *masking) comment(line string) string {
	out := line
	for _, s := range k.found {
		out = strings.ReplaceAll(out, s, mask)
	}

	out = commentPair().ReplaceAllStringFunc(out, func(pair string) string {
		m := commentPair().FindStringSubmatchIndex(pair)
		if value := strings.Trim(pair[m[4]:m[5]], `"'`); !sensitive(pair[m[2]:m[3]]) || value == "" || plainReference(value) {
			return pair
		}
		return pair[:m[4]] + `"` + mask + `"`
	})

	out = commentWord().ReplaceAllStringFunc(out, func(word string) string {
		if looksSecret(word) || credentialURL(word) {
			return mask
		}
		return word
	})
	if out != line {
		k.comments[out] = append(k.comments[out], line)
	}
	return out
}

// restore returns a line of a comment as it was.
func (k *masking) restore(line string) string {
	was := k.comments[line]
	switch len(was) {
	case 0:
		return line
	case 1:
	default: // several look the same
		k.comments[line] = was[1:]
	}
	return was[0]
}
