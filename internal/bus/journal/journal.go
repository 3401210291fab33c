// Package journal is the durable bus: one append-only log of JSON lines that says
// which messages came in, which are answered, what goes out, how far it got and
// where it is shown already. It hides how many callers share one fsync, how the
// file stays small, what is remembered of messages long gone, and what happens
// while the disk is full.
//
// Journal implements bus.Queue. It starts no goroutine: whoever needs a line on
// the disk writes it together with what others have brought meanwhile. Waiting
// for the disk does not end with a context, because a line that is being
// written can no longer be called off.
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Options of a Journal. The zero value is useful.
type Options struct {
	// MaxInbound is how many messages of one channel may wait for their
	// answer before Submit blocks; 0 means 1024. Commands, which begin with a
	// slash, have a reserve of their own on top, so that /stop gets through.
	MaxInbound int
	// MaxInboundBytes is the same for their size; 0 means 32 MiB.
	MaxInboundBytes int
	// MaxOutbound is how many durable messages of one channel may wait for
	// their delivery before Submit and Publish block; 0 means 4096.
	MaxOutbound int
	// MaxVolatile is how many deltas, hints and notices may wait for a
	// channel's reader before they are dropped; 0 means 1024.
	MaxVolatile int
	// MaxSeen is how many ids are remembered against duplicates, none for
	// longer than a week; 0 means 32768.
	MaxSeen int
	// MaxShown is how many growing answers are remembered by the messages that
	// show them; 0 means 4096.
	MaxShown int
	// CompactAt is by how many bytes the file may grow before what is done
	// with leaves it; 0 means 1 MiB.
	CompactAt int64
	Now       func() time.Time
	Log       *slog.Logger
}

const (
	maxMessage     = 4 << 20 // bytes of a line
	commandReserve = 64
	retryAfter     = 250 * time.Millisecond // between attempts to write to a disk that fails
	hangsAfter     = 30 * time.Second       // a write that takes longer is reported
	lockWait       = time.Second            // a child of a process that died has its lock until it runs another program
)

