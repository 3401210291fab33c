package session

import (
	"context"
	"errors"
	"time"
)

// annotateWait is how long Annotate waits for a session before it looks
// whether a caller in this process has it meanwhile.
const annotateWait = 50 * time.Millisecond

// Annotate changes the metadata of a conversation whoever works on it: a turn
// of this process is not waited for, the change goes into the log beside what
// it writes. Only another process is waited for, as long as ctx allows. fn may
// call Meta, SetMeta and Created, and is called again when the owner lets go in
// between; what it set is written before Annotate returns. A conversation that
// does not exist begins with it.
func (st *Store) Annotate(ctx context.Context, key string, fn func(*Session) error) error {
	for {
		if s := st.owner(key); s != nil {
			if err := s.annotate(fn); !errors.Is(err, errReleased) {
				return err
			}
		}

		wait, cancel := context.WithTimeout(ctx, annotateWait)
		s, err := st.Acquire(wait, key)
		cancel()

		switch {
		case err == nil:
			return errors.Join(s.annotate(fn), s.Release())
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
}

// owner returns the session that its holder in this process has, nil if there
// is none.
func (st *Store) owner(key string) *Session {
	st.mu.Lock()
	defer st.mu.Unlock()
	if sl := st.used[key]; sl != nil {
		return sl.owner
	}
	return nil
}

func (s *Session) annotate(fn func(*Session) error) error {
	err := fn(s)
	// What fn found may be void: a released session has no metadata.
	if serr := s.SaveMeta(); errors.Is(serr, errReleased) || err == nil {
		return serr
	}
	return err
}
