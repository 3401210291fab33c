package kit

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// Bounds of what is remembered about how far chats were read.
const (
	cursorsMost  = 1000            // chats
	cursorsEvery = 5 * time.Second // at most that often they are written
)

// Cursors are how far each chat of an account was read, for platforms whose
// history we read after we were away. A chat that is new is written at once,
// since what was missed in a chat without a cursor is never read. The others are
// written now and then: what is read again after a crash has ids that the agent
// knows. Safe for concurrent use.
type Cursors struct {
	state *chat.State
	now   func() time.Time

	mu      sync.Mutex
	dirty   bool
	written time.Time
	v       struct {
		Account string            `json:"account"`
		Chats   map[string]cursor `json:"chats"`
	}
}

type cursor struct {
	At      string `json:"at"`      // the id or time of the last message
	Changed int64  `json:"changed"` // when it was set, in ms
}

// OpenCursors reads the cursors of a channel. Those of another account are
// forgotten.
func OpenCursors(d chat.Deps, account string) (*Cursors, error) {
	c := &Cursors{state: d.State.Beside("cursors"), now: d.Now}
	if c.now == nil {
		c.now = time.Now
	}

	if err := c.state.Load(&c.v); err != nil {
		return nil, err
	}

	if c.v.Account != account || c.v.Chats == nil {
		c.v.Account, c.v.Chats = account, map[string]cursor{}
	}
	return c, nil
}

// Get returns how far a chat was read, "" if that is not known.
func (c *Cursors) Get(chatID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.v.Chats[chatID].At
}

// Chats returns those with a cursor, the last used first.
func (c *Cursors) Chats() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byUse()
}

// byUse lists the chats. The lock is held.
func (c *Cursors) byUse() []string {
	return slices.SortedFunc(maps.Keys(c.v.Chats), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.v.Chats[b].Changed, c.v.Chats[a].Changed), cmp.Compare(a, b))
	})
}

// Set notes how far a chat was read, after the message there is durable. The
// chat that was not used for longest is forgotten if there are too many.
func (c *Cursors) Set(chatID, at string) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	old, known := c.v.Chats[chatID]
	if known && old.At == at {
		return nil
	}

	now := c.now()
	c.v.Chats[chatID], c.dirty = cursor{at, now.UnixMilli()}, true
	if len(c.v.Chats) > cursorsMost+cursorsMost/4 { // seldom
		for _, unused := range c.byUse()[cursorsMost:] {
			delete(c.v.Chats, unused)
		}
	}

	if since := now.Sub(c.written); known && since >= 0 && since < cursorsEvery {
		return nil
	}
	return c.save(now)
}

// Flush writes what Set noted. Run calls it at its end.
func (c *Cursors) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.save(c.now())
}

// save writes the cursors. The lock is held.
func (c *Cursors) save(now time.Time) error {
	if !c.dirty {
		return nil
	}
	if err := c.state.SaveSoon(c.v); err != nil {
		return err
	}
	c.dirty, c.written = false, now
	return nil
}
