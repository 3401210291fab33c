package subject

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/web"
)

const (
	unreadName = "unread.json"
	maxUnread  = 1000 // conversations; one that is counted beyond that is not
)

// Unread counts the answers of each conversation that no page has shown yet.
type Unread struct {
	store store.Store
	log   *slog.Logger

	mu     sync.Mutex
	counts map[string]int // nil: not read yet
}

// NewUnread keeps its counts in a store. It reads nothing yet.
func NewUnread(s store.Store, log *slog.Logger) *Unread { return &Unread{store: s, log: log} }

// Add counts an answer of a conversation.
func (u *Unread) Add(ctx context.Context, key string) {
	u.change(ctx, func() bool {
		if u.counts[key] == 0 && len(u.counts) >= maxUnread {
			return false
		}
		u.counts[key]++
		return true
	})
}

// seen forgets the count of a conversation.
func (u *Unread) seen(ctx context.Context, key string) {
	u.change(ctx, func() bool {
		_, counted := u.counts[key]
		delete(u.counts, key)
		return counted
	})
}

// all are the counts by conversation.
func (u *Unread) all(ctx context.Context) (out map[string]int) {
	u.change(ctx, func() bool {
		out = maps.Clone(u.counts)
		return false
	})
	return out
}

// change does something to the counts and keeps them. They are a convenience: what
// cannot be kept is logged.
func (u *Unread) change(ctx context.Context, do func() bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts == nil {
		u.counts = map[string]int{}
		data, version, err := u.store.Doc(ctx, unreadName)
		if err == nil && version != store.Missing {
			err = json.Unmarshal(data, &u.counts)
		}
		if err != nil {
			u.log.WarnContext(ctx, "read the counts of unread answers", "err", err)
		}
	}
	if !do() {
		return
	}
	data, err := json.Marshal(u.counts)
	if err == nil {
		_, err = u.store.Put(ctx, unreadName, data, store.Any, false)
	}
	if err != nil {
		u.log.WarnContext(ctx, "keep the counts of unread answers", "err", err)
	}
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
