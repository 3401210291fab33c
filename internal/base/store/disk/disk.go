// Package disk is the store on this machine's disk: a folder with one file per
// log and document. It hides how several processes share the files, how half a
// line of a crash is kept aside, and what has to be synced in which order.
package disk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

const (
	suffixLog  = ".jsonl"
	suffixDoc  = ".json"
	suffixLock = ".lock"
	suffixGate = ".write.lock"
	suffixTorn = ".torn"
	suffixTemp = ".tmp"
	// tempName names a file while it is written, after a dot and its own name.
	tempName = ".tmp-*"

	// writeWait bounds the wait for another process that writes the same
	// document or log, which takes it one sync.
	writeWait = 30 * time.Second
	// restingLocks bounds how many lock files stay open where each lock has a
	// file of its own.
	restingLocks = 64
)

// Store is a store.Store in a folder.
type Store struct {
	root string
	log  *slog.Logger
	// closesIdle says that an open file cannot be replaced: logs are closed after
	// every use.
	closesIdle bool

	mu      sync.Mutex
	locks   map[string]*diskio.Locks // by folder
	held    map[string]bool          // by path
	swept   map[string]bool          // folders without what others left, see sweep
	resting []string                 // paths of locks that were released, the oldest first
}

var _ store.Store = (*Store)(nil)

// Open names the folder; nothing is read or made yet. log may be nil.
func Open(root string, log *slog.Logger) *Store {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		root: root, log: log, closesIdle: runtime.GOOS == "windows",
		locks: map[string]*diskio.Locks{}, held: map[string]bool{}, swept: map[string]bool{},
	}
}

// Where returns the path of a name.
func (s *Store) Where(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

// path returns the file of a name. Names cannot leave the folder.
func (s *Store) path(name string) (string, error) {
	if local := filepath.FromSlash(name); !filepath.IsLocal(local) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q cannot be a name in a store", name)
	}
	return s.Where(name), nil
}

// Log opens a log; its file is opened when it is needed.
func (s *Store) Log(_ context.Context, name string) (store.Log, error) {
	p, err := s.path(name)
	if err != nil {
		return nil, err
	}
	return &logFile{store: s, path: p, info: store.Info{Name: name}}, nil
}

// Logs lists the logs of a folder.
func (s *Store) Logs(ctx context.Context, dir string) iter.Seq2[store.Info, error] {
	return s.list(ctx, dir, suffixLog)
}

// Docs lists the documents of a folder.
func (s *Store) Docs(ctx context.Context, dir string) iter.Seq2[store.Info, error] {
	return s.list(ctx, dir, suffixDoc)
}

func (s *Store) list(ctx context.Context, dir, suffix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		p, err := s.path(path.Join(".", dir)) // "" is the folder itself
		if err != nil {
			yield(store.Info{}, err)
			return
		}

		entries, err := os.ReadDir(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(store.Info{}, err)
			return
		}

		for _, e := range entries {
			if err := context.Cause(ctx); err != nil {
				yield(store.Info{}, err)
				return
			}
			if !strings.HasSuffix(e.Name(), suffix) || e.Name()[0] == '.' || !e.Type().IsRegular() {
				continue
			}

			fi, err := e.Info()
			if err != nil {
				continue // it went meanwhile
			}
			if !yield(info(path.Join(dir, e.Name()), fi), nil) {
				return
			}
		}
	}
}

func info(name string, fi fs.FileInfo) store.Info {
	return store.Info{Name: name, ID: ident(fi), Size: fi.Size(), Changed: fi.ModTime()}
}

// Stat describes a file. Half a line at the end of a log counts here.
func (s *Store) Stat(_ context.Context, name string) (store.Info, error) {
	p, err := s.path(name)
	if err != nil {
		return store.Info{}, err
	}

	fi, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return store.Info{Name: name}, nil
	}
	if err != nil {
		return store.Info{}, err
	}
	return info(name, fi), nil
}

