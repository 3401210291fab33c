package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// logFile is one log. Its file stays open between calls; who replaced or
// removed it is noticed by comparing it with what bears the name. A write holds
// the lock of the open file, so that the length can be compared and half a
// line told from one that is being written.
type logFile struct {
	store *Store
	path  string

	mu     sync.Mutex
	f      *os.File    // nil: not open
	seen   os.FileInfo // of f when last looked at; nil: look again
	size   int64       // of the file then, or after our own write
	own    bool        // the last write was ours: its time is not known yet
	info   store.Info
	unsure bool // the name of a new file may not be on the disk

	readOnly bool         // f is
	gate     func() error // releases the lock of a write where f cannot be locked, see lockFile
}

// ReadAt reads from the file.
func (l *logFile) ReadAt(p []byte, off int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		if l.info.Size == 0 {
			return 0, io.EOF
		}

		seen := l.seen
		if err := l.open(os.O_RDONLY); err != nil {
			return 0, err
		}

		defer l.closeIdle()
		if now, err := l.f.Stat(); err != nil || seen != nil && !os.SameFile(now, seen) {
			return 0, errors.Join(err, l.moved())
		}
	}

	return l.f.ReadAt(p, off)
}

// Info looks at the file, which costs one call of the system if nothing changed.
func (l *logFile) Info(context.Context) (store.Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.closeIdle()
	err := l.refresh()
	return l.info, err
}

// refresh opens the file again if its name stands for another one, and measures it
// if it changed.
func (l *logFile) refresh() error {
	for range 10 {
		named, err := os.Stat(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			l.drop()
			l.info = store.Info{Name: l.info.Name}
			return nil
		}

		if err != nil {
			return err
		}

		sameFile := l.seen != nil && os.SameFile(named, l.seen)
		sameTime := l.own || named.ModTime().Equal(l.info.Changed)
		if sameFile && named.Size() == l.size && sameTime {
			l.seen = named
			l.own = false
			l.info.Changed = named.ModTime()
			return nil
		}

		if l.f != nil && !sameFile {
			l.drop()
		}

		if l.f == nil {
			err := l.open(os.O_RDWR)
			if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) { // what cannot be written can perhaps be read
				err = l.open(os.O_RDONLY)
			}

			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
		}

		return l.measure()
	}
	return fmt.Errorf("%s is replaced all the time", l.path)
}

// measure notes what the open file is.
func (l *logFile) measure() error {
	fi, err := l.f.Stat()
	if err != nil {
		return err
	}

	torn, err := tornBytes(l.f, fi.Size())
	if err != nil {
		return err
	}

	l.seen = fi
	l.size = fi.Size()
	l.own = false
	l.info = store.Info{Name: l.info.Name, ID: ident(fi), Size: fi.Size() - torn, Changed: fi.ModTime()}
	return nil
}

func tornBytes(f *os.File, size int64) (int64, error) {
	var last [1]byte
	if size == 0 {
		return 0, nil
	}

	if _, err := f.ReadAt(last[:], size-1); err != nil {
		if errors.Is(err, io.EOF) { // it is being cut off
			return 0, nil
		}
		return 0, err
	}

	if last[0] == '\n' {
		return 0, nil
	}
	return diskio.TornBytes(f, size)
}

// open opens the file.
func (l *logFile) open(flags int) (err error) {
	l.readOnly = flags == os.O_RDONLY
	if !l.readOnly {
		flags |= os.O_APPEND
	}
	l.f, _, err = openFile(l.path, flags)
	return err
}

// closeIdle closes the file where an open one is in others' way.
func (l *logFile) closeIdle() {
	if l.store.closesIdle && l.f != nil {
		_ = l.f.Close() // nothing of it waits to be written
		l.f = nil
	}
}

// drop forgets the file.
func (l *logFile) drop() {
	if l.f != nil {
		_ = l.f.Close() // nothing of it waits to be written
	}
	l.f = nil
	l.seen = nil
	l.size = 0
	l.own = false
}

// Append writes lines in one call.
func (l *logFile) Append(ctx context.Context, at int64, lines []byte, sync bool) error {
	if len(lines) == 0 || lines[len(lines)-1] != '\n' {
		return errors.New("only whole lines can be appended to a log")
	}

	l.mu.Lock()
	err := l.append(ctx, at, lines)
	if !sync || err != nil {
		l.closeIdle()
	}

	l.mu.Unlock()
	if err != nil || !sync {
		return err
	}
	return l.Sync(ctx)
}

func (l *logFile) append(ctx context.Context, at int64, lines []byte) (err error) {
	if err := l.lock(ctx, at == 0); err != nil {
		return err
	}

	defer func() { err = errors.Join(err, l.unlock()) }()
	if l.info.Size != at {
		return fmt.Errorf("%w (%d bytes, expected %d)", l.moved(), l.info.Size, at)
	}
	if err := l.repair(); err != nil {
		return err
	}
	if err := diskio.AppendLines(l.f, at, lines); err != nil {
		l.seen = nil
		return err
	}

	l.size = at + int64(len(lines))
	l.info.Size, l.own = l.size, true
	return nil
}

func (l *logFile) moved() error { return fmt.Errorf("%s: %w", l.path, store.ErrMoved) }

