package kit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// A platform's clock is known from its answers; one that says nothing changes
// nothing.
func TestClock(t *testing.T) {
	t.Parallel()
	var c kit.Clock
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	at := now.Add(-2 * time.Hour)
	if got := c.Here(at); !got.Equal(at) {
		t.Errorf("before any answer: %v", got)
	}
	for _, date := range []string{at.Format(http.TimeFormat), "", "yesterday"} {
		c.Adjust(http.Header{"Date": {date}}, now)
		if got := c.Here(at); !got.Equal(now) {
			t.Errorf("after an answer of %q: %v, want %v", date, got, now)
		}
		if got := c.There(now); !got.Equal(at) {
			t.Errorf("after an answer of %q it is %v there, want %v", date, got, at)
		}
	}
	if !c.Here(time.Time{}).IsZero() {
		t.Error("no time becomes one")
	}
}
