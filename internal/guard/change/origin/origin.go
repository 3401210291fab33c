// Package origin records which files of a workspace came from outside: what a
// command with network wrote, what a turn wrote that had seen outside content,
// what was cloned or downloaded. Everything else in a workspace is the owner's.
// It hides how that is known although commands are free to create, rename and
// copy files: the record lies in the data folder, in two copies, and a command
// is a window of time. Every file whose inode changed inside the window is
// marked, because no program can set that time itself. A mark belongs to what a
// file is, not to its name: the record knows marked files by their inode and
// their content, and looks for those below the root before it forgets a path.
//
// A Store is safe for concurrent use, also by several processes.
package origin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

const (
	// slack widens the beginning of a window for other processes: file times
	// advance in ticks of up to 10 ms, so a change can look that much older.
	slack = 20 * time.Millisecond
	// justNow is how long a file that the program wrote is remembered, so that a
	// command which starts within the same tick is not taken for its author.
	justNow = 50 * time.Millisecond

	// maxSum bounds the files whose content is hashed.
	maxSum = 16 << 20
	// minSum is the size from which a content tells by itself that it came from
	// outside. A shorter one, which many files have, counts in files that changed
	// after it was first seen; an empty one never does.
	minSum = 32

	// maxExamples bounds the marks that are checked for existence.
	maxExamples = 64
)

// Options of a Store.
type Options struct {
	// Store holds the record, out of reach of every tool.
	Store store.Store
	// Name tells records of several workspaces apart.
	Name string
	// Root is the workspace, absolute.
	Root string
	// Roots are further folders that commands write to, such as a cache of
	// packages. They are marked as a whole.
	Roots []string
	// Sealed are folders, relative to Root, that commands cannot write to. What
	// changes there while a command runs was not changed by it, unless its
	// window says otherwise.
	Sealed []string
	Now    func() time.Time // nil is time.Now
	Log    *slog.Logger     // nil discards
}

// Store is the record of one workspace.
type Store struct {
	o    Options
	root string // free of links

	mu      sync.Mutex
	names   [2]string // of the record and its copy
	loaded  bool
	read    store.Cursor // in the record
	seq     int
	entries map[string]entry // by path relative to root, or absolute outside of it
	// sums are the contents that were seen in marked files; false for those that
	// are too short to tell by themselves. known has more about them.
	sums    map[[32]byte]bool
	known   known
	trusts  known // what the owner trusted, which other records may know as marked
	windows map[string]*window
	arrived uint64             // marks and commands, of all processes
	readers map[string]*reader // commands of this process that may read, by their windows
	alone   bool               // this is a view of another record, for its contents
	others  map[string]*Store  // views of the other records in the same place
	// unwalked says that the workspace was too large to mark what a command
	// wrote: some of it may lie anywhere.
	unwalked bool
	past     []window               // commands that brought content, for files that are moved with their folder
	live     map[string]func() bool // windows of this process; see Running.Outside
	recent   []written
}

// entry is the latest word about a path.
type entry struct {
	seq     int
	foreign bool
	dir     bool
	sum     [32]byte // zero: not known
	size    int64
}

// window is a command that could bring content from outside.
type window struct {
	seq        int
	start, end time.Time // end is zero while it runs
	pid        int
	unsealed   bool   // nothing kept the command from writing to sealed folders
	dir        string // by name, what it sees and writes to; "" is everything
	outside    bool   // it may have brought something by now
	lost       bool   // not a command: a damaged line may have held any mark until then
}

// written is a file that the program wrote just now.
type written struct {
	path string
	at   time.Time
}