// Doc reads a document.
func (s *Store) Doc(_ context.Context, name string) ([]byte, store.Version, error) {
	p, err := s.path(name)
	if err != nil {
		return nil, store.Missing, err
	}
	return readDoc(p)
}

func readDoc(p string) ([]byte, store.Version, error) {
	f, fi, err := openFile(p, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, store.Missing, nil
	}
	if err != nil {
		return nil, store.Missing, err
	}

	buf := bytes.NewBuffer(make([]byte, 0, fi.Size()+bytes.MinRead))
	_, err = buf.ReadFrom(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, store.Missing, err
	}
	return buf.Bytes(), version(buf.Bytes()), nil
}

// openFile opens a file. A pipe or a device under its name is an error: to read
// from it could be to wait for ever, and what is written to it would be gone.
func openFile(p string, flags int) (f *os.File, fi os.FileInfo, err error) {
	err = diskio.Retry(func() (err error) {
		f, err = os.OpenFile(p, flags|openNow, 0o600)
		return err
	})
	if err != nil {
		return nil, nil, err
	}

	fi, err = f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file (mode %s). Move it away", p, fi.Mode())
	}

	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, fi, nil
}

// resolved returns the file that a path leads to: one that people linked to another
// place stays there.
func resolved(p string) string {
	if target, err := filepath.EvalSymlinks(p); err == nil {
		return target
	}
	return p
}

func version(data []byte) store.Version {
	sum := sha256.Sum256(data)
	return store.Version(hex.EncodeToString(sum[:16]))
}

// Put replaces a document by renaming. The comparison with the old version is
// made under a lock file beside it.
func (s *Store) Put(ctx context.Context, name string, data []byte, old store.Version, sync bool) (_ store.Version, err error) {
	p, err := s.path(name)
	if err != nil {
		return store.Missing, err
	}

	if old != store.Any {
		release, err := store.WaitLock(ctx, s, name+suffixLock, writeWait)
		if err != nil {
			return store.Missing, err
		}

		defer func() { err = errors.Join(err, release()) }()
		have, now, err := readDoc(p)
		if err != nil {
			return store.Missing, err
		}
		if now != old {
			return store.Missing, fmt.Errorf("%s: %w", p, store.ErrChanged)
		}

		if old != store.Missing && bytes.Equal(have, data) {
			if sync { // it may have been written without
				err = syncFile(p)
			}
			return now, err
		}
	}

	if err := s.tighten(filepath.Dir(p)); err != nil {
		return store.Missing, err
	}

	s.sweep(filepath.Dir(p))
	write := diskio.WriteFile
	if !sync {
		write = replaceSoon
	}

	if err := inFolder(p, func() error { return write(p, data, 0o600) }); err != nil {
		return store.Missing, err
	}
	return version(data), nil
}

// tighten makes a folder of documents the owner's alone: it may be older than
// this program, and documents hold credentials.
func (s *Store) tighten(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil || dir == filepath.Clean(s.root) || fi.Mode().Perm()&0o077 == 0 {
		return nil //nolint:nilerr // a missing one is made with the right mode
	}
	return os.Chmod(dir, 0o700) //nolint:gosec // a folder needs the x
}

// litterAge is how old a temporary file is whose writer is certainly dead.
const litterAge = time.Hour

// sweep removes temporary files of processes that died while they wrote, once
// per folder.
func (s *Store) sweep(dir string) {
	s.mu.Lock()
	swept := s.swept[dir]
	s.swept[dir] = true
	s.mu.Unlock()
	if swept {
		return
	}

	old, _ := filepath.Glob(filepath.Join(dir, ".*"+tempName)) // the pattern is sound
	for _, p := range old {
		if fi, err := os.Lstat(p); err == nil && time.Since(fi.ModTime()) > litterAge {
			_ = os.Remove(p) // only litter
		}
	}
}

// inFolder does something in the folder of a path, which is made when missing.
func inFolder(p string, do func() error) error {
	err := do()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := diskio.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return err
	}
	return do()
}

