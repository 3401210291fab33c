package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Lock takes a lock. A name that ends in .lock is a lock file, which others see
// and whose holder they can name; all others share one file per folder, where
// the system allows it, so that many short locks cost no change of the folder.
func (s *Store) Lock(_ context.Context, name string) (release func() error, err error) {
	p, err := s.path(name)
	if err != nil {
		return nil, err
	}

	if strings.HasSuffix(name, suffixLock) {
		var lock *diskio.Lock
		err := inFolder(p, func() (err error) {
			lock, err = diskio.TryLock(p)
			return err
		})
		if err != nil {
			return nil, err
		}
		return once(lock.Unlock), nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if s.held[p] {
		return nil, &diskio.LockedError{Path: p, PID: os.Getpid()}
	}

	locks := s.locks[filepath.Dir(p)]
	if locks == nil {
		locks = diskio.NewLocks(filepath.Dir(p))
		s.locks[filepath.Dir(p)] = locks
	}

	if err := inFolder(p, func() error { return locks.Try(filepath.Base(p)) }); err != nil {
		return nil, err
	}

	s.held[p] = true
	return once(func() error { return s.release(p, locks) }), nil
}

// once makes a second release do nothing.
func once(release func() error) func() error {
	var o sync.Once
	return func() (err error) {
		o.Do(func() { err = release() })
		return err
	}
}

func (s *Store) release(p string, locks *diskio.Locks) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.held, p)
	err := locks.Release(filepath.Base(p))
	if i := slices.Index(s.resting, p); i >= 0 {
		s.resting = slices.Delete(s.resting, i, i+1)
	}

	s.resting = append(s.resting, p)
	if len(s.resting) > restingLocks {
		old := s.resting[0]
		s.resting = s.resting[1:]
		if l := s.locks[filepath.Dir(old)]; l != nil && !s.held[old] {
			err = errors.Join(err, l.Forget(filepath.Base(old)))
		}
	}

	return err
}

// Close releases all locks that share a file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	var err error
	for _, l := range s.locks {
		err = errors.Join(err, l.Close())
	}

	clear(s.locks)
	clear(s.held)
	s.resting = nil
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}
