package oauth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// SourceOptions say how a token is renewed.
type SourceOptions[T any] struct {
	// Key is the part of a token that a server accepts or refuses.
	Key func(T) string
	// Fresh reports whether a token can be sent.
	Fresh func(T) bool
	// Renew finds a fresh token whose key is not the refused one.
	Renew func(ctx context.Context, refused string) (T, error)
	// Grace is how long a renewal goes on after its caller gave up: where
	// refresh tokens work once, only the answer has the new one.
	Grace time.Duration
	// OverlapWait is how long after a token replaced another a refusal counts as
	// the answer to a request that was on its way with the old one.
	OverlapWait time.Duration
}

// Source holds a token that must be renewed now and then. Callers that find it
// unusable share one renewal.
type Source[T any] struct {
	o SourceOptions[T]

	mu      sync.Mutex
	val     T
	call    *renewal[T]
	changed time.Time // when a token last replaced another
}

type renewal[T any] struct {
	done chan struct{} // closed when val and err are final
	val  T
	err  error
}

var errAbandoned = errors.New("the renewal was abandoned")

// NewSource makes a Source without a token.
func NewSource[T any](o SourceOptions[T]) *Source[T] { return &Source[T]{o: o} }

// Get returns a fresh token that is not the refused one, "" refuses none.
func (s *Source[T]) Get(ctx context.Context, refused string) (T, error) {
	var zero T
	for {
		if err := ctx.Err(); err != nil {
			return zero, err
		}

		s.mu.Lock()
		if v := s.val; s.o.Fresh(v) && (refused == "" || s.o.Key(v) != refused) {
			s.mu.Unlock()
			return v, nil
		}

		r := s.call
		if r == nil {
			r = &renewal[T]{done: make(chan struct{}), err: errAbandoned}
			s.call = r
			s.mu.Unlock()
			s.lead(ctx, r, refused)
			return r.val, r.err
		}

		s.mu.Unlock()

		select {
		case <-ctx.Done():
			return zero, ctx.Err()
		case <-r.done:
		}

		// A renewal that ended only because its caller gave up is not ours.
		if r.err != nil && !errors.Is(r.err, errAbandoned) && !errors.Is(r.err, context.Canceled) {
			return zero, r.err
		}
	}
}

func (s *Source[T]) lead(ctx context.Context, r *renewal[T], refused string) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(s.o.Grace, cancel) })
	defer stop()
	defer func() {
		s.mu.Lock()
		s.call = nil
		if r.err == nil {
			if old := s.o.Key(s.val); old != "" && old != s.o.Key(r.val) {
				s.changed = time.Now()
			}
			s.val = r.val
		}

		s.mu.Unlock()
		close(r.done)
	}()

	r.val, r.err = s.o.Renew(work, refused)
}

// Replace finds another token than the current one, which a server refused.
func (s *Source[T]) Replace(ctx context.Context) error {
	s.mu.Lock()
	recent := !s.changed.IsZero() && time.Since(s.changed) < s.o.OverlapWait
	refused := s.o.Key(s.val)
	s.mu.Unlock()
	if recent {
		return nil
	}
	_, err := s.Get(ctx, refused)
	return err
}

// Put replaces the token.
func (s *Source[T]) Put(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.val = v
}
