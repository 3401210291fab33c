package session

import (
	"errors"
	"log/slog"
	"math"
	"time"
)

var errNoFile = errors.New("the conversation has no file")

// Ephemeral returns a conversation that has no file: it begins with recs, takes
// what is appended and is gone with Release. It belongs to no Store, so nothing
// else can find it, and Clear and Compact have nothing to work on.
func Ephemeral(key string, now func() time.Time, recs ...Record) (*Session, error) {
	s := &Session{
		memory: true,
		store:  &Store{opt: Options{Fsync: FsyncNever, CompactBytes: math.MaxInt64, Now: now, Log: slog.New(slog.DiscardHandler)}},
		slot:   &slot{key: key},
		j:      &journal{key: key},
	}
	if err := s.Append(recs...); err != nil {
		return nil, err
	}
	return s, nil
}
