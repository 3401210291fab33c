package deliver

import (
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// bucket fills with tokens up to the count of its limit. It may go below zero:
// then whoever took a token waits until it is there. The zero limit is none.
type bucket struct {
	limit  chat.Limit
	tokens float64
	at     time.Time // zero: full
}

func (b *bucket) fill(now time.Time) {
	full := float64(b.limit.Count)
	if b.at.IsZero() {
		b.tokens = full
	} else if d := now.Sub(b.at); d > 0 {
		b.tokens = min(full, b.tokens+full*float64(d)/float64(b.limit.Per))
	}
	b.at = now
}

// reserve takes a token and says how long to wait for it.
func (b *bucket) reserve(now time.Time) time.Duration {
	if b.limit.Count <= 0 || b.limit.Per <= 0 {
		return 0
	}
	b.fill(now)
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens * float64(b.limit.Per) / float64(b.limit.Count))
}

// has reports whether a token is there now.
func (b *bucket) has(now time.Time) bool {
	if b.limit.Count <= 0 || b.limit.Per <= 0 {
		return true
	}
	b.fill(now)
	return b.tokens >= 1
}

// full reports whether the bucket has forgotten everything.
func (b *bucket) full(now time.Time) bool {
	if b.limit.Count <= 0 || b.limit.Per <= 0 || b.at.IsZero() {
		return true
	}
	b.fill(now)
	return b.tokens >= float64(b.limit.Count)
}

// shared is a bucket for several goroutines.
type shared struct {
	mu     sync.Mutex
	bucket bucket
}

func (s *shared) reserve(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucket.reserve(now)
}

func (s *shared) full(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucket.full(now)
}

// try takes a token only if it is there.
func (s *shared) try(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucket.has(now) && s.bucket.reserve(now) == 0
}

// chatRate bounds what is sent to one chat, whatever the thread.
type chatRate struct {
	chat, group shared
	threads     int // that use it
}
