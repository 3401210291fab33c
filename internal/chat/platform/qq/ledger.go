package qq

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	heardMost  = 2000 // messages that replies are counted of
	groupsMost = 4000 // chats that are known to be groups
)

// ledger is what must outlive the process: which chats are groups, the session of
// the gateway, and the replies to each message that still takes some. A reply has
// the number of its slot. Messages are kept in memory only until the first reply:
// whoever writes without being answered costs no write to the disk.
type ledger struct {
	state *chat.State
	app   string
	now   func() time.Time

	mu     sync.Mutex
	opened bool
	v      record
}

// record is the ledger as it is kept.
type record struct {
	App      string   `json:"app"`
	Session  string   `json:"session,omitempty"`
	Seq      int64    `json:"seq,omitempty"`
	Groups   []string `json:"groups,omitempty"` // the last used at the end
	Messages []*heard `json:"messages,omitempty"`
}

// heard is a message of a person.
type heard struct {
	ID     string `json:"id"`
	Chat   string `json:"chat"`
	Kind   kind   `json:"kind"`
	At     int64  `json:"at"` // milliseconds
	Slots  []slot `json:"slots,omitempty"`
	Closed bool   `json:"closed,omitempty"` // QQ takes no more
}

// slot is a reply.
type slot struct {
	Key  string `json:"key"`            // what has this number; "": another program
	Sent bool   `json:"sent,omitempty"` // it arrived
}

// reply is the right to send one.
type reply struct {
	message string // "": none, so it is not a reply
	number  int
	key     string
	again   bool // an earlier try had the same number
	sent    bool // it arrived already
}

// errNoReply says that no message of the chat takes a reply any more.
var errNoReply = errors.New("QQ takes no more replies until a person writes in this chat again")

func newLedger(s *chat.State, app string, now func() time.Time) *ledger {
	return &ledger{state: s, app: app, now: now}
}

// open reads the ledger. What another bot left is of no use.
func (l *ledger) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load()
}

// load reads the ledger once. The lock is held.
func (l *ledger) load() error {
	if l.opened {
		return nil
	}
	if err := l.state.Load(&l.v); err != nil {
		return err
	}

	if l.v.App != l.app {
		l.v = record{App: l.app}
	}

	l.opened = true
	return nil
}

// hash returns a key in few bytes.
func hash(key string) string {
	if key == "" {
		return rand.Text()[:16] // it is sent once at most
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// record stores a message of a person.
func (l *ledger) record(chatID string, k kind, id string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if at.IsZero() || at.After(l.now()) {
		at = l.now()
	}

	l.recordGroup(chatID, k)
	if id != "" && l.find(id) == nil {
		l.v.Messages = append(l.v.Messages, &heard{ID: id, Chat: chatID, Kind: k, At: at.UnixMilli()})
	}
	l.prune()
}

// recordGroup stores that a chat is a group. The lock is held.
func (l *ledger) recordGroup(chatID string, k kind) {
	if k != group || len(l.v.Groups) > 0 && l.v.Groups[len(l.v.Groups)-1] == chatID {
		return
	}
	l.v.Groups = append(slices.DeleteFunc(l.v.Groups, func(c string) bool { return c == chatID }), chatID)
	if n := len(l.v.Groups) - groupsMost; n > 0 {
		l.v.Groups = l.v.Groups[n:]
	}
}

// prune forgets messages that take no reply any more. Their keys stay twice as
// long, so that a late try is known. The lock is held.
func (l *ledger) prune() {
	now := l.now()
	l.v.Messages = slices.DeleteFunc(l.v.Messages, func(h *heard) bool {
		return now.Sub(time.UnixMilli(h.At)) > 2*directTime
	})
	if n := len(l.v.Messages) - heardMost; n > 0 {
		l.v.Messages = l.v.Messages[n:]
	}
}

// find returns a message by its id. The lock is held.
func (l *ledger) find(id string) *heard {
	for _, h := range l.v.Messages {
		if h.ID == id {
			return h
		}
	}
	return nil
}

// allowsReply reports whether QQ takes replies to a message, of which so many may be
// used. The lock is held.
func (l *ledger) allowsReply(h *heard, most int) bool {
	return !h.Closed && len(h.Slots) < most && l.now().Sub(time.UnixMilli(h.At)) < h.Kind.window()
}

// kind returns what a chat is.
func (l *ledger) kind(chatID string) kind {
	switch {
	case strings.HasPrefix(chatID, guildPrefix):
		return guild
	case strings.HasPrefix(chatID, guildDirectPrefix):
		return guildDirect
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.load() == nil && slices.Contains(l.v.Groups, chatID) {
		return group
	}
	return direct
}

// last returns the message that was written last in a chat, "" if there is none that
// takes replies.
func (l *ledger) last(chatID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range slices.Backward(l.v.Messages) {
		if h.Chat == chatID && l.allowsReply(h, repliesMost) {
			return h.ID
		}
	}
	return ""
}

// reserve gives a key the number of a reply: the one that it had, else the next
// one of a message, else of another message of the chat, the last one first. It
// is on the disk before anything is sent.
func (l *ledger) reserve(chatID, message, key string, most int) (reply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(); err != nil {
		return reply{}, err
	}

	var best *heard
	for _, h := range slices.Backward(l.v.Messages) {
		if h.Chat != chatID {
			continue
		}

		i := slices.IndexFunc(h.Slots, func(s slot) bool { return s.Key == key })
		switch {
		case i >= 0 && h.Slots[i].Sent:
			return reply{key: key, sent: true}, nil
		case i >= 0 && l.allowsReply(h, repliesMost+1):
			return reply{message: h.ID, number: i + 1, key: key, again: true}, nil
		case l.allowsReply(h, most) && (best == nil || h.ID == message):
			best = h
		}
	}

	if best == nil {
		return reply{key: key}, errNoReply
	}

	best.Slots = append(best.Slots, slot{Key: key})
	if err := l.save(); err != nil {
		best.Slots = best.Slots[:len(best.Slots)-1]
		return reply{}, err
	}
	return reply{message: best.ID, number: len(best.Slots), key: key}, nil
}

// change does something to the slot of a reply. What is lost with the process is
// found out again from QQ.
func (l *ledger) change(r reply, do func(h *heard, s *slot)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.find(r.message); h != nil && r.number > 0 && r.number <= len(h.Slots) {
		do(h, &h.Slots[r.number-1])
	}
}

// arrived notes that a reply arrived.
func (l *ledger) arrived(r reply) { l.change(r, func(_ *heard, s *slot) { s.Sent = true }) }

// disown records that a number belongs to another program.
func (l *ledger) disown(r reply) { l.change(r, func(_ *heard, s *slot) { s.Key = "" }) }

// close notes that QQ takes no more replies to a message. The key of the last
// one is free for another message.
func (l *ledger) close(r reply) {
	l.change(r, func(h *heard, s *slot) {
		h.Closed = true
		s.Key = ""
	})
}

// session returns the one of the gateway that may be resumed.
func (l *ledger) session() (id string, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.v.Session, l.v.Seq
}

// saveSession writes the session of the gateway.
func (l *ledger) saveSession(session string, seq int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.v.Session, l.v.Seq = session, seq
	return l.save()
}

// save writes the ledger. The lock is held.
func (l *ledger) save() error {
	l.prune()
	return l.state.Save(&l.v)
}
