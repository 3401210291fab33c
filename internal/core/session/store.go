package session

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Fsync says when appended records are forced to the disk. Whatever the
// policy, they survive the death of the process; syncing is about power loss.
type Fsync string

// The policies.
const (
	FsyncTurn   Fsync = "turn"   // at the beginning and end of a turn and on Sync; the default
	FsyncAlways Fsync = "always" // on every append
	FsyncNever  Fsync = "never"
)

// ErrNotFound says that no conversation is stored under a key.
var ErrNotFound = errors.New("no such session")

// BusyError says that another process did not let go of a session in time.
type BusyError struct {
	Key string
	PID int // of that process, 0 when unknown
}

func (e *BusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("session %q is in use by another process", e.Key)
	}
	return fmt.Sprintf("session %q is in use by process %d", e.Key, e.PID)
}

// Options configures a Store.
type Options struct {
	DataDir   string      // has the list of workspaces, and what older versions left
	Store     store.Store // of the data folder: sessions/<workspace id>/
	Workspace string      // the directory the agent works in
	// ImportDirs are further directories where older versions kept sessions.
	// <Workspace>/sessions and, unless Secondary, <DataDir>/sessions are looked
	// at as well, once: when the data folder sees the workspace for the first time.
	ImportDirs []string
	// Secondary is a workspace that is not the configured one. What older
	// versions kept in the data folder itself is not its.
	Secondary bool
	// Foreign reports that a file came from outside; it is never taken over. May
	// be nil.
	Foreign func(path string) bool
	// Secrets are taken out of the words of all records and notes before they are
	// kept. May be nil.
	Secrets *httpsafe.Registry

	Fsync        Fsync
	MaxLive      int           // sessions kept in memory while unused; default 64
	MaxLiveBytes int64         // bytes kept in memory of unused sessions; default 16 MiB
	LockWait     time.Duration // how long Acquire waits for another process; default 30 s
	CompactBytes int64         // dead bytes from which a log is compacted; default 8 MiB

	Log *slog.Logger     // default: none
	Now func() time.Time // default: time.Now
}

// Store keeps the conversations of one workspace.
type Store struct {
	opt      Options
	place    *Workspace
	imported Imported
	dir      string      // for people, and for what older versions left
	state    store.Store // the same

	mu   sync.Mutex
	used map[string]*slot // in use, waited for, or cached
	idle list.List        // of *slot, the longest unused last
	size int64            // of the idle journals

	listed map[string]listed // by the name of the log: what List found
}

// slot is the place of one key in the store. The fields up to elem belong to
// Store.mu, the others to whoever holds turn.
type slot struct {
	key   string
	users int // that hold or wait for turn
	bytes int64
	owner *Session      // that holds turn
	elem  *list.Element // in Store.idle when users is 0

	turn chan struct{} // capacity 1: full while a caller owns the session; waiters queue in order
	j    *journal      // nil until loaded
	name string        // of the lock
	free func() error  // releases the lock; nil while it is not locked
}

// Open makes a Store. It looks the workspace up and reads nothing else, however
// many sessions there are; only the first time, it takes over what older
// versions left.
func Open(opt Options) (*Store, error) {
	if opt.DataDir == "" || opt.Store == nil || opt.Workspace == "" {
		return nil, errors.New("a session store needs a data directory, a store and a workspace")
	}

	switch opt.Fsync {
	case "":
		opt.Fsync = FsyncTurn
	case FsyncTurn, FsyncAlways, FsyncNever:
	default:
		return nil, fmt.Errorf("unknown fsync policy %q", opt.Fsync)
	}

	if opt.MaxLive <= 0 {
		opt.MaxLive = 64
	}
	if opt.MaxLiveBytes <= 0 {
		opt.MaxLiveBytes = 16 << 20
	}
	if opt.LockWait <= 0 {
		opt.LockWait = 30 * time.Second
	}
	if opt.CompactBytes <= 0 {
		opt.CompactBytes = 8 << 20
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}

	place, err := Identify(opt.Store, opt.DataDir, opt.Workspace)
	if err != nil {
		return nil, fmt.Errorf("open sessions of %s: %w", opt.Workspace, err)
	}

	dir := place.Dir(dirRoot)
	st := &Store{opt: opt, place: place, dir: dir, state: store.Under(opt.Store, dirRoot, place.ID), used: map[string]*slot{}}
	if info, err := os.Stat(place.Path); err != nil || !info.IsDir() {
		return st, nil //nolint:nilerr // the workspace can still come
	}
	if err := place.Once(kindSessions, opt.Now(), st.importOld); err != nil {
		return nil, fmt.Errorf("take over the sessions of %s: %w", opt.Workspace, err)
	}
	return st, nil
}

