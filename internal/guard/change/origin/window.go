package origin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

const (
	// maxWalk bounds the entries that are looked at when a command has ended.
	// In a larger workspace its window stays in the record instead, and files
	// are compared with it when they are read.
	maxWalk = 20_000

	// maxDepth bounds the folders inside each other.
	maxDepth = 128
)

// Running is a command that starts.
type Running struct {
	// Unsealed says that nothing keeps it from writing to sealed folders.
	Unsealed bool
	// Outside reports whether it may have brought in content from outside so
	// far. Other processes cannot ask: they know what was recorded with Taint or
	// by a question in this process. After a crash it is assumed. nil means that
	// it may. It must not call the Store.
	Outside func() bool
	// Dir is the folder that it sees and writes to, absolute; "" is the root.
	Dir string
	// Flipped is called once when something from outside becomes readable for it
	// that was not when it began. It must not call the Store. May be nil.
	Flipped func()
}

// Begin records that a command starts that may bring content from outside.
// While it has, every file that changes counts as marked, until the window is
// ended. Ask for an Example after Begin, not before: what is added later is
// found by Window.Outside.
func (s *Store) Begin(r Running) (*Window, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return nil, err
	}

	now := s.o.Now()
	dir := "."
	if r.Dir != "" {
		dir = s.name(r.Dir)
	}

	lines := []line{{Op: opOpen, ID: newID(), At: now.Add(-slack).UnixNano(), PID: os.Getpid(), Unsealed: r.Unsealed, Path: dir, Clean: r.Outside != nil && !r.Outside()}}
	for _, own := range s.recent {
		if sum, size, err := sumOf(own.path); err == nil && now.Sub(own.at) <= justNow && !s.foreign(own.path) {
			lines = append(lines, line{Op: opTrust, Path: s.name(own.path), Sum: sum[:], Size: size})
		}
	}

	if err := s.append(lines...); err != nil {
		return nil, err
	}

	// The record was written before the command starts, so nothing that the
	// command changes can look older than it. That holds for a record on this
	// machine's disk: its time comes from the clock that dates the files.
	if open, at := s.windows[lines[0].ID], s.read.Changed; open != nil && at.After(open.start) && !at.After(s.o.Now()) {
		open.start = at
	}
	if r.Outside != nil {
		s.live[lines[0].ID] = r.Outside
	}

	s.readers[lines[0].ID] = &reader{dir: dir, changed: r.Flipped}
	return &Window{s: s, open: lines[0], alone: s.running() == 1, arrived: s.arrived}, nil
}

// running counts the commands of all processes that have not ended.
func (s *Store) running() int {
	n := 0
	for _, w := range s.windows {
		if w.end.IsZero() {
			n++
		}
	}
	return n
}

// Window is a command between its start and its end.
type Window struct {
	s       *Store
	open    line   // with which it began
	alone   bool   // when it began
	arrived uint64 // then
}

// Alone reports whether nothing but the command can have brought anything from
// outside since it began: no other command of any process ran, and nothing was
// marked. It is asked before the window is ended.
func (w *Window) Alone() bool {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil || s.windows[w.open.ID] == nil {
		return false
	}
	return w.alone && s.arrived == w.arrived
}

// Clean ends a window whose command turned out to have brought nothing. The
// named files, relative to the workspace, are marked all the same if it changed
// them: no command may write what the agent follows.
func (w *Window) Clean(followed ...string) error {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.live, w.open.ID)
	var lines []line
	if open := s.windows[w.open.ID]; open != nil {
		open.outside = true // for what it changed here, it counts
		for _, name := range followed {
			abs := filepath.Join(s.realRoot(), filepath.FromSlash(name))
			changed, err := changeTime(abs)
			if err == nil && open.covers(changed) && s.inWindow(abs, name, s.lookup(name)) {
				lines = append(lines, line{Op: opMark, Path: name})
			}
		}
	}

	return s.append(append(lines, line{Op: opDrop, ID: w.open.ID})...)
}

// Foreign ends a window and marks what changed in it.
func (w *Window) Foreign(ctx context.Context) error {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.live, w.open.ID)
	if err := s.follow(); err != nil {
		return err
	}

	lines := []line{{Op: opClose, ID: w.open.ID, At: s.o.Now().UnixNano()}}
	if s.windows[w.open.ID] == nil { // the line was damaged
		lines = append([]line{w.open}, lines...)
	}

	if err := s.append(lines...); err != nil {
		return err
	}
	return s.markWindow(ctx, w.open.ID)
}

// MarkEnded marks what ended commands of earlier processes left behind.
func (s *Store) MarkEnded(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return err
	}

	var err error
	for id, w := range s.windows {
		if !w.end.IsZero() {
			err = errors.Join(err, s.markWindow(ctx, id))
		}
	}
	return err
}

