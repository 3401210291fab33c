package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// LogFile is a log that is put aside when it is large enough: the newest is
// NAME, the one before NAME.1, and so on. A write that fails, because the disk
// is full or may not be written, goes to a second place instead, so that a log
// never stops the program. Safe for concurrent use.
type LogFile struct {
	path   string
	max    int64
	copies int
	spare  io.Writer

	mu   sync.Mutex
	f    *os.File
	size int64
}

// OpenLog opens or makes a log. Max is its size in bytes, keep how many older
// ones stay. Spare gets what cannot be written.
func OpenLog(path string, maxBytes int64, keep int, spare io.Writer) (*LogFile, error) {
	l := &LogFile{path: path, max: maxBytes, copies: keep, spare: spare}
	if err := diskio.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return l, l.open()
}

func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}

	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}

	l.f, l.size = f, info.Size()
	return nil
}

// Write implements io.Writer. One call is one entry and never cut in two.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.size > 0 && l.size+int64(len(p)) > l.max {
		l.rotate()
	}

	if l.f == nil && l.open() != nil {
		return l.spare.Write(p)
	}

	n, err := l.f.Write(p)
	l.size += int64(n)
	if err != nil {
		return l.spare.Write(p)
	}
	return n, nil
}

// rotate puts the log aside. If that does not work it just grows.
func (l *LogFile) rotate() {
	for i := l.copies - 1; i >= 1; i-- {
		if err := os.Rename(l.name(i), l.name(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}

	if l.f != nil {
		_ = l.f.Close() // every write was checked
		l.f = nil
	}

	if l.copies > 0 {
		_ = os.Rename(l.path, l.name(1)) // else the old one is gone on
	} else {
		_ = os.Remove(l.path)
	}

	_ = l.open() // the next write tries again
}

func (l *LogFile) name(i int) string { return l.path + "." + strconv.Itoa(i) }

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
