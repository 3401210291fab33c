package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

const (
	// hubLife is how long a signature without a time in it is remembered.
	hubLife = 180 * 24 * time.Hour
	// keptNonces bounds the file; then the ones that expire first go. Only
	// requests with a good signature are kept, so a stranger cannot fill it.
	keptNonces = 50_000
	// nonceWait bounds the wait for another process that keeps one.
	nonceWait = 2 * time.Second
)

// Nonces remembers signed requests, so that each is taken once. What it knows
// is in a file that several processes may share and that outlives them. It is
// safe for concurrent use.
type Nonces struct {
	path string

	mu     sync.Mutex
	known  map[string]int64 // until when, in Unix seconds
	offset int64            // of the file that known holds
	held   fs.FileInfo      // the file it came from
}

// NewNonces keeps what was seen in a file, which the first request makes.
func NewNonces(path string) *Nonces { return &Nonces{path: path, known: map[string]int64{}} }

// Take reports whether nobody took this nonce before, and remembers it until
// then. It is on disk when Take returns; an error means that it could not be
// kept, and the request must not be served.
func (n *Nonces) Take(ctx context.Context, nonce string, until, now time.Time) (fresh bool, err error) {
	sum := sha256.Sum256([]byte(nonce))
	name := hex.EncodeToString(sum[:16])
	n.mu.Lock()
	defer n.mu.Unlock()

	if err := diskio.MkdirAll(filepath.Dir(n.path), 0o700); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, nonceWait)
	defer cancel()
	lock, err := diskio.WaitLock(ctx, n.path+".lock")
	if err != nil {
		return false, fmt.Errorf("remember a signed request: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()

	if err := n.catchUp(); err != nil {
		return false, err
	}
	if end, ok := n.known[name]; ok && end > now.Unix() {
		return false, nil
	}
	if len(n.known) >= keptNonces {
		if err := n.compact(now); err != nil {
			return false, err
		}
	}
	return true, n.keep(name, until.Unix())
}

// catchUp reads what other processes added.
func (n *Nonces) catchUp() error {
	f, err := os.Open(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		clear(n.known)
		n.offset, n.held = 0, nil
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if n.held == nil || !os.SameFile(n.held, info) || info.Size() < n.offset {
		clear(n.known)
		n.offset = 0
	}
	n.held = info
	if _, err := f.Seek(n.offset, 0); err != nil {
		return err
	}
	for line, err := range diskio.Lines(f, n.offset) {
		if err != nil {
			return err
		}
		if !line.Whole {
			break // a crash left it; what comes next closes it
		}
		at, name, _ := strings.Cut(string(line.Bytes), " ")
		if end, err := strconv.ParseInt(at, 10, 64); err == nil {
			n.known[name] = max(n.known[name], end)
		}
		n.offset = line.End()
	}
	return nil
}

// keep adds one line. A torn line before it is closed by its newline.
func (n *Nonces) keep(name string, until int64) error {
	f, err := os.OpenFile(n.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%d %s\n", until, name)
	if info, err := f.Stat(); err == nil && info.Size() > n.offset {
		line = "\n" + line
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Sync(), f.Close())
}

// compact leaves out what has expired, and of the rest what does so first.
func (n *Nonces) compact(now time.Time) error {
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
	var b strings.Builder
	for name, end := range n.known {
		fmt.Fprintf(&b, "%d %s\n", end, name)
	}
	n.offset, n.held = 0, nil
	return diskio.WriteFile(n.path, []byte(b.String()), 0o600)
}