// Open prepares a store; the record is read with the first question.
func Open(o Options) (*Store, error) {
	if o.Store == nil || o.Name == "" || !filepath.IsAbs(o.Root) {
		return nil, errors.New("origin: a store, a name and an absolute workspace are needed")
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	s := &Store{
		o:       o,
		entries: map[string]entry{},
		sums:    map[[32]byte]bool{},
		known:   newKnown(),
		trusts:  newKnown(),
		windows: map[string]*window{},
		readers: map[string]*reader{},
		others:  map[string]*Store{},
		live:    map[string]func() bool{},
	}
	for i, suffix := range []string{".jsonl", ".copy.jsonl"} {
		s.names[i] = o.Name + suffix
	}
	return s, nil
}

// name returns how a path is recorded: relative to the workspace if it is
// inside.
func (s *Store) name(abs string) string {
	abs = filepath.Clean(abs)
	for _, root := range []string{s.o.Root, s.realRoot()} {
		if rel, err := filepath.Rel(root, abs); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.ToSlash(abs)
}

func (s *Store) realRoot() string {
	if s.root == "" {
		s.root = s.o.Root
		if target, err := filepath.EvalSymlinks(s.o.Root); err == nil {
			s.root = target
		}
	}
	return s.root
}

// Foreign reports whether the file at an absolute path came from outside.
// A record that cannot be read means yes.
func (s *Store) Foreign(abs string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil {
		s.o.Log.Error("cannot read the record of outside files; every file counts as one", "err", err)
		return true
	}
	return s.foreign(abs)
}

// Readable returns why the record cannot be read, while every file counts as one
// from outside; nil if it can.
func (s *Store) Readable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follow()
}

func (s *Store) foreign(abs string) bool {
	name := s.name(abs)
	last := s.lookup(name)
	return last.foreign || s.inWindow(abs, name, last) || s.inPast(abs, name, last) || s.isKnown(abs, last)
}

// lookup returns the latest entry about a path or a folder above it.
func (s *Store) lookup(name string) entry {
	best := s.entries[name]
	for dir := name; ; {
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			dir = "."
		} else {
			dir = dir[:i]
		}

		if e, ok := s.entries[dir]; ok && e.dir && e.seq > best.seq {
			best = e
		}

		if i <= 0 {
			return best
		}
	}
}

// inWindow reports whether a file changed while a command from outside ran. A
// content that is known to be ours is not the command's.
func (s *Store) inWindow(abs, name string, last entry) bool {
	if len(s.windows) == 0 {
		return false
	}

	changed, err := changeTime(abs)
	if err != nil {
		return false // there is nothing to read
	}

	sealed := s.sealed(name)
	for id, w := range s.windows {
		if sealed && !w.unsealed || !w.sees(name) || !w.covers(changed) || !s.counts(id) {
			continue
		}
		return !isOwn(abs, last)
	}
	return false
}

// inPast reports whether a file was last changed by a command that brought
// content, wherever it lies now: moving the folder around it changes neither the
// file nor that time. A later word of the owner counts.
func (s *Store) inPast(abs, name string, last entry) bool {
	if len(s.past) == 0 {
		return false
	}

	changed, err := changeTime(abs)
	switch {
	case err != nil || !s.pastCovers(name, changed, last):
		return false
	case s.lostSince(last): // also about a content that was the owner's before
		return true
	}
	return !isOwn(abs, last)
}

// isOwn reports whether a file has the content that the program gave it.
func isOwn(abs string, last entry) bool {
	if last.seq == 0 || last.foreign || last.sum == ([32]byte{}) {
		return false
	}
	sum, _, err := sumOf(abs)
	return err == nil && sum == last.sum
}

func (s *Store) pastCovers(name string, changed time.Time, last entry) bool {
	sealed := s.sealed(name)
	return slices.ContainsFunc(s.past, func(w window) bool {
		return w.reaches(name, sealed) && w.covers(changed) && (last.seq < w.seq || last.foreign)
	})
}

