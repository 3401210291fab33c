package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Kind is what an entry of allowFrom or owners names a person by.
type Kind uint8

// The kinds of entries.
const (
	Unreadable Kind = iota // it matches no one
	Anyone                 // all people; never an owner
	ID                     // what the platform itself knows a person by, and a person cannot choose
	Name                   // what a person can choose, or another one may get; never an owner
)

// Entry is one meaning of an entry of allowFrom or owners. An ID matches only
// Visitor.IDs, a Name only Visitor.Names.
type Entry struct {
	Kind Kind
	// Value is compared letter by letter with what the channel says of a
	// visitor; of a Name, large and small letters of ASCII are the same.
	Value string
	// As stands for the person from then on; "" is the id of the visitor.
	As string
	// Advice says what to write instead, for the person who set the bot up; "" is
	// nothing.
	Advice string
}

// Reader says what an entry of allowFrom or owners means on a platform. Most have
// one meaning; on platforms whose ids have several forms they may have more.
type Reader func(written string) []Entry

const everyone = "*"

// readIDs returns the Reader of platforms that know people by ids alone.
func readIDs(written string) []Entry {
	switch s := strings.TrimSpace(written); {
	case s == everyone:
		return []Entry{{Kind: Anyone}}
	case strings.HasPrefix(s, "@"):
		return []Entry{{Kind: ID, Value: s, Advice: "names do not count on this platform; write the person's id"}}
	default:
		return []Entry{{Kind: ID, Value: s}}
	}
}

// Digits reports whether an id is a number, which no user name is taken for.
func Digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// ReadNames makes the Reader of platforms where people also have a user name.
// "@ann" is one. What cannot be an id of the platform is one as well, since older
// versions took it for that, and so is not a letter of "123|ann", as Python nanobot
// wrote it: there the id counts.
func ReadNames(isID func(string) bool) Reader {
	return func(written string) []Entry {
		s := strings.TrimSpace(written)
		name, marked := strings.CutPrefix(s, "@")
		id, _, _ := strings.Cut(s, "|")
		switch {
		case s == everyone:
			return []Entry{{Kind: Anyone}}
		case s == "" || name == "":
			return []Entry{{Kind: Unreadable, Advice: "it is empty"}}
		case marked:
			return []Entry{{Kind: Name, Value: name}}
		case isID(id):
			return []Entry{{Kind: ID, Value: id}}
		default:
			advice := fmt.Sprintf("it is a name, and whoever gets that name may talk to the bot, as a guest; write the person's id, or %q to leave it so", "@"+s)
			return []Entry{{Kind: Name, Value: s, Advice: advice}}
		}
	}
}

// peopleLists are allowFrom and owners, as read by the platform's Reader.
type peopleLists struct {
	AllowFrom []Entry
	Owners    []Entry
	// Named says that owners is not empty, whatever it holds: then an entry of
	// allowFrom alone makes no owner.
	Named bool
}

// readLists reads the lists of a section.
func readLists(written Lists, read Reader) peopleLists {
	if read == nil {
		read = readIDs
	}

	l := peopleLists{Named: len(written.Owners) > 0}
	for _, s := range written.AllowFrom {
		l.AllowFrom = append(l.AllowFrom, read(s)...)
	}

	for _, s := range written.Owners {
		l.Owners = append(l.Owners, read(s)...)
	}
	return l
}

// owners returns the entries that can make an owner.
func (l peopleLists) owners() []Entry {
	if l.Named {
		return l.Owners
	}
	return l.AllowFrom
}

// byID finds the entry that an id of a visitor stands on.
func byID(list []Entry, id string) (Entry, bool) {
	i := slices.IndexFunc(list, func(e Entry) bool { return e.Kind == ID && id != "" && e.Value == id })
	if i < 0 {
		return Entry{}, false
	}
	return list[i], true
}

// byName finds the entry that a name of a visitor stands on.
func byName(list []Entry, names []string) (Entry, bool) {
	i := slices.IndexFunc(list, func(e Entry) bool {
		return e.Kind == Name && slices.ContainsFunc(names, func(n string) bool { return n != "" && text.LowerASCII(n) == text.LowerASCII(e.Value) })
	})
	if i < 0 {
		return Entry{}, false
	}
	return list[i], true
}

// Matches reports whether one of the entries stands for a visitor.
func Matches(entries []Entry, v Visitor) bool {
	if slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind == Anyone }) {
		return true
	}
	if _, ok := byName(entries, v.Names); ok {
		return true
	}
	return slices.ContainsFunc(v.IDs, func(id string) bool { _, ok := byID(entries, id); return ok })
}

// open reports whether the lists admit all people.
func (l peopleLists) open() bool {
	return slices.ContainsFunc(l.AllowFrom, func(e Entry) bool { return e.Kind == Anyone })
}

// doubts returns what the person who set the bot up should know about the lists of
// a section: entries that mean less than it may seem.
func doubts(written Lists, read Reader) []string {
	if read == nil {
		read = readIDs
	}

	var out []string
	for _, s := range written.AllowFrom {
		for _, e := range read(s) {
			if e.Advice != "" {
				out = append(out, fmt.Sprintf("allowFrom, %q: %s", s, e.Advice))
			}
		}
	}

	for _, s := range written.Owners {
		if !slices.ContainsFunc(read(s), func(e Entry) bool { return e.Kind == ID && e.Advice == "" }) {
			out = append(out, fmt.Sprintf("owners, %q: only an id makes an owner, never a name; write the person's id", s))
		}
	}
	return out
}
