package discord

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
)

const (
	// Discord shuts an address out for a while after 10,000 refused calls in ten
	// minutes. A tenth of it means that something is wrong.
	refusedMost = 1000
	refusedSpan = 10 * time.Minute

	sameWindow = 250 * time.Millisecond // two answers that name the same end of a bucket differ by less
)

// limits are what Discord lets us do, as its answers tell.
type limits struct {
	now    func() time.Time
	routes *recent.Map[string, string] // method and form of a path -> its bucket

	mu      sync.Mutex
	buckets map[string]*bucket // by bucket and channel
	global  time.Time          // no call before
	refused int                // calls since
	since   time.Time
	revoked bool // the token is not good any more
}

// bucket is how many calls are left until a time.
type bucket struct {
	left  int
	reset time.Time
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, routes: recent.New[string, string](500), buckets: map[string]*bucket{}}
}

// spend takes a call out of a bucket, or returns how long to wait for the next one.
func (l *limits) spend(name, major string) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.now()
	if l.revoked {
		return 0, &apiError{Call: name, Status: http.StatusUnauthorized, Message: "Discord refused the token before"}
	}

	if now.Sub(l.since) > refusedSpan {
		l.since, l.refused = now, 0
	}

	if l.refused >= refusedMost {
		return l.since.Add(refusedSpan).Sub(now) + time.Second, nil
	}
	if pause := l.global.Sub(now); pause > 0 {
		return pause, nil
	}

	id, _ := l.routes.Get(name)
	b := l.buckets[id+"/"+major]
	if b == nil || !now.Before(b.reset) {
		return 0, nil
	}
	if b.left == 0 {
		return b.reset.Sub(now), nil
	}

	b.left--
	return 0, nil
}

// record stores what an answer says about its bucket.
func (l *limits) record(name, major string, h http.Header) {
	id := h.Get("X-RateLimit-Bucket")
	left, err := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	seconds, err2 := strconv.ParseFloat(h.Get("X-RateLimit-Reset-After"), 64)
	if id == "" || err != nil || err2 != nil || seconds < 0 || seconds > 3600 {
		return
	}

	l.routes.Put(name, id)
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.now()
	if len(l.buckets) > 1000 {
		for k, b := range l.buckets {
			if !now.Before(b.reset) {
				delete(l.buckets, k)
			}
		}
	}

	reset := now.Add(time.Duration(seconds * float64(time.Second)))
	if b := l.buckets[id+"/"+major]; b != nil && now.Before(b.reset) && reset.Sub(b.reset) < sameWindow {
		left = min(left, b.left) // answers may overtake each other
	}
	l.buckets[id+"/"+major] = &bucket{left, reset}
}

// count counts the refusals that Discord counts.
func (l *limits) count(e *apiError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Status == http.StatusUnauthorized:
		l.revoked = true
		l.refused++
	case e.Status == http.StatusForbidden, e.Status == http.StatusTooManyRequests && !e.Shared:
		l.refused++
	}

	if e.Status == http.StatusTooManyRequests && e.Global {
		l.global = l.now().Add(e.After)
	}
}

// revive forgets that the token was refused: a person may have looked after it.
func (l *limits) revive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revoked = false
}

// dead reports whether Discord refused the token.
func (l *limits) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revoked
}