func (s *Store) sealed(name string) bool {
	return slices.ContainsFunc(s.o.Sealed, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
}

// reaches reports whether what a window stands for may be in a file.
func (w *window) reaches(name string, sealed bool) bool {
	return w.lost || !sealed && w.sees(name)
}

func (w *window) covers(changed time.Time) bool {
	return !changed.Before(w.start) && (w.end.IsZero() || !changed.After(w.end))
}

// ForeignSum reports whether a content, of which this is the SHA-256, was seen in a
// marked file, wherever it lies now.
func (s *Store) ForeignSum(sum [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follow() != nil {
		return true
	}
	return !s.trusts.has(sum) && slices.ContainsFunc(s.records(), func(r *Store) bool { return r.sums[sum] })
}

// Example returns a file from outside that a command could read which sees dir, an
// absolute path of the workspace or of a folder in it; "" if there is none.
func (s *Store) Example(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil {
		return "a file (the record cannot be read)"
	}
	return s.example(s.name(dir), "")
}

// example is Example for a command that sees a folder, by the name of the
// folder. The command's own window does not count.
func (s *Store) example(dir, own string) string {
	for id := range s.windows {
		if id != own && s.counts(id) {
			return "what another command is writing"
		}
	}

	if s.unwalked {
		return "what a command wrote in this large workspace"
	}

	var gone []string
	for name, e := range s.entries {
		if !e.foreign || !s.lookup(name).foreign || !s.visible(name, dir, e.dir) {
			continue
		}
		_, err := changeTime(s.path(name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) || len(gone) >= maxExamples {
			return name
		}
		gone = append(gone, name)
	}

	// What is not under its name any more may lie under another one.
	example := s.search(dir)
	if example != tooLarge {
		for _, name := range gone {
			_ = s.append(line{Op: opForget, Path: name}) // only saves the next look
			delete(s.entries, name)
		}
	}
	return example
}

// path returns where a recorded name is.
func (s *Store) path(name string) string {
	path := filepath.FromSlash(name)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.realRoot(), path)
}

// visible reports whether a marked path can be read from a folder.
func (s *Store) visible(name, dir string, prefix bool) bool {
	return dir == "." || name == dir || filepath.IsAbs(filepath.FromSlash(name)) ||
		strings.HasPrefix(name, dir+"/") || prefix && strings.HasPrefix(dir, name+"/")
}

// Expect records files as from outside that are about to be written. What they
// hold now is not known as from outside by that.
func (s *Store) Expect(paths ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []line
	for _, path := range paths {
		lines = append(lines, line{Op: opMark, Path: s.name(path)})
	}
	return s.append(lines...)
}

// Mark records files as from outside, with the content they have now.
func (s *Store) Mark(paths ...string) error {
	return s.record(opMark, paths)
}

// Trust records files as the owner's, with the content they have now. A folder
// is trusted with everything in it.
func (s *Store) Trust(paths ...string) error {
	return s.record(opTrust, paths)
}

// Wrote records a file that the program itself wrote in a turn without outside
// content. It costs nothing as long as no record about the file exists.
func (s *Store) Wrote(abs string) error {
	s.mu.Lock()
	err := s.follow()
	last := s.lookup(s.name(abs))
	needed := err == nil && (len(s.windows) > 0 || last.foreign || s.isKnown(abs, last))
	s.justWrote(abs)
	s.mu.Unlock()
	if err != nil || !needed {
		return err
	}
	return s.record(opTrust, []string{abs})
}

// justWrote remembers a file that the program has just written; see justNow.
func (s *Store) justWrote(abs string) {
	now := s.o.Now()
	s.recent = slices.DeleteFunc(s.recent, func(w written) bool { return now.Sub(w.at) > justNow })
	s.recent = append(s.recent, written{abs, now})
}

func (s *Store) record(op string, paths []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return err
	}

	for _, path := range paths {
		l := line{Op: op, Path: s.name(path)}
		k, err := identify(path)
		switch {
		case err == nil:
			l.describe(k)
		case errors.Is(err, errFolder):
			l.Dir = true
			l.Number, l.Born = k.inode.number, k.inode.born
			if err := s.append(s.held(op, path)...); err != nil {
				return err
			}
		}

		if op == opMark && !l.Dir && !k.changed.IsZero() {
			l.At = k.changed.UnixNano() // by which it is known when the folder around it is moved
		}

		if err := s.append(l); err != nil {
			return err
		}
	}

	return nil
}

// List returns what is marked, sorted; folders end with a slash.
func (s *Store) List() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return nil, err
	}

	var out []string
	for name, e := range s.entries {
		switch {
		case !e.foreign || !s.lookup(name).foreign:
		case e.dir:
			out = append(out, name+"/")
		default:
			out = append(out, name)
		}
	}

	slices.Sort(out)
	return out, nil
}

var errFolder = errors.New("a folder")

// sumOf returns the hash of a regular file; zero for one that is too large to be
// told by its content.
func sumOf(path string) (sum [32]byte, size int64, err error) {
	tree, err := diskio.OpenTree(filepath.Dir(path))
	if err != nil {
		return sum, 0, err
	}

	defer tree.Close() //nolint:errcheck // read only
	info, err := tree.Lstat(filepath.Base(path))
	switch {
	case err != nil:
		return sum, 0, err
	case info.IsDir():
		return sum, 0, errFolder
	case !info.Mode().IsRegular() || info.Size() > maxSum:
		return sum, info.Size(), nil
	}

	f, err := tree.Open(filepath.Base(path))
	if err != nil {
		return sum, 0, err
	}

	defer f.Close() //nolint:errcheck // read only
	h := sha256.New()
	if size, err = io.Copy(h, io.LimitReader(f, maxSum)); err != nil {
		return sum, 0, fmt.Errorf("read %s: %w", path, err)
	}
	return [32]byte(h.Sum(nil)), size, nil
}
