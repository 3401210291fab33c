package subject

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/web"
)

const (
	unreadName = "unread.json"
	// unreadLog has what changed since unread.json was written, a line for each change.
	unreadLog = "unread.jsonl"
	// unreadBytes is how long the log may become before unread.json is written again.
	unreadBytes = 64 << 10
	maxUnread   = 1000 // conversations; one that is counted beyond that is not
)

// Unread counts the answers of each conversation that no page has shown yet. An answer
// costs one line in a log, however many conversations wait to be read.
type Unread struct {
	store store.Store
	log   *slog.Logger

	mu      sync.Mutex
	counts  map[string]int // nil: not read yet
	changes store.Log
}

// unreadChange is a line of the log. It has the count and not the difference, so lines
// that are already part of unread.json do no harm.
type unreadChange struct {
	Key   string `json:"key"`
	Count int    `json:"n"`
}

// NewUnread saves its counts in a store. It reads nothing yet.
func NewUnread(s store.Store, log *slog.Logger) *Unread { return &Unread{store: s, log: log} }

// Add counts an answer of a conversation.
func (u *Unread) Add(ctx context.Context, key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.load(ctx)
	if u.counts[key] == 0 && len(u.counts) >= maxUnread {
		return
	}
	u.counts[key]++
	u.save(ctx, key)
}

// seen forgets the count of a conversation.
func (u *Unread) seen(ctx context.Context, key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.load(ctx)
	if _, counted := u.counts[key]; !counted {
		return
	}
	delete(u.counts, key)
	u.save(ctx, key)
}

// all returns the counts by conversation.
func (u *Unread) all(ctx context.Context) map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.load(ctx)
	return maps.Clone(u.counts)
}

// Close closes the log.
func (u *Unread) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.changes == nil {
		return nil
	}
	err := u.changes.Close()
	u.changes = nil
	u.counts = nil // a later call reads them again
	return err
}

// load reads the counts once. They are a convenience: what cannot be read is logged.
func (u *Unread) load(ctx context.Context) {
	if u.counts != nil {
		return
	}

	u.counts = map[string]int{}
	data, version, err := u.store.Doc(ctx, unreadName)
	if err == nil && version != store.Missing {
		err = json.Unmarshal(data, &u.counts)
	}
	if u.counts == nil { // the document says null
		u.counts = map[string]int{}
	}
	if err := errors.Join(err, u.replay(ctx)); err != nil {
		u.log.WarnContext(ctx, "cannot read the counts of unread answers", "err", err)
	}
}

// replay applies the changes since unread.json was written.
func (u *Unread) replay(ctx context.Context) (err error) {
	if u.changes, err = u.store.Log(ctx, unreadLog); err != nil {
		return err
	}

	info, err := u.changes.Info(ctx)
	if err != nil {
		return err
	}

	for line, err := range store.Lines(u.changes, 0, info.Size) {
		if err != nil {
			return err
		}

		var change unreadChange
		switch {
		case json.Unmarshal(line.Bytes, &change) != nil || change.Key == "": // damaged: later ones may be right
		case change.Count <= 0:
			delete(u.counts, change.Key)
		case u.counts[change.Key] > 0 || len(u.counts) < maxUnread:
			u.counts[change.Key] = change.Count
		}
	}

	return nil
}

// save writes down what changed for a conversation.
func (u *Unread) save(ctx context.Context, key string) {
	if u.changes == nil {
		return // the log could not be opened, which was logged
	}
	if err := u.append(ctx, unreadChange{Key: key, Count: u.counts[key]}); err != nil {
		u.log.WarnContext(ctx, "cannot save the counts of unread answers", "err", err)
	}
}

func (u *Unread) append(ctx context.Context, change unreadChange) error {
	line, err := json.Marshal(change)
	if err != nil {
		return err
	}

	line = append(line, '\n')
	info, err := u.changes.Info(ctx)
	if err != nil {
		return err
	}
	if err := u.changes.Append(ctx, info.Size, line, false); err != nil {
		return err
	}

	if end := info.Size + int64(len(line)); end > unreadBytes {
		return u.compact(ctx, end)
	}
	return nil
}

// compact writes all counts and begins the log again, which is that long. A crash in
// between leaves changes that the counts have already.
func (u *Unread) compact(ctx context.Context, size int64) error {
	data, err := json.Marshal(u.counts)
	if err != nil {
		return err
	}
	if _, err := u.store.Put(ctx, unreadName, data, store.Any, true); err != nil {
		return err
	}
	return u.changes.Replace(ctx, size, nil)
}

// seen is for a page that shows a conversation.
func (c Conversations) seen(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Key string `json:"key"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.Key == "" {
		return nil, web.Refuse(http.StatusBadRequest, "key is missing: say which conversation")
	}

	c.Unread.seen(ctx, in.Key)
	return map[string]any{"key": in.Key}, nil
}
