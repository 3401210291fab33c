package whatsapp

import (
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// The servers of ids.
const (
	phoneServer = "s.whatsapp.net"
	oldServer   = "c.us"
	lidServer   = "lid"
	groupServer = "g.us"
	statusChat  = "status@broadcast"
)

// parseJID divides an id into who and where, without the number of a device. A
// bare number is that of a phone.
func parseJID(jid string) (user, server string) {
	user, server, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(jid), "+"), "@")
	user, _, _ = strings.Cut(user, ":")
	switch server = strings.ToLower(server); server {
	case "", oldServer:
		server = phoneServer
	}
	return user, server
}

func isGroup(route bus.Route) bool { return strings.HasSuffix(route.ChatID, "@"+groupServer) }

// target returns the id to send to, "" if it is none.
func target(chatID string) string {
	user, server := parseJID(chatID)
	if user == "" || strings.Trim(user, "0123456789-") != "" || server == phoneServer && len(user) < 5 {
		return ""
	}
	switch server {
	case phoneServer, lidServer, groupServer:
		return user + "@" + server
	}
	return ""
}

// person is a user by the ids that a message names.
type person struct{ phone, lid string } // without servers

func (p *person) add(jid string) {
	switch user, server := parseJID(jid); {
	case jid == "" || user == "":
	case server == phoneServer:
		p.phone = user
	case server == lidServer:
		p.lid = user
	}
}

// ids returns all forms of it, the best first. A bare number is that of a phone:
// a hidden id must not pass for one.
func (p *person) ids() []string {
	var out []string
	if p.phone != "" {
		out = append(out, p.phone, p.phone+"@"+phoneServer)
	}
	if p.lid != "" {
		out = append(out, p.lid+"@"+lidServer)
	}
	return out
}

// loose are forms that do not say what they are: a hidden id without its server,
// as Python nanobot and older versions took it from lists.
func (p *person) loose() []string {
	if p.lid == "" {
		return nil
	}
	return []string{p.lid}
}

// phoneDigits is how many digits the number of a phone has at most; hidden ids have
// more.
const phoneDigits = 13

// readEntry reads an entry of allowFrom or owners: a number, perhaps with a plus,
// or an id with its server, perhaps with the number of a device.
func readEntry(written string) []access.Entry {
	user, server := parseJID(written)
	e := access.Entry{Kind: access.ID, Value: user + "@" + server, As: written}
	switch {
	case strings.TrimSpace(written) == anyone:
		return []access.Entry{{Kind: access.Anyone}}
	case user == "" || strings.Trim(user, "0123456789-") != "":
		return []access.Entry{{Kind: access.Unreadable, Advice: "it is neither a phone number with the country code nor an id such as 123@lid or 123@g.us"}}
	case !strings.Contains(written, "@") && len(user) > phoneDigits:
		return []access.Entry{e, {Kind: access.Name, Value: user, As: written}}
	default:
		return []access.Entry{e}
	}
}

// facts are what is remembered of people: which phone belongs to a hidden id,
// and which chat is theirs, whatever id a message names them by.
type facts struct {
	state *chat.State

	mu   sync.Mutex
	book struct {
		Phones map[string]string `json:"phones"` // by hidden id
		Chats  map[string]string `json:"chats"`  // by phone or hidden id
	}
}

const peopleMost = 20_000

func (f *facts) open(phones map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if err := f.state.Load(&f.book); err != nil {
		return err
	}

	if f.book.Phones == nil {
		f.book.Phones = map[string]string{}
	}
	if f.book.Chats == nil {
		f.book.Chats = map[string]string{}
	}

	for lid, phone := range phones {
		lid, _ = parseJID(lid)
		if phone, _ = parseJID(phone); lid != "" && phone != "" {
			f.book.Phones[lid] = phone
		}
	}
	return nil
}

// complete adds what is known of a person.
func (f *facts) complete(p *person) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.phone == "" {
		p.phone = f.book.Phones[p.lid]
	}
}

// chat returns the chat with a person: the one that it had first, else this one.
func (f *facts) chat(p person, now string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range []string{p.phone, p.lid} {
		if c := f.book.Chats[id]; c != "" {
			return c
		}
	}
	return now
}

// meet remembers a person who was let in; chat is "" in a group.
func (f *facts) meet(p person, chatID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	news := false
	note := func(m map[string]string, key, value string) {
		if key != "" && value != "" && m[key] == "" && len(m) < peopleMost {
			m[key], news = value, true
		}
	}

	note(f.book.Phones, p.lid, p.phone)
	note(f.book.Chats, p.phone, chatID)
	note(f.book.Chats, p.lid, chatID)
	if !news {
		return nil
	}
	return f.state.Save(f.book)
}
