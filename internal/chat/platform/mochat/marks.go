package mochat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/wait"
)

const saveAfter = 500 * time.Millisecond

// marks are how far sessions were read. The file is that of Python nanobot.
type marks struct {
	path     string
	logError func(err error)
	now      func() time.Time

	mu      sync.Mutex
	at      map[string]int64
	dirty   bool
	changed chan struct{} // capacity 1
}

type marksFile struct {
	Version int              `json:"schemaVersion"`
	Updated string           `json:"updatedAt"`
	Cursors map[string]int64 `json:"cursors"`
}

// openMarks reads the file. A damaged one is kept aside: its sessions count as
// new ones.
func (b *bot) openMarks(ctx context.Context) (*marks, error) {
	dir, err := b.deps.Dir()
	if err != nil {
		return nil, err
	}

	m := &marks{
		path:     filepath.Join(dir, "session_cursors.json"),
		logError: func(err error) { b.deps.Log.WarnContext(ctx, "cannot save how far sessions were read", "err", err) },
		now:      b.deps.Now,
		at:       map[string]int64{},
		changed:  make(chan struct{}, 1),
	}

	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read how far sessions were read: %w", err)
	}

	var file struct {
		Cursors map[string]whole `json:"cursors"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		b.deps.Log.WarnContext(ctx, "the cursors of the sessions are damaged; only messages from now on are answered", "file", m.path, "err", err)
		return m, os.Rename(m.path, m.path+".damaged")
	}

	for session, n := range file.Cursors {
		if n >= 0 {
			m.at[session] = int64(n)
		}
	}
	return m, nil
}

// get returns how far a session was read.
func (m *marks) get(session string) (n int64, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, known = m.at[session]
	return n, known
}

// set notes that a session was read this far, after all that is durable. It
// never goes back.
func (m *marks) set(session string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if old, known := m.at[session]; known && n <= old {
		return
	}

	m.at[session], m.dirty = n, true
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// saveChanges writes the file a little after each change, until ctx ends.
func (m *marks) saveChanges(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.changed:
		}

		if wait.For(ctx, saveAfter) != nil {
			return nil //nolint:nilerr // the end of ctx is not an error
		}

		if err := m.save(); err != nil {
			m.logError(err)
		}
	}
}

func (m *marks) save() error {
	m.mu.Lock()
	if !m.dirty {
		m.mu.Unlock()
		return nil
	}

	m.dirty = false
	file := marksFile{Version: 1, Updated: m.now().UTC().Format("2006-01-02T15:04:05.000000"), Cursors: maps.Clone(m.at)}
	m.mu.Unlock()
	data, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = diskio.WriteFile(m.path, append(data, '\n'), 0o600)
	}

	if err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("keep how far sessions were read: %w", err)
	}
	return nil
}

// fingerprint returns a name for a secret.
func fingerprint(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
