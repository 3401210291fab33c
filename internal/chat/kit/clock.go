package kit

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock is how far a platform's clock is behind ours, as its answers tell. The
// zero Clock is right.
type Clock struct{ behind atomic.Int64 }

// Adjust compares our clock with the date of an answer that came now.
func (c *Clock) Adjust(answer http.Header, now time.Time) {
	if at, err := http.ParseTime(answer.Get("Date")); err == nil {
		c.behind.Store(int64(now.Sub(at)))
	}
}

// There returns what the platform's clock shows at a time of ours.
func (c *Clock) There(at time.Time) time.Time {
	return at.Add(-time.Duration(c.behind.Load()))
}

// Here returns what our clock showed at a time of the platform's.
func (c *Clock) Here(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(time.Duration(c.behind.Load()))
}
