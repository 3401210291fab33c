package ledger

import (
	"testing"
	"time"
)

func TestParseSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 30, 15, 4, 5, 0, time.UTC)
	for in, want := range map[string]string{
		"30d": "2026-02-28T00:00:00Z", "0d": "2026-03-30T00:00:00Z", "12h": "2026-03-30T03:04:05Z", "2w": "2026-03-16T00:00:00Z",
		"2026-01-31": "2026-01-31T00:00:00Z", "2026-02": "2026-02-01T00:00:00Z", "all": "0001-01-01T00:00:00Z", "": "0001-01-01T00:00:00Z",
	} {
		got, err := ParseSince(in, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("ParseSince(%q) = %v, %v, want %s", in, got.Format(time.RFC3339), err, want)
		}
	}
}
