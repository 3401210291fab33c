package deliver

import (
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Bounds of what is remembered for quotes.
const (
	quoteChats = 200
	quoteMost  = 50   // messages of one chat, both directions
	quoteChars = 4000 // of one message
)

// quotes remembers the last messages of each chat by the platform's ids.
type quotes struct {
	mu    sync.Mutex
	chats *recent.Map[string, *chatQuotes]
}

// chatQuotes are the messages of one chat, the oldest first.
type chatQuotes struct {
	ids      []string
	messages map[string]chat.Quoted
}

func newQuotes() *quotes { return &quotes{chats: recent.New[string, *chatQuotes](quoteChats)} }

// store remembers a message, or what it says after an edit.
func (q *quotes) store(chatID, id string, m chat.Quoted) {
	if q == nil || id == "" {
		return
	}

	m.Text = text.Ellipsis(m.Text, quoteChars)
	q.mu.Lock()
	defer q.mu.Unlock()

	c, ok := q.chats.Get(chatID)
	if !ok {
		c = &chatQuotes{messages: map[string]chat.Quoted{}}
		q.chats.Put(chatID, c)
	}
	if _, known := c.messages[id]; !known {
		c.ids = append(c.ids, id)
	}

	c.messages[id] = m
	if len(c.ids) > quoteMost {
		delete(c.messages, c.ids[0])
		c.ids = slices.Delete(c.ids, 0, 1)
	}
}

// get finds a message.
func (q *quotes) get(chatID, id string) (m chat.Quoted, ok bool) {
	if q == nil {
		return m, false
	}

	q.mu.Lock()
	defer q.mu.Unlock()

	c, ok := q.chats.Get(chatID)
	if !ok {
		return m, false
	}

	m, ok = c.messages[id]
	return m, ok
}

// remove forgets a message that is gone.
func (q *quotes) remove(chatID, id string) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c, ok := q.chats.Get(chatID); ok {
		delete(c.messages, id)
		c.ids = slices.DeleteFunc(c.ids, func(other string) bool { return other == id })
	}
}
