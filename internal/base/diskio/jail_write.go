package diskio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Written describes a completed write.
type Written struct {
	Path    string // absolute, free of links
	Created bool
	Info    fs.FileInfo
}

// Update replaces a file by what fn makes of its content, atomically. fn gets
// the old content and info, or nil and nil if the file does not exist; missing
// parent directories are then created. If fn fails nothing is written and its
// error is returned. Files over limit bytes are refused with ErrTooLarge.
//
// Updates of one file run one after another. A change made by another program
// while fn ran gives ErrChanged. The write goes to a temporary file in the same
// directory that is then renamed, so other names of a hard-linked file keep the
// old content, and a crash leaves either the old file or the new one.
func (j *Jail) Update(ctx context.Context, name string, limit int64, fn func(old []byte, info fs.FileInfo) ([]byte, error)) (Written, error) {
	return j.replace(ctx, name, func(t *target) ([]byte, error) {
		old, err := t.read(limit)
		if err != nil {
			return nil, err
		}
		t.expect, t.pinned = old, true
		return fn(old, t.info)
	})
}

// WriteAtomic creates or replaces a file, as Update does but whatever it held.
func (j *Jail) WriteAtomic(ctx context.Context, name string, data []byte) (Written, error) {
	return j.replace(ctx, name, func(*target) ([]byte, error) { return data, nil })
}

func (j *Jail) replace(ctx context.Context, name string, content func(*target) ([]byte, error)) (Written, error) {
	t, err := j.target(name)
	if err != nil {
		return Written{}, err
	}

	defer t.close()
	unlock, err := j.locks.lock(ctx, t.path)
	if err != nil {
		return Written{}, err
	}

	defer unlock()
	if err := t.look(); err != nil { // another update may have changed it while we waited
		return Written{}, err
	}

	data, err := content(t)
	if err != nil {
		return Written{}, err
	}

	if t.dir == nil {
		if err := t.makeParents(j); err != nil {
			return Written{}, err
		}
	}
	return t.write(data)
}

// MkdirAll creates a directory and its parents.
func (j *Jail) MkdirAll(name string) error {
	p, err := j.locate(name, true)
	for range linkHops {
		if err != nil {
			return err
		}
		if err = j.mkdirAll(p); err == nil || !escapes(err) {
			return err
		}
		p, err = j.follow(p, true)
	}

	return err
}

// mkdirAll creates directories below the deepest existing one, after checking
// where that one really is.
func (j *Jail) mkdirAll(p place) error {
	for rel := p.rel; ; rel = filepath.Dir(rel) {
		f, err := p.root.Open(rel + inside)
		if err != nil {
			if IsMissing(err) && rel != "." {
				continue
			}
			return err
		}

		resolved, err := realPath(f, filepath.Join(p.base, rel))
		_ = f.Close()
		if err != nil {
			return err
		}

		rest, err := filepath.Rel(rel, p.rel)
		if err != nil {
			return err
		}
		if err := j.guard().check(filepath.Join(resolved, rest), true); err != nil {
			return err
		}
		return p.root.MkdirAll(p.rel, 0o777)
	}
}

// target is a file about to be written, pinned by a handle of its directory.
type target struct {
	place  place
	dir    *os.Root // nil: the parent directory does not exist yet
	base   string
	path   string
	info   fs.FileInfo // nil: does not exist
	pinned bool        // expect must still be true when the file is replaced
	expect []byte      // content the replacement was made from; nil: no file
}

// target follows a name to the place a write goes to. Links inside the root are
// followed by name and checked again at each step; the write itself cannot
// follow a link because it is a rename.
func (j *Jail) target(name string) (*target, error) {
	p, err := j.locate(name, true)
	start := p.abs
	for range linkHops {
		if err != nil {
			return nil, err
		}
		if p.rel == "." || p.rel == "" {
			return nil, refuse(p.abs, ErrNotRegular, "is a directory")
		}

		var t *target
		var next string
		t, next, err = j.pin(p)
		switch {
		case err == nil && next == "":
			if err = j.straight.check(start, t.path); err != nil {
				t.close()
				return nil, err
			}
			return t, nil

		case err == nil:
			p, err = j.locate(next, true)
		case escapes(err):
			p, err = j.follow(p, true)
		default:
			return nil, err
		}
	}

	return nil, refuse(p.abs, ErrOutside, "too many links")
}

// pin opens the parent directory. If the last element is a link it returns the
// path to go on with instead.
func (j *Jail) pin(p place) (*target, string, error) {
	dir, err := OpenFolderIn(p.root, filepath.Dir(p.rel))
	if err != nil {
		if info, serr := p.root.Stat(filepath.Dir(p.rel)); serr == nil && !info.IsDir() {
			return nil, "", fileAsDir(p.abs)
		}
		if IsMissing(err) {
			return &target{place: p, base: filepath.Base(p.rel), path: p.abs}, "", nil
		}
		return nil, "", err
	}

	t := &target{place: p, dir: dir, base: filepath.Base(p.rel)}
	next, err := j.inspect(t)
	if err != nil || next != "" {
		t.close()
		return nil, next, err
	}
	return t, "", nil
}