// Workspace returns the workspace as the data folder knows it.
func (st *Store) Workspace() *Workspace { return st.place }

// Imported returns what this Open imported from older versions.
func (st *Store) Imported() Imported { return st.imported }

// Dir returns the directory of the logs.
func (st *Store) Dir() string { return st.dir }

// Acquire gives the caller the session with this key, a new one when nothing
// is stored. It waits while another caller in this process has it, in order of
// arrival and as long as ctx lasts, and up to Options.LockWait while another
// process has it; then it fails with a *BusyError. The caller must Release it.
func (st *Store) Acquire(ctx context.Context, key string) (*Session, error) {
	return st.AcquireTelling(ctx, key, func(*BusyError) {})
}

// AcquireTelling is Acquire for callers who want to know that another process
// has the session: it calls busy once after it has waited for a second.
func (st *Store) AcquireTelling(ctx context.Context, key string, busy func(*BusyError)) (*Session, error) {
	name, err := fileName(key)
	if err != nil {
		return nil, err
	}

	sl := st.enter(key, name)
	s, err := st.acquire(ctx, sl, name, busy)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("acquire session %q: %w", key, err), st.leave(sl))
	}
	return s, nil
}

func (st *Store) acquire(ctx context.Context, sl *slot, name string, busy func(*BusyError)) (*Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}

	select {
	case sl.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	if err := sl.lock(ctx, st.state, st.opt.LockWait, busy); err != nil {
		<-sl.turn
		return nil, err
	}

	if err := st.ready(ctx, sl, name); err != nil {
		sl.j = nil
		err = errors.Join(err, sl.free())
		<-sl.turn
		return nil, err
	}

	s := &Session{store: st, slot: sl, j: sl.j}
	st.mu.Lock()
	sl.owner = s
	st.mu.Unlock()
	return s, nil
}

