package wire_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// The clock of a bubble stands still, so dates give exact delays.
func TestRetryAfterDates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(90 * time.Second).UTC()
		for name, h := range map[string]http.Header{
			"76c HTTP date": {"Retry-After": {at.Format(http.TimeFormat)}},
			"no zone":       {"Retry-After": {at.Format("Mon, 02 Jan 2006 15:04:05")}},
			"reset":         {"Anthropic-Ratelimit-Requests-Remaining": {"0"}, "Anthropic-Ratelimit-Requests-Reset": {at.Format(time.RFC3339)}},
		} {
			if e := (wire.Classifier{}).Response(429, h, nil); e.RetryAfter != 90*time.Second {
				t.Errorf("%s: RetryAfter = %s, want 1m30s", name, e.RetryAfter)
			}
		}
	})
}