func (o Options) filled() Options {
	o.MaxInbound = cmp.Or(o.MaxInbound, 1024)
	o.MaxInboundBytes = cmp.Or(o.MaxInboundBytes, 32<<20)
	o.MaxOutbound = cmp.Or(o.MaxOutbound, 4096)
	o.MaxVolatile = cmp.Or(o.MaxVolatile, 1024)
	o.MaxSeen = cmp.Or(o.MaxSeen, 32768)
	o.MaxShown = cmp.Or(o.MaxShown, 4096)
	o.CompactAt = cmp.Or(o.CompactAt, 1<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Names in the store.
const (
	nameLog  = "journal.jsonl"
	nameSeen = "seen.jsonl"
	nameBad  = "journal.jsonl.bad" // lines that cannot be read
	nameLock = "journal.lock"
)

// Damaged returns the file below a data folder with lines that could not be used, "" if
// there is none.
func Damaged(data string) string {
	file := filepath.Join(datadir.Bus.In(data), nameBad)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// Journal is a bus.Queue in a store. One process has it open at a time.
type Journal struct {
	opts   Options
	store  store.Store
	unlock func() error
	file   log

	later   func(func())  // calls after syncDelay
	closing chan struct{} // closed by Close
	ready   chan struct{} // capacity 1: a message is ready for Receive

	mu     sync.Mutex
	closed bool
	next   *commit // what the next write takes along; nil if nothing waits
	busy   bool    // a caller writes
	// unsynced says that lines wait for the disk whose callers do not wait.
	unsynced bool
	seq      uint64
	inbound  map[string]*inEntry  // not completed
	queue    []*inEntry           // accepted and not received, in order
	outs     map[string]*outEntry // durable and not delivered
	lanes    lanes                // by channel
	seen     seen
	shown    shownAnswers
	dropped  uint64 // volatile messages without a receiver
}

var (
	_ bus.Queue  = (*Journal)(nil)
	_ bus.Knower = (*Journal)(nil)
)

// inEntry is an inbound message until it is completed.
type inEntry struct {
	seq      uint64
	at       time.Time
	in       bus.Inbound
	bytes    int
	commit   *commit // that makes it durable
	accepted bool    // it is durable
	ending   bool    // Complete is on its way
}

// Open opens the journal of a store and reads what is left to do. A second
// process gets a *store.LockedError, after lockWait.
func Open(st store.Store, opts Options) (*Journal, error) {
	opts = opts.filled()
	j := &Journal{
		opts: opts, store: st,
		later:   func(f func()) { time.AfterFunc(syncDelay, f) },
		closing: make(chan struct{}), ready: make(chan struct{}, 1),
		inbound: map[string]*inEntry{}, outs: map[string]*outEntry{}, lanes: lanes{},
		shown: shownAnswers{most: opts.MaxShown, now: opts.Now, by: map[bus.Route]shown{}},
	}

	ctx := context.Background()
	var err error
	if j.unlock, err = store.WaitLock(ctx, st, nameLock, lockWait); err != nil {
		return nil, fmt.Errorf("open the message journal: %w", err)
	}

	j.file.Log, err = st.Log(ctx, nameLog)
	if err == nil {
		err = st.Remove(ctx, nameLog+".new") // what a version before left when it died
	}
	if err == nil {
		j.seen, err = newSeen(ctx, st, j.opts.MaxSeen)
	}
	if err == nil {
		err = j.load(ctx)
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the message journal: %w", err), j.release())
	}
	return j, nil
}

// release gives back what the journal holds.
func (j *Journal) release() error {
	var err error
	for _, l := range []store.Log{j.file.Log, j.seen.log} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return errors.Join(err, j.unlock())
}

// load reads the logs. It runs before the journal has other users.
func (j *Journal) load(ctx context.Context) error {
	if err := j.seen.load(ctx, j.opts.Now()); err != nil {
		return err
	}

	info, data, err := readAll(ctx, j.file)
	if err != nil {
		return err
	}
	if !info.Exists() {
		return j.rewrite()
	}

	j.file.size = info.Size
	return j.replay(ctx, data)
}

// readAll reads a whole log.
func readAll(ctx context.Context, l store.Log) (store.Info, []byte, error) {
	info, err := l.Info(ctx)
	if err != nil || info.Size == 0 {
		return info, nil, err
	}
	data := make([]byte, info.Size)
	if _, err := l.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return info, nil, err
	}
	return info, data, nil
}

// Close makes the journal refuse work, ends waiting calls and makes the next
// opening cheap. What is not done with stays for that opening.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}

	j.closed = true
	close(j.closing)
	c := j.join(nil)
	j.mu.Unlock()
	err := j.flush(c) // everything that was on its way is written now
	j.mu.Lock()
	grown := j.file.size > j.file.base
	j.mu.Unlock()
	if err == nil && grown {
		err = j.rewrite()
	}
	return errors.Join(err, j.release())
}

// Status counts what a journal holds.
type Status struct {
	Inbound  int            `json:"inbound"`  // accepted and not answered
	Outbound map[string]int `json:"outbound"` // not delivered, by channel
	Oldest   time.Time      `json:"oldest"`   // of the inbound messages; zero if none waits
	Dropped  uint64         `json:"dropped"`  // deltas, hints and notices that were not received
	Bytes    int64          `json:"bytes"`    // of the file
	Err      error          `json:"-"`        // why nothing can be written; nil if all is well
}

// Status tells how much is left to do, also for channels that are not read any
// more. After a failure it looks whether the disk is well again.
func (j *Journal) Status() Status {
	j.heal()
	j.mu.Lock()
	defer j.mu.Unlock()

	s := Status{Inbound: len(j.inbound), Outbound: map[string]int{}, Dropped: j.dropped, Bytes: j.file.size, Err: j.file.broken}
	if took := j.opts.Now().Sub(j.file.since); !j.file.since.IsZero() && took > hangsAfter && s.Err == nil {
		s.Err = fmt.Errorf("the disk has not answered for %s", took.Round(time.Second))
	}

	for name, l := range j.lanes {
		if l.out > 0 {
			s.Outbound[name] = l.out
		}
	}

	for _, e := range j.inbound {
		if s.Oldest.IsZero() || e.at.Before(s.Oldest) {
			s.Oldest = e.at
		}
	}
	return s
}

func (j *Journal) stamp() uint64 { j.seq++; return j.seq }

// bySeq gives entries in the order they came.
func bySeq[E any, S cmp.Ordered](m map[string]E, seq func(E) S) []E {
	return slices.SortedFunc(maps.Values(m), func(a, b E) int { return cmp.Compare(seq(a), seq(b)) })
}
