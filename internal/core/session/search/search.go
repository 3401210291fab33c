// Package search hides the full-text index over everything that was said and
// noted: conversations with their archives, the history, and the memory files.
//
// The index is derived data in one SQLite file. It may be deleted at any time
// and is built again; a damaged one is dropped. It holds words and places, not
// the texts, which are read from where they are when they are shown. Taking in
// a new message costs the same however much there is already.
//
// Who asks decides what is found: the owner finds what belongs to no other
// person, the others only what belongs to their scope. See Query.
//
// An Index is safe for concurrent use, and several processes may have the same
// file open.
package search

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Role says what kind of text a hit is.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Summary   Role = "summary" // an entry of the history
	Note      Role = "note"    // a paragraph of a memory file
)

func roles() []Role { return []Role{User, Assistant, Summary, Note} }

// Options of an Index. Path is required; a source that is "" is left out.
type Options struct {
	Path string // of the database; its directory is made
	// Store holds the logs, by the names Sessions and History.
	Store store.Store
	// Sessions is the folder of the session logs; its archive is below it.
	Sessions string
	// OldSessions are directories where logs of older versions wait for their
	// import.
	OldSessions []string
	History     string // the authoritative history.jsonl
	Workspace   string // holds memory/*.md, memory/scopes/*/MEMORY.md, USER.md and SOUL.md

	Log   *slog.Logger
	First time.Duration // how long Run waits before it looks for the first time; default 10 s, so that short-lived programs never index
	Every time.Duration // how often it looks for news from then on; default 2 minutes
}

// Index answers queries. The zero value is not usable; see Open.
type Index struct {
	opt Options

	turn     chan struct{} // capacity 1: the right to write, within this process
	unmerged int           // documents written since the last merge; belongs to turn

	mu     sync.Mutex // guards the rest
	db     *sql.DB    // nil until used
	file   os.FileInfo
	names  map[int64]string  // of conversations and scopes
	rows   *sourceRows       // the table of sources; nil: must be read
	dirs   map[string]logDir // by the prefix of their labels
	closed bool
}

// ErrEmpty says that a query has no word to look for.
var ErrEmpty = errors.New("there is no word to search for")

// Open makes an Index. It does no I/O; the first use opens the file, making or
// bringing it up to date as needed.
func Open(opt Options) (*Index, error) {
	if opt.Path == "" {
		return nil, errors.New("a search index needs a file")
	}

	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.First <= 0 {
		opt.First = 10 * time.Second
	}
	if opt.Every <= 0 {
		opt.Every = 2 * time.Minute
	}
	return &Index{opt: opt, turn: make(chan struct{}, 1), dirs: map[string]logDir{}}, nil
}

const (
	// Run works in slices of this length. While turns run they are short, and
	// most of the time is left to the turns.
	slice     = 250 * time.Millisecond
	busySlice = 20 * time.Millisecond
	busyRest  = 19 // times as long as the slice took
)

// Run keeps the index up to date until ctx ends, so that queries find little
// left to do. While busy says so it hardly uses the processor. Problems are
// logged: the next look, or a query, tries again.
func (x *Index) Run(ctx context.Context, busy func() bool) {
	t := time.NewTimer(x.opt.First)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}

		begun := time.Now()
		timeout := slice
		rest := 0
		if busy() {
			timeout, rest = busySlice, busyRest
		}

		behind, err := x.update(ctx, timeout)
		if err != nil && ctx.Err() == nil {
			x.opt.Log.WarnContext(ctx, "cannot update the search index", "err", err)
		}

		if behind && err == nil {
			t.Reset(time.Since(begun) * time.Duration(rest))
		} else {
			t.Reset(x.opt.Every)
		}
	}
}

// Close closes the file. The Index must not be used afterwards.
func (x *Index) Close() error {
	x.turn <- struct{}{}
	defer func() { <-x.turn }()
	x.mu.Lock()
	defer x.mu.Unlock()

	x.closed = true
	if x.db == nil {
		return nil
	}

	err := x.db.Close()
	x.db = nil
	return err
}

// Stats describe an index.
type Stats struct {
	Documents int64 // messages, entries and paragraphs
	TextBytes int64 // of these
	Bytes     int64 // of the index itself
}

// Stats reads the figures of the index as it is.
func (x *Index) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := x.guard(ctx, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT coalesce(sum(docs),0), coalesce(sum(bytes),0) FROM source`).Scan(&s.Documents, &s.TextBytes)
	})
	for _, suffix := range []string{"", "-wal"} {
		if fi, serr := os.Stat(x.opt.Path + suffix); serr == nil {
			s.Bytes += fi.Size()
		}
	}
	return s, err
}