// lock locks the file that bears the name and looks at it.
func (l *logFile) lock(ctx context.Context, create bool) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, l.unlock())
		}
	}()
	if l.readOnly {
		l.drop()
	}

	for {
		if l.f == nil {
			err := l.open(os.O_RDWR)
			if errors.Is(err, fs.ErrNotExist) && create {
				l.unsure = true
				err = inFolder(l.path, func() error { return l.open(os.O_RDWR | os.O_CREATE) })
			}

			if errors.Is(err, fs.ErrNotExist) {
				return l.moved()
			}
			if err != nil {
				return err
			}
			l.seen = nil
		}

		if err := l.lockFile(ctx); err != nil {
			return err
		}

		named, err := os.Stat(l.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		if err == nil && l.seen != nil && os.SameFile(named, l.seen) {
			if named.Size() == l.size {
				return nil
			}
			return l.measure()
		}

		if err == nil {
			held, err := l.f.Stat()
			if err != nil {
				return err
			}
			if os.SameFile(held, named) {
				return l.measure()
			}
		}

		l.drop() // closing it releases its lock
	}
}

// lockFile locks the open file. Where it must be closed to be replaced, a lock file
// beside it is held instead: else another process could add lines to the old
// file in between.
func (l *logFile) lockFile(ctx context.Context) (err error) {
	switch {
	case !l.store.closesIdle:
		return diskio.LockOpen(ctx, l.f)
	case l.gate == nil:
		l.gate, err = store.WaitLock(ctx, l.store, l.info.Name+suffixGate, writeWait)
	}
	return err
}

// unlock releases what lock took.
func (l *logFile) unlock() (err error) {
	switch {
	case l.gate != nil:
		err = l.gate()
		l.gate = nil
	case l.f != nil && !l.store.closesIdle:
		err = diskio.UnlockOpen(l.f)
	}
	return err
}

// repair keeps half a line aside. Whoever writes holds the lock, so the one who
// left it is dead.
func (l *logFile) repair() error {
	if l.size == l.info.Size {
		return nil
	}

	aside := l.path + suffixTorn
	size, torn, err := diskio.RepairTail(l.f, aside, true)
	if err != nil {
		l.seen = nil
		return err
	}

	l.size, l.info.Size = size, size
	if torn > 0 {
		l.store.log.Warn("half a line of a crash was kept aside", "file", aside, "bytes", torn)
	}
	return nil
}

// Repair keeps half a line aside, if there is one, and removes a new log that
// never got its name.
func (l *logFile) Repair(ctx context.Context) (torn int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	defer l.closeIdle()
	if err := l.refresh(); err != nil || !l.info.Exists() {
		return 0, err
	}

	tmp := l.path + suffixTemp
	_, left := os.Lstat(tmp)
	if l.size == l.info.Size && left != nil {
		return 0, nil
	}
	if err := l.lock(ctx, false); err != nil {
		return 0, err
	}

	if left == nil {
		_ = os.Remove(tmp) // whoever replaces the log holds its lock: this one died
	}

	torn = l.size - l.info.Size
	return torn, errors.Join(l.repair(), l.unlock())
}

// Sync waits for the disk, without the lock of this log.
func (l *logFile) Sync(ctx context.Context) error {
	l.mu.Lock()
	if l.f == nil && l.info.Size > 0 {
		if err := l.open(os.O_RDWR); err != nil {
			l.mu.Unlock()
			return err
		}
	}

	f, unsure := l.f, l.unsure
	l.mu.Unlock()
	if f == nil {
		return nil
	}

	if err := f.Sync(); errors.Is(err, fs.ErrClosed) {
		return l.Sync(ctx) // it was replaced meanwhile
	} else if err != nil {
		return err
	}

	if unsure {
		if err := diskio.SyncDir(filepath.Dir(l.path)); err != nil {
			return err
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if unsure {
		l.unsure = false
	}

	l.closeIdle()
	return nil
}

// Replace writes a new file beside the old one and renames it.
func (l *logFile) Replace(ctx context.Context, at int64, lines []byte) (err error) {
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		return errors.New("a log holds whole lines only")
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	defer l.closeIdle()
	if err := l.lock(ctx, at <= 0); err != nil {
		return err
	}

	defer func() { err = errors.Join(err, l.unlock()) }()
	if at >= 0 && l.info.Size != at {
		return fmt.Errorf("%w (%d bytes, expected %d)", l.moved(), l.info.Size, at)
	}
	if err := l.repair(); err != nil {
		return err
	}

	target := resolved(l.path)
	tmp := target + suffixTemp
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crash
		return err
	}
	if err := diskio.CopyFile(tmp, bytes.NewReader(lines), 0o600); err != nil {
		return err
	}

	l.closeIdle()
	if err := diskio.Retry(func() error { return os.Rename(tmp, target) }); err != nil {
		_ = os.Remove(tmp) // the next attempt replaces it anyway
		return err
	}

	l.drop() // closing the old file releases its lock
	l.unsure = true
	if err := l.open(os.O_RDWR); err != nil {
		return err
	}
	if err := l.measure(); err != nil {
		return err
	}
	if err := diskio.SyncDir(filepath.Dir(target)); err != nil {
		return err
	}

	l.unsure = false
	return nil
}

// Close closes the file.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f, l.seen = nil, nil
	return err
}