// lock takes the slot's lock against other processes.
func (sl *slot) lock(ctx context.Context, state store.Store, wait time.Duration, busy func(*BusyError)) error {
	var waited, pause time.Duration
	told := false
	for {
		free, err := state.Lock(ctx, sl.name)
		if err == nil {
			sl.free = free
			return nil
		}

		locked, ok := errors.AsType[*store.LockedError](err)
		if !ok {
			return err
		}
		if waited >= wait {
			return &BusyError{Key: sl.key, PID: locked.PID}
		}

		if waited >= time.Second && !told {
			told = true
			busy(&BusyError{Key: sl.key, PID: locked.PID})
		}

		pause = min(max(2*pause, time.Millisecond), 50*time.Millisecond, wait-waited)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
			waited += pause
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// ready brings the slot's journal up to date with the disk.
func (st *Store) ready(ctx context.Context, sl *slot, name string) error {
	if sl.j != nil {
		if err := st.refresh(ctx, sl.j); err != nil || sl.j.size > 0 {
			return err
		}
	}

	j, err := st.find(ctx, sl.key, name)
	if err == nil {
		sl.j = j
	}
	return err
}

// find loads the log of a key: the plain name, the hashed one when the plain
// name belongs to a key that differs only in what the file system ignores.
func (st *Store) find(ctx context.Context, key, name string) (*journal, error) {
	j := &journal{key: key}
	if err := j.open(ctx, st.state, name); err != nil {
		return nil, err
	}

	err := st.refresh(ctx, j)
	if errors.Is(err, errOtherKey) && name != hashName(key) {
		err = nil // it has the hashed one
	} else if err != nil || j.size > 0 {
		return j, err
	} else if i, err := st.state.Stat(ctx, hashName(key)+suffixLog); err != nil || !i.Exists() {
		return j, err
	}

	if err := errors.Join(err, j.log.Close(), j.open(ctx, st.state, hashName(key))); err != nil {
		return nil, err
	}
	return j, st.refresh(ctx, j)
}

// open gives a journal the log of a name.
func (j *journal) open(ctx context.Context, state store.Store, name string) (err error) {
	j.name = name + suffixLog
	j.log, err = state.Log(ctx, j.name)
	return err
}

func (st *Store) refresh(ctx context.Context, j *journal) error {
	skipped := j.skipped
	torn, err := j.refresh(ctx)
	if err != nil {
		return err
	}

	if torn > 0 {
		st.opt.Log.WarnContext(ctx, "put a torn line aside", "session", j.key, "file", st.state.Where(j.name)+".torn", "bytes", torn)
	}
	if j.skipped > skipped {
		st.opt.Log.WarnContext(ctx, "passed over unreadable lines", "session", j.key, "file", st.state.Where(j.name), "lines", j.skipped)
	}
	return nil
}

// Release gives the session back, changed metadata written. A turn that is
// still open is recovered by the next owner. A log with much dead weight is
// compacted first. A second Release does nothing.
func (s *Session) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.j == nil {
		return nil
	}
	if s.memory {
		s.j = nil
		return nil
	}

	if s.wasteful() {
		if err := s.compact(); err != nil {
			s.store.opt.Log.Warn("cannot compact a session", "session", s.j.key, "err", err)
		}
	}

	j := s.j
	err := s.saveMeta()
	if s.written > 0 && err == nil && s.broken == nil {
		err = j.recordState(context.Background())
	}
	if err != nil || s.broken != nil {
		j.seen = store.Cursor{} // the disk is the truth: the next owner reads it again
	}

	s.j = nil
	bytes := j.liveBytes()
	err = errors.Join(err, s.slot.free())
	s.store.release(s.slot, bytes)
	<-s.slot.turn
	return errors.Join(err, s.store.leave(s.slot))
}

// Close forgets what is cached and gives the locks back. It must not be called
// while sessions are in use.
func (st *Store) Close() error { return st.DropCaches() }

// DropCaches drops all sessions from memory that are not in use.
func (st *Store) DropCaches() error {
	st.mu.Lock()
	gone := st.evict(0)
	st.mu.Unlock()
	return dropped(gone)
}

// dropped gives back what slots held that left the cache.
func dropped(slots []*slot) error {
	var err error
	for _, sl := range slots {
		if sl.j != nil {
			err = errors.Join(err, sl.j.log.Close())
		}
	}
	return err
}

// enter finds or makes the slot of a key and counts the caller in.
func (st *Store) enter(key, name string) *slot {
	st.mu.Lock()
	defer st.mu.Unlock()

	sl := st.used[key]
	if sl == nil {
		sl = &slot{key: key, name: name, turn: make(chan struct{}, 1)}
		st.used[key] = sl
	}

	if sl.elem != nil {
		st.idle.Remove(sl.elem)
		sl.elem = nil
		st.size -= sl.bytes
	}

	sl.users++
	return sl
}

// release records the size of a journal that has no owner any more.
func (st *Store) release(sl *slot, bytes int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	sl.bytes, sl.owner = bytes, nil
}

// leave counts the caller out. The last one leaves the journal in the cache,
// from which the longest unused ones are dropped when it grows too big.
func (st *Store) leave(sl *slot) error {
	st.mu.Lock()
	var gone []*slot
	switch sl.users--; {
	case sl.users > 0:
	case sl.j == nil:
		delete(st.used, sl.key)
		gone = append(gone, sl)
	default:
		sl.elem = st.idle.PushFront(sl)
		st.size += sl.bytes
		gone = st.evict(st.opt.MaxLive)
	}

	st.mu.Unlock()
	return dropped(gone)
}

// evict drops the longest unused slots while there are more than so many, or
// while they are too big.
func (st *Store) evict(most int) (gone []*slot) {
	for st.idle.Len() > most || (st.size > st.opt.MaxLiveBytes && st.idle.Len() > 0) {
		old, ok := st.idle.Remove(st.idle.Back()).(*slot)
		if !ok {
			return gone // only slots are in the list
		}
		old.elem = nil
		st.size -= old.bytes
		delete(st.used, old.key)
		gone = append(gone, old)
	}
	return gone
}