// markWindow turns a window that has ended into marks.
func (s *Store) markWindow(ctx context.Context, id string) error {
	w := s.windows[id]
	if w == nil {
		return nil
	}

	walk := &walk{ctx: ctx, s: s, window: *w, left: maxWalk}
	tree, err := diskio.OpenTree(s.realRoot())
	if errors.Is(err, fs.ErrNotExist) {
		return s.append(line{Op: opWindowMarked, ID: id})
	}
	if err != nil {
		return err
	}

	defer tree.Close() //nolint:errcheck // read only
	walk.tree = tree

	if _, err := walk.folder(".", 0); err != nil {
		if errors.Is(err, errTooMany) {
			s.o.Log.DebugContext(ctx, "the workspace is too large to mark what a command wrote; its time is kept instead")
			return s.append(line{Op: opWindowMarked, ID: id, Dir: true})
		}
		return err
	}

	lines := walk.lines
	for _, root := range s.o.Roots {
		if changed, err := changeTime(root); err == nil && !changed.IsZero() && !s.lookup(s.name(root)).foreign {
			lines = append(lines, line{Op: opMark, Path: s.name(root), Dir: true})
		}
	}
	return s.append(append(lines, line{Op: opWindowMarked, ID: id})...)
}

var errTooMany = errors.New("too many files")

// walk looks for what changed in a window.
type walk struct {
	ctx    context.Context //nolint:containedctx // of one call
	s      *Store
	tree   *diskio.Tree
	window window
	left   int
	lines  []line
}

// folder marks what changed below a folder and reports whether that is
// everything in it, so that one mark can stand for all.
func (w *walk) folder(name string, depth int) (all bool, err error) {
	if w.ctx.Err() != nil {
		return false, w.ctx.Err()
	}
	if depth > maxDepth {
		return false, errTooMany
	}

	entries, err := w.tree.ReadDir(name)
	if err != nil {
		return false, nil //nolint:nilerr // it is gone, or commands cannot read it either
	}

	if len(entries) == 0 {
		return true, nil // nothing in it speaks against a mark of the folder around it
	}

	first := len(w.lines)
	all = true
	for _, e := range entries {
		if w.left--; w.left < 0 {
			return false, errTooMany
		}

		child := path.Join(name, e.Name())
		if w.s.sealed(child) && !w.window.unsealed {
			all = false
			continue
		}

		if e.IsDir() {
			whole, err := w.folder(child, depth+1)
			if err != nil {
				return false, err
			}
			all = all && whole
			continue
		}

		switch w.inspect(child, e) {
		case unchanged:
			all = false
		case changed:
			if !w.mark(child) {
				all = false
			}
		case alreadyMarked:
		}
	}

	if all && name != "." && len(w.lines) > first {
		w.collapse(name, first)
	}
	return all, nil
}

// collapse puts one mark of a folder in place of those of everything in it. What
// the files are is recorded without their names.
func (w *walk) collapse(name string, first int) {
	var packed []byte
	for i := range w.lines[first:] {
		switch l := &w.lines[first+i]; l.Op {
		case opKnown:
			packed = append(packed, l.Held...)
		case opMark:
			packed = l.identity().pack(packed)
		}
	}

	mark := line{Op: opMark, Path: name, Dir: true}
	if k, err := identify(w.s.path(name)); errors.Is(err, errFolder) {
		mark.Number, mark.Born = k.inode.number, k.inode.born
	}
	w.lines = append(append(w.lines[:first], packedLines(opMark, packed)...), mark)
}

// outcome says what a walk finds out about a file.
type outcome int

const (
	unchanged     outcome = iota // by this command and by those before it
	changed                      // what it holds may be this command's
	alreadyMarked                // by an earlier command, and it is in the record
)

// inspect finds out whether this command changed a file or moved it with its
// folder, or whether an earlier one did. It uses what the listing knows: another
// look at each of thousands of files would cost twice the rest of the walk.
func (w *walk) inspect(name string, e fs.DirEntry) outcome {
	info, err := e.Info()
	if err != nil {
		return unchanged // it is gone
	}

	at := changeTimeOf(info)
	last := w.s.lookup(name)
	switch {
	case w.window.covers(at) && w.window.sees(name):
		return changed
	case !w.s.pastCovers(name, at, last):
		return unchanged
	case last.foreign && !w.s.unwalked: // every change until now was looked at
		return alreadyMarked
	}

	return changed // by an earlier command; the record may lack it
}

// mark notes a file; false if the program itself wrote it meanwhile.
func (w *walk) mark(name string) bool {
	l := line{Op: opMark, Path: name}
	k, err := identify(w.s.path(name))
	if err == nil {
		last := w.s.lookup(name)
		if last.seq > 0 && !last.foreign && k.sum != ([32]byte{}) && last.sum == k.sum {
			return false
		}
		l.describe(k)
	}

	w.lines = append(w.lines, l)
	return true
}

// Changed returns when the inode of a path last changed, which no program can
// set; zero if nothing is there.
func Changed(path string) time.Time {
	at, err := changeTime(path)
	if err != nil {
		return time.Time{}
	}
	return at
}

func changeTime(path string) (time.Time, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}, err
	}
	return changeTimeOf(info), nil
}
