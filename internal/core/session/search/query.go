package search

import (
	"strings"
	"time"
	"unicode"
)

// Query says what to look for and who asks.
type Query struct {
	// Text holds the words. All of them must occur, in any order; when too few
	// texts have them all, others follow. "Several words" in quotes must stand
	// together, -word must not occur, wor* is a beginning.
	Text string

	// Scope is whose memory may be seen: "" the owner's, which holds nothing
	// that belongs to a scope; otherwise only what belongs to this one.
	Scope string
	// Own is the conversation the question comes from. A person with a scope also
	// finds what others with a scope said in it, because they said it there.
	Own string
	// Everyone lifts the rules of Scope. It is for the owner at the keyboard,
	// who can read the files anyway.
	Everyone bool

	Session string    // only this conversation
	After   time.Time // not before
	Before  time.Time // earlier than
	Roles   []Role    // none: all
	Limit   int       // default 10, at most 100

	// Wait for an index that is up to date, however long that takes. Otherwise
	// a search begins after a second with what is there.
	Wait bool
	// Open and Close surround the words that were found in snippets.
	Open, Close string
}

const (
	maxQueryBytes = 2000
	maxUnits      = 24 // tokens that are looked for
)

// term is a token to look for.
type term struct {
	text   string
	prefix bool
	// implied terms are contained in their neighbour; the index need not be
	// asked for them.
	implied bool
}

func (t term) matches(s string) bool {
	return s == t.text || t.prefix && strings.HasPrefix(s, t.text)
}

func (t term) expr() string {
	if t.prefix {
		return `"` + t.text + `"*`
	}
	return `"` + t.text + `"`
}

// item is a word, or several that stand together.
type item struct {
	terms  []term
	quoted bool
	not    bool
}

// at reports whether the item stands at the beginning of toks.
func (it item) at(toks []token) bool {
	if len(toks) < len(it.terms) {
		return false
	}
	for i, t := range it.terms {
		if !t.matches(toks[i].text) {
			return false
		}
	}
	return true
}

// units returns the terms as items of their own.
func (it item) units() []item {
	var out []item
	for _, t := range it.terms {
		if !t.implied {
			out = append(out, item{terms: []term{t}})
		}
	}
	return out
}

// parse reads the words of a query.
func parse(s string) (want, not []item) {
	if len(s) > maxQueryBytes {
		s = s[:maxQueryBytes]
	}

	s = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "「", `"`, "」", `"`, "＂", `"`, "　", " ").Replace(canonical(s))
	n := 0
	for s = strings.TrimLeftFunc(s, unicode.IsSpace); s != "" && n < maxUnits; s = strings.TrimLeftFunc(s, unicode.IsSpace) {
		var it item
		if rest, ok := strings.CutPrefix(s, "-"); ok && rest != "" && !unicode.IsSpace(rune(rest[0])) {
			it.not, s = true, rest
		}

		var chunk string
		if rest, ok := strings.CutPrefix(s, `"`); ok {
			chunk, s, _ = strings.Cut(rest, `"`)
			it.quoted = true
		} else {
			end := strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
			if end < 0 {
				end = len(s)
			}
			chunk, s = s[:end], s[end:]
		}

		it.terms = terms(chunk, maxUnits-n)
		n += len(it.terms)
		switch {
		case len(it.terms) == 0:
		case it.not:
			not = append(not, it)
		default:
			want = append(want, it)
		}
	}

	return want, not
}

// terms returns the tokens of a chunk as terms.
func terms(chunk string, most int) []term {
	toks := tokens(chunk)
	out := make([]term, 0, len(toks))
	for i, t := range toks {
		q := term{text: t.text}
		// The last character of a run may be followed by another in a text, and
		// the pair before it contains it already.
		last := t.dense && (i+1 == len(toks) || !toks[i+1].dense || toks[i+1].start != t.end)
		if last {
			q.prefix = true
			q.implied = i > 0 && toks[i-1].dense && toks[i-1].end == t.start
		}
		out = append(out, q)
	}

	out = out[:min(len(out), most)]
	if n := len(out); n > 0 && strings.HasSuffix(chunk, "*") {
		out[n-1].prefix = true
	}
	return out
}

// all returns the expression for texts that have every term.
func all(items []item) string {
	var parts []string
	for _, it := range items {
		for _, t := range it.terms {
			if !t.implied {
				parts = append(parts, t.expr())
			}
		}
	}
	return strings.Join(parts, " AND ")
}

// anyOf returns the expression for texts that have at least one of the terms.
func anyOf(items []item) string {
	var parts []string
	for _, it := range items {
		parts = append(parts, it.terms[0].expr())
	}
	return strings.Join(parts, " OR ")
}

// without returns the condition that excludes texts by single words; longer
// ones are looked for in the texts themselves.
func without(not []item) string {
	var parts []string
	for _, it := range not {
		if units := it.units(); len(units) == 1 {
			parts = append(parts, units[0].terms[0].expr())
		}
	}
	return strings.Join(parts, " OR ")
}
