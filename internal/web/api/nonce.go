package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

const (
	// hubLife is how long a signature without a time in it is remembered.
	hubLife = 180 * 24 * time.Hour
	// keptNonces bounds the log; then the ones that expire first go. Only
	// requests with a good signature are kept, so a stranger cannot fill it.
	keptNonces = 50_000
	// nonceWait bounds the wait for another process that keeps one.
	nonceWait = 2 * time.Second
)

// Nonces remembers signed requests, so that each is taken once. What it knows
// is in a log that several processes may share and that outlives them. It is
// safe for concurrent use.
type Nonces struct {
	store store.Store
	name  string

	mu    sync.Mutex
	known map[string]int64 // until when, in Unix seconds
	read  store.Cursor     // of the log that known holds
}

// NewNonces keeps what was seen in a log, which the first request makes.
func NewNonces(s store.Store, name string) *Nonces {
	return &Nonces{store: s, name: name, known: map[string]int64{}}
}

// claim reports whether this nonce was never claimed before, and stores it until
// then. It is on disk when claim returns; an error means that it could not be
// kept, and the request must not be served.
func (n *Nonces) claim(ctx context.Context, nonce string, until, now time.Time) (fresh bool, err error) {
	sum := sha256.Sum256([]byte(nonce))
	name := hex.EncodeToString(sum[:16])
	n.mu.Lock()
	defer n.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, nonceWait)
	defer cancel()
	log, err := n.store.Log(ctx, n.name)
	if err != nil {
		return false, err
	}

	defer func() { err = errors.Join(err, log.Close()) }()
	for {
		size, err := n.catchUp(ctx, log)
		if err != nil {
			return false, err
		}
		if end, ok := n.known[name]; ok && end > now.Unix() {
			return false, nil
		}

		if len(n.known) >= keptNonces {
			err = log.Replace(ctx, size, n.compacted(now))
		} else if err = log.Append(ctx, size, line(name, until.Unix()), true); err == nil {
			return true, nil
		}

		if err != nil && !errors.Is(err, store.ErrMoved) { // else another process was faster
			return false, fmt.Errorf("remember a signed request: %w", err)
		}
	}
}

func line(name string, until int64) []byte { return fmt.Appendf(nil, "%d %s\n", until, name) }

// catchUp reads what was added to the log, and says how long it is.
func (n *Nonces) catchUp(ctx context.Context, log store.Log) (int64, error) {
	info, change, err := n.read.Inspect(ctx, log)
	if err != nil || change == store.Same {
		return info.Size, err
	}

	from := n.read.At
	if change == store.Another {
		clear(n.known)
		from = 0
	}

	for line, err := range store.Lines(log, from, info.Size) {
		if err != nil {
			n.read = store.Cursor{} // then all of it is read again
			return 0, err
		}
		at, name, _ := strings.Cut(string(line.Bytes), " ")
		if end, err := strconv.ParseInt(at, 10, 64); err == nil {
			n.known[name] = max(n.known[name], end)
		}
	}

	return info.Size, n.read.Reached(log, info)
}

// compacted leaves out what has expired, and of the rest what does so first.
func (n *Nonces) compacted(now time.Time) []byte {
	for name, end := range n.known {
		if end <= now.Unix() {
			delete(n.known, name)
		}
	}

	for len(n.known) > keptNonces*3/4 {
		var first string
		for name, end := range n.known {
			if first == "" || end < n.known[first] {
				first = name
			}
		}
		delete(n.known, first)
	}

	var out []byte
	for name, end := range n.known {
		out = append(out, line(name, end)...)
	}
	return out
}
