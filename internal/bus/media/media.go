// Package media keeps the files that came with messages, or that leave with them,
// under names that are safe on every file system. The size of a file is bounded
// while it is written, and its type is read from its content.
package media

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// ErrTooLarge refuses a file that is larger than the channel takes.
var ErrTooLarge = errors.New("too large")

// Store keeps the files that came in with messages of one channel.
type Store struct {
	Dir string
	Max int64 // bytes of one file
}

// Save writes a file under a name of our own that ends like the sender's. The
// size is bounded while it is read, and the type is looked up in the content,
// not believed.
func (m *Store) Save(ctx context.Context, name string, r io.Reader) (bus.Media, error) {
	if err := diskio.MkdirAll(m.Dir, 0o700); err != nil {
		return bus.Media{}, err
	}

	path := filepath.Join(m.Dir, rand.Text()[:12]+"_"+FileName(name))
	head := &headReader{r: io.LimitReader(ctxReader{ctx, r}, m.Max+1)}
	if err := diskio.CopyFile(path, head, 0o600); err != nil {
		return bus.Media{}, err
	}
	if head.n > m.Max {
		return bus.Media{}, errors.Join(ErrTooLarge, os.Remove(path))
	}
	return bus.Media{Path: path, Name: name, MIME: http.DetectContentType(head.head), Size: head.n}, nil
}

// Declared gives a saved file the type that its sender declared. Of most files the
// sender knows more than their first bytes say. A picture is shown by its type, so ok is
// false if its content is of another one.
func Declared(m bus.Media, mime string) (declared bus.Media, ok bool) {
	if strings.HasPrefix(mime, "image/") {
		return m, m.MIME == mime
	}
	m.MIME = mime
	return m, true
}

// Sweep removes files that came in before a time, and says how many. Links and
// folders are left alone.
func (m *Store) Sweep(ctx context.Context, before time.Time) (n int, err error) {
	list, err := os.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}

	for _, e := range list {
		if ctx.Err() != nil {
			break
		}
		if info, statErr := e.Info(); statErr != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue
		}
		if rmErr := os.Remove(filepath.Join(m.Dir, e.Name())); rmErr != nil {
			err = errors.Join(err, rmErr)
			continue
		}
		n++
	}

	return n, err
}

// headReader counts and keeps the first bytes.
type headReader struct {
	r    io.Reader
	n    int64
	head []byte
}

// Read implements io.Reader.
func (h *headReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.n += int64(n)
	if miss := 512 - len(h.head); miss > 0 {
		h.head = append(h.head, p[:min(n, miss)]...)
	}
	return n, err
}

type ctxReader struct {
	ctx context.Context //nolint:containedctx // of one copy
	r   io.Reader
}

// Read implements io.Reader.
func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
