package signal

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// groupPrefix marks the id of a group where people name one.
const groupPrefix = "group."

// normal returns the form in which two spellings of an id are equal: numbers with a
// plus, everything else in lower case.
func normal(id string) string {
	id = strings.ToLower(strings.TrimSpace(id))
	if digits(id) {
		return "+" + id
	}
	return id
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isNumber(id string) bool {
	rest, plus := strings.CutPrefix(id, "+")
	return plus && digits(rest) && len(rest) >= 5 && len(rest) <= 15
}

func isUUID(id string) bool {
	id = strings.TrimPrefix(strings.ToLower(id), "pni:")
	return len(id) == 36 && strings.Count(id, "-") == 4 && strings.Trim(id, "0123456789abcdef-") == ""
}

// isGroup reports whether an id is that of a group: the base64 of 32 bytes, or
// of 16 in old groups.
func isGroup(id string) bool {
	b, err := base64.StdEncoding.DecodeString(id)
	return err == nil && (len(b) == 32 || len(b) == 16)
}

// readEntry reads an entry of a list of people. It may hold several ids of a
// person, with bars between.
func readEntry(written string) []access.Entry {
	var out []access.Entry
	for part := range strings.SplitSeq(written, "|") {
		switch n := normal(part); {
		case n == anyone:
			out = append(out, access.Entry{Kind: access.Anyone})
		case isNumber(n), isUUID(n), isGroup(strings.TrimSpace(part)):
			out = append(out, access.Entry{Kind: access.ID, Value: n, As: written})
		default:
			out = append(out, access.Entry{Kind: access.Unreadable, Advice: "it is neither a number with the country code nor a UUID"})
		}
	}

	return out
}

// list is a list of people by normal ids.
type list map[string]bool

func newList(entries []string) list {
	out := list{}
	for _, written := range entries {
		for _, e := range readEntry(written) {
			if e.Kind == access.ID {
				out[e.Value] = true
			}
		}
	}
	return out
}

func (l list) has(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return l[id] })
}

// facts are what is remembered of people: which chat is theirs, whatever id a
// message names them by, and who we are.
type facts struct {
	state *chat.State

	mu   sync.Mutex
	book struct {
		Chats map[string]string `json:"chats"` // by normal id
		Self  []string          `json:"self"`  // normal ids
	}
}

const peopleMost = 20_000 // ids that are remembered

func (f *facts) open(number string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if err := f.state.Load(&f.book); err != nil {
		return err
	}

	if f.book.Chats == nil {
		f.book.Chats = map[string]string{}
	}
	if !slices.Contains(f.book.Self, number) { // another account
		f.book.Self = []string{number}
	}
	return nil
}

// chat returns the chat with a person: the id that it had first, else the number.
func (f *facts) chat(ids []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()

	for _, id := range ids {
		if c := f.book.Chats[id]; c != "" {
			return c
		}
	}

	if i := slices.IndexFunc(ids, isNumber); i >= 0 {
		return ids[i]
	}
	return ids[0]
}

// meet remembers the chat with a person who was let in.
func (f *facts) meet(ids []string, chatID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	news := false
	for _, id := range ids {
		if f.book.Chats[id] == "" && len(f.book.Chats) < peopleMost {
			f.book.Chats[id], news = chatID, true
		}
	}

	if !news {
		return nil
	}
	return f.state.Save(f.book)
}

// us reports whether one of the ids is ours.
func (f *facts) us(ids ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(ids, func(id string) bool { return id != "" && slices.Contains(f.book.Self, normal(id)) })
}

// addAliases adds further ids of ours.
func (f *facts) addAliases(ids ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	n := len(f.book.Self)
	for _, id := range ids {
		if id = normal(id); id != "" && !slices.Contains(f.book.Self, id) && n < 16 {
			f.book.Self = append(f.book.Self, id)
		}
	}

	if len(f.book.Self) == n {
		return nil
	}
	return f.state.Save(f.book)
}
