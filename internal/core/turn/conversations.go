package turn

import (
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of what is in memory.
const (
	liveCap  = 64
	liveSize = 16384 // messages of conversations
)

// conversation is the view of a session that its actor works with.
type conversation struct {
	used  time.Time
	size  int         // messages at the end of the last turn; guarded by conversations.mu like used
	state *tool.State // what tool families remember about this session
	transcript.View
}

func newConversation() *conversation { return &conversation{state: &tool.State{}} }

// follow takes over what was added to the session.
func (c *conversation) follow(s *session.Session) {
	if c.Follow(s) {
		c.state.Reset() // results of earlier calls may have left the prompt
	}
}

// conversations caches the model's view of sessions.
type conversations struct {
	busy func(key string) bool // a session is worked on
	now  func() time.Time

	mu   sync.Mutex
	live map[string]*conversation
}

func newConversations(busy func(key string) bool, now func() time.Time) *conversations {
	return &conversations{busy: busy, now: now, live: map[string]*conversation{}}
}

// of returns the cached view of a session, making room by forgetting the
// longest unused one that is not worked on.
func (s *conversations) of(key string) *conversation {
	s.mu.Lock()
	defer s.mu.Unlock()

	c := s.live[key]
	if c == nil {
		if len(s.live) >= liveCap {
			s.forgetOldest()
		}
		c = newConversation()
		s.live[key] = c
	}

	c.used = s.now()
	s.shrink(key)
	return c
}

// shrink lets go of the messages of the longest unused conversation when there
// are too many in memory. They are read again when they are needed. One at a
// time is enough, because a turn adds few. The caller holds the lock.
func (s *conversations) shrink(current string) {
	var oldest string
	total := 0
	for k, c := range s.live {
		total += c.size
		if k != current && c.size > 0 && (oldest == "" || c.used.Before(s.live[oldest].used)) && !s.busy(k) {
			oldest = k
		}
	}

	if total > liveSize && oldest != "" {
		s.drop(oldest)
	}
}

// drop lets go of the messages of a conversation. The caller holds the lock.
func (s *conversations) drop(key string) {
	old := s.live[key]
	s.live[key] = &conversation{used: old.used, state: old.state, View: old.Empty()}
}

// dropAll lets go of the messages of all conversations that are not worked on.
func (s *conversations) dropAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.live {
		if !s.busy(k) {
			s.drop(k)
		}
	}
}

// forgetOldest makes room for another conversation. The caller holds the lock.
func (s *conversations) forgetOldest() {
	var oldest string
	for k, c := range s.live {
		if (oldest == "" || c.used.Before(s.live[oldest].used)) && !s.busy(k) {
			oldest = k
		}
	}
	delete(s.live, oldest)
}

// forget drops all that is cached of a session.
func (s *conversations) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, key)
}

// note counts what a conversation holds in memory.
func (s *conversations) note(c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.size = len(c.Messages)
}