// replaceSoon puts a whole file in place of another without waiting for the disk.
func replaceSoon(p string, data []byte, _ fs.FileMode) error {
	p = resolved(p)
	tmp, err := writeTemp(p, bytes.NewReader(data), false)
	if err != nil {
		return err
	}
	if err := diskio.Retry(func() error { return os.Rename(tmp, p) }); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// writeTemp writes a file that will get the name p, beside it.
func writeTemp(p string, src io.Reader, sync bool) (tmp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(p), "."+filepath.Base(p)+tempName)
	if err != nil {
		return "", err
	}

	_, err = io.Copy(f, src)
	if err == nil && sync {
		err = f.Sync()
	}

	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// syncFile makes a file and its name survive a power loss.
func syncFile(p string) error {
	f, _, err := openFile(p, os.O_RDWR)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return diskio.SyncDir(filepath.Dir(p))
}

// Remove deletes a file and makes that durable.
func (s *Store) Remove(_ context.Context, name string) error {
	p, err := s.path(name)
	if err != nil {
		return err
	}

	err = os.Remove(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return diskio.SyncDir(filepath.Dir(p))
}

// Archive links a whole log, and copies a part of one.
func (s *Store) Archive(_ context.Context, name, as string, n int64) error {
	from, err := s.path(name)
	if err != nil {
		return err
	}

	to, err := s.path(as)
	if err != nil {
		return err
	}

	f, fi, err := openFile(resolved(from), os.O_RDONLY)
	if err != nil {
		return err
	}

	s.sweep(filepath.Dir(to))
	err = archive(f, fi, to, n)
	return errors.Join(err, f.Close())
}

func archive(f *os.File, fi os.FileInfo, to string, n int64) error {
	if fi.Size() < n {
		return fmt.Errorf("%s: %w", f.Name(), store.ErrMoved)
	}

	switch there, err := os.Lstat(to); {
	case err == nil && os.SameFile(there, fi) && fi.Size() == n:
		return nil
	case err == nil && there.Size() == n:
		same, err := sameContent(to, io.NewSectionReader(f, 0, n))
		if err == nil && !same {
			err = fmt.Errorf("%s: %w", to, store.ErrExists)
		}
		return err

	case err == nil:
		return fmt.Errorf("%s: %w", to, store.ErrExists)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}

	if fi.Size() == n {
		if inFolder(to, func() error { return os.Link(f.Name(), to) }) == nil {
			return diskio.SyncDir(filepath.Dir(to))
		}
	}

	var tmp string
	err := inFolder(to, func() (err error) {
		tmp, err = writeTemp(to, io.NewSectionReader(f, 0, n), true)
		return err
	})
	if err != nil {
		return err
	}
	return diskio.Replace(tmp, to)
}

func sameContent(p string, want io.Reader) (bool, error) {
	f, err := os.Open(p)
	if err != nil {
		return false, err
	}

	defer f.Close() //nolint:errcheck // only read from
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(f, a)
		m, errB := io.ReadFull(want, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}

		if errA != nil || errB != nil {
			ended := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
			if ended(errA) && ended(errB) {
				return true, nil
			}
			return false, errors.Join(errA, errB)
		}
	}
}

// Watch hears of changes from the operating system. Folders that are missing
// are made.
func (s *Store) Watch(ctx context.Context, dirs []string, changed func()) error {
	paths := make([]string, len(dirs))
	for i, dir := range dirs {
		p, err := s.path(path.Join(".", dir))
		if err == nil {
			err = diskio.MkdirAll(p, 0o700)
		}
		if err != nil {
			return err
		}
		paths[i] = p
	}

	return diskio.Watch(ctx, paths, changed)
}

// Wake does nothing: this process is there.
func (s *Store) Wake(context.Context, time.Time) error { return nil }

// Lost is never closed.
func (s *Store) Lost() <-chan struct{} { return nil }

// Fresh is always true.
func (s *Store) Fresh() bool { return true }
