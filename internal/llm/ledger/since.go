package ledger

import (
	"errors"
	"strconv"
	"time"
)

// ParseSince reads how far back to look: a number of hours, days or weeks, a
// date, or all. Days and weeks begin at midnight.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if s == "" || s == "all" {
		return time.Time{}, nil
	}

	for _, layout := range []string{"2006-01-02", "2006-01"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}

	unit := s[len(s)-1:]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 16)
	y, m, d := now.Date()
	switch {
	case err != nil:
	case unit == "h":
		return now.Add(-time.Duration(n) * time.Hour), nil
	case unit == "d":
		return time.Date(y, m, d-int(n), 0, 0, 0, 0, now.Location()), nil
	case unit == "w":
		return time.Date(y, m, d-7*int(n), 0, 0, 0, 0, now.Location()), nil
	}

	return time.Time{}, errors.New("want a span of time such as 30d, 12h or 4w, a date such as 2026-01-31, or all")
}