func (j *Jail) inspect(t *target) (next string, err error) {
	f, err := t.dir.Open(".")
	if err != nil {
		return "", err
	}

	parent, err := realPath(f, filepath.Dir(t.place.abs))
	_ = f.Close()
	if err != nil {
		return "", err
	}

	t.path = filepath.Join(parent, t.base)
	if err := j.guard().check(t.path, true); err != nil {
		return "", err
	}

	info, err := t.dir.Lstat(t.base)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", nil //nolint:nilerr // look reports what matters
	}

	link, err := t.dir.Readlink(t.base)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(link) {
		return filepath.Join(parent, link), nil
	}
	if j.restrict {
		_, err := j.throughLink(t.place, false)
		return "", err
	}
	return link, nil
}

// look finds out what is there now and refuses to replace anything but a regular file.
func (t *target) look() error {
	if t.dir == nil {
		return nil
	}

	info, err := t.dir.Lstat(t.base)
	if IsMissing(err) {
		t.info = nil
		return nil
	}
	if err != nil {
		return err
	}

	t.info = info
	return mustBeRegular(t.path, info)
}

func (t *target) read(limit int64) ([]byte, error) {
	if t.info == nil {
		return nil, nil
	}

	f, err := t.dir.OpenFile(t.base, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, t.info) {
		return nil, refuse(t.path, ErrChanged, "was replaced while it was being opened; try again")
	}
	if info.Size() > limit {
		return nil, refuse(t.path, ErrTooLarge, "is %d bytes; at most %d can be edited", info.Size(), limit)
	}

	t.info = info
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, refuse(t.path, ErrTooLarge, "is over %d bytes", limit)
	}

	if data == nil {
		data = []byte{}
	}
	return data, err
}

// unchanged compares the file with what the replacement was made from.
func (t *target) unchanged() error {
	if err := t.look(); err != nil || !t.pinned {
		return err
	}

	changed := refuse(t.path, ErrChanged, "was changed by something else just now; read it again")
	if (t.expect == nil) != (t.info == nil) {
		return changed
	}
	if t.info == nil {
		return nil
	}

	now, err := t.read(int64(len(t.expect)))
	if errors.Is(err, ErrTooLarge) || err == nil && !bytes.Equal(now, t.expect) {
		return changed
	}
	return err
}

func fileAsDir(path string) error {
	return refuse(path, ErrBadName, "a part of this path is a file, not a directory")
}

func (t *target) makeParents(j *Jail) error {
	if err := j.MkdirAll(filepath.Dir(t.place.abs)); notDirectory(err) {
		return fileAsDir(t.place.abs)
	} else if err != nil {
		return err
	}

	again, err := j.target(t.place.abs)
	if err != nil {
		return err
	}
	if again.dir == nil {
		return refuse(t.place.abs, ErrChanged, "its directory vanished just now; try again")
	}

	again.pinned, again.expect = t.pinned, t.expect
	*t = *again
	return t.look()
}

func (t *target) write(data []byte) (w Written, err error) {
	perm := fs.FileMode(0o666) // less the umask, as for any new file
	if t.info != nil {
		perm = t.info.Mode().Perm()
	}

	temp := tempName()
	f, err := t.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return Written{}, err
	}

	defer func() {
		if err != nil {
			_ = f.Close()
			_ = t.dir.Remove(temp)
		}
	}()
	if t.info != nil && runtime.GOOS != "windows" {
		if err = f.Chmod(perm); err != nil {
			return Written{}, err
		}
	}

	if _, err = f.Write(data); err != nil {
		return Written{}, err
	}
	if err = f.Sync(); err != nil {
		return Written{}, err
	}

	info, err := f.Stat()
	if err != nil {
		return Written{}, err
	}
	if err = f.Close(); err != nil {
		return Written{}, err
	}
	if err = t.unchanged(); err != nil {
		return Written{}, err
	}

	created := t.info == nil
	if err = t.dir.Rename(temp, t.base); err != nil {
		return Written{}, err
	}

	t.syncDir()
	return Written{Path: t.path, Created: created, Info: info}, nil
}

// syncDir makes the rename durable where that is possible; the content is
// already safe, so trouble here is not reported.
func (t *target) syncDir() {
	if d, err := t.dir.Open("."); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

func (t *target) close() {
	if t.dir != nil {
		_ = t.dir.Close()
	}
}

// pathLocks serialises writers of one path. Entries vanish with their last user.
type pathLocks struct {
	fold bool // as in Jail
	mu   sync.Mutex
	held map[string]*pathLock
}

type pathLock struct {
	users int
	slot  chan struct{} // capacity 1: holding the token is holding the lock
}

func (l *pathLocks) lock(ctx context.Context, path string) (unlock func(), err error) {
	if l.fold {
		path = strings.ToLower(path)
	}

	l.mu.Lock()
	e := l.held[path]
	if e == nil {
		if l.held == nil {
			l.held = map[string]*pathLock{}
		}
		e = &pathLock{slot: make(chan struct{}, 1)}
		l.held[path] = e
	}

	e.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		if e.users--; e.users == 0 {
			delete(l.held, path)
		}
		l.mu.Unlock()
	}
	select {
	case e.slot <- struct{}{}:
		return func() { <-e.slot; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
