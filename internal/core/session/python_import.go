package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// kindSessions is the kind of conversations in Entry.Imported.
const kindSessions = "sessions"

const (
	dirConflicts = ".migration-conflicts"
	dirOld       = "sessions" // where the first version kept them, below the workspace

	maxOldFiles = 100_000
	maxOldBytes = 1 << 30 // of one log
	oldKeyReach = 1 << 20 // where the key of a log is looked for
	copiers     = 8       // logs that are made durable at once
)

// Imported says what was imported from older versions.
type Imported struct {
	Sessions int
	Left     []string // files that were not taken, and why
}

// oldLog is a log that an older version, or another program or person, left in
// a folder.
type oldLog struct {
	tree *diskio.Tree
	name string // in the tree
	key  string
	size int64
}

func (o oldLog) String() string { return filepath.Join(o.tree.Path(), filepath.FromSlash(o.name)) }

// importOld moves the logs of older versions into the store. A source is removed
// once its copy is durable and proved equal; what is not a regular file stays
// where it is.
func (st *Store) importOld() error {
	logs, left, done, err := st.oldLogs()
	defer done()
	st.imported.Left = left
	if err != nil {
		return err
	}

	moves, err := st.planImport(logs)
	if err != nil || len(moves) == 0 {
		return err
	}
	if err := diskio.MkdirAll(st.dir, 0o700); err != nil {
		return err
	}

	var mu sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, copiers)
	for _, m := range moves {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			err := m.from.moveTo(m.to)
			mu.Lock()
			defer mu.Unlock()

			if err != nil {
				st.skip(m.from, err)
				return
			}

			st.imported.Sessions++
			st.opt.Log.Info("took over a session", "session", m.from.key, "from", m.from.String(), "to", m.to)
		})
	}

	work.Wait()
	return nil
}

// move is where a log of an older version goes.
type move struct {
	from oldLog
	to   string
}

// planImport gives each log a place in the store: the first one of a key its own,
// further ones a place among the conflicts. A key that the store has keeps what
// it has; nanobot migrate shows what the old log has more.
func (st *Store) planImport(logs []oldLog) ([]move, error) {
	var moves []move
	planned := map[string]bool{}
	for _, l := range logs {
		target, free, err := st.placeFor(l.key)
		if err != nil {
			st.skip(l, err)
			continue
		}

		if planned[target] {
			if target, err = conflictName(target, planned); err != nil {
				return nil, err
			}
		} else if !free {
			continue
		}

		planned[target] = true
		moves = append(moves, move{from: l, to: target})
	}

	return moves, nil
}

// skip records a log that was not imported.
func (st *Store) skip(l oldLog, err error) {
	st.imported.Left = append(st.imported.Left, l.String()+": "+err.Error())
	st.opt.Log.Warn("did not take over a session", "file", l.String(), "err", err)
}

// oldLogs finds the logs in the places of older versions, best place first. The
// caller calls done after it used them.
func (st *Store) oldLogs() (logs []oldLog, left []string, done func(), err error) {
	var trees []*diskio.Tree
	done = func() {
		for _, t := range trees {
			_ = t.Close() // only read from
		}
	}

	type place struct{ dir, sub string }
	places := []place{{st.opt.Workspace, dirOld}}
	if !st.opt.Secondary {
		places = append(places, place{filepath.Join(st.opt.DataDir, dirRoot), "."})
	}

	for _, dir := range st.opt.ImportDirs {
		places = append(places, place{dir, "."})
	}

	for _, p := range places {
		tree, err := diskio.OpenTree(p.dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, left, done, err
		}

		trees = append(trees, tree)
		entries, err := tree.ReadDir(p.sub)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			left = append(left, err.Error())
			continue
		}

		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), suffixLog) || e.Name() == suffixLog {
				continue
			}

			l := oldLog{tree: tree, name: path.Join(p.sub, e.Name())}
			if st.opt.Foreign != nil && st.opt.Foreign(l.String()) {
				left = append(left, l.String()+": it came from outside")
				continue
			}

			l, err := l.inspect()
			if err != nil {
				left = append(left, l.String()+": "+err.Error())
				continue
			}
			if logs = append(logs, l); len(logs) > maxOldFiles {
				return nil, left, done, fmt.Errorf("more than %d sessions in %s", maxOldFiles, tree.Path())
			}
		}
	}

	return logs, left, done, nil
}

// inspect finds out whose log it is: the key stored inside decides, because old
// names are lossy; without one the name must suggest the key.
func (o oldLog) inspect() (oldLog, error) {
	f, err := o.tree.Open(o.name)
	if err != nil {
		return o, err
	}

	defer f.Close() //nolint:errcheck // only read from
	info, err := f.Stat()
	if err != nil {
		return o, err
	}
	if o.size = info.Size(); o.size > maxOldBytes {
		return o, fmt.Errorf("it has %d bytes, at most %d are taken", o.size, int64(maxOldBytes))
	}

	o.key, err = keyIn(io.NewSectionReader(f, 0, oldKeyReach))
	if o.key == "" {
		o.key = suggestedKey(o.name)
	}
	return o, err
}

// placeFor returns the path of a key's log, and whether nothing is there yet.
func (st *Store) placeFor(key string) (target string, free bool, err error) {
	name, err := fileName(key)
	if err != nil {
		return "", false, err
	}

	for _, n := range []string{name, hashName(key)} {
		target = filepath.Join(st.dir, n+suffixLog)
		stored, err := storedKey(target)
		if errors.Is(err, fs.ErrNotExist) {
			if _, herr := os.Lstat(filepath.Join(st.dir, hashName(key)+suffixLog)); herr == nil {
				return filepath.Join(st.dir, hashName(key)+suffixLog), false, nil
			}
			return target, true, nil
		}

		if err != nil || stored == key || stored == "" {
			return target, false, err
		}
	}

	return target, false, nil
}

// suggestedKey returns the key that v0.1.5 reads out of a file name.
func suggestedKey(name string) string {
	return strings.Replace(strings.TrimSuffix(filepath.Base(name), suffixLog), "_", ":", 1)
}

// storedKey returns the key a log says it belongs to, "" when it says nothing.
func storedKey(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	key, err := keyIn(f)
	return key, errors.Join(err, f.Close())
}

func keyIn(r io.Reader) (string, error) {
	for line, err := range diskio.Lines(r, 0) {
		if err != nil {
			return "", err
		}
		if !mayBeMetadata(line.Bytes) {
			continue
		}
		if m, kind := parseMetadata(line.Bytes); kind == "metadata" {
			return m.key, nil
		}
	}
	return "", nil
}

func conflictName(path string, claimed map[string]bool) (string, error) {
	dir := filepath.Join(filepath.Dir(path), dirConflicts)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}

	for n := 1; ; n++ {
		name := filepath.Join(dir, filepath.Base(path)+"."+strconv.Itoa(n))
		if claimed[name] {
			continue
		}

		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// moveTo copies a log to target, which does not exist, proves that the durable
// copy is equal, and only then removes the source.
func (o oldLog) moveTo(target string) error {
	f, err := o.tree.Open(o.name)
	if err != nil {
		return err
	}

	defer f.Close() //nolint:errcheck // only read from
	before, err := f.Stat()
	if err != nil {
		return err
	}
	if err := copyVerified(f, before.Size(), target); err != nil {
		return err
	}

	after, err := o.tree.Lstat(o.name)
	if err != nil || !os.SameFile(before, after) || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return errors.Join(errors.New("the file changed while it was copied"), err, os.Remove(target))
	}
	return o.tree.Remove(o.name)
}

// copyVerified writes the first bytes of a log to target and compares.
func copyVerified(f io.ReaderAt, size int64, target string) error {
	// An editor may have stripped the last newline; a whole object without one
	// must not be taken for a torn line.
	end, err := missingNewline(f, size)
	if err != nil {
		return err
	}

	whole := func() io.Reader {
		return io.MultiReader(io.NewSectionReader(f, 0, size), strings.NewReader(end))
	}
	tmp := target + suffixTemp
	if err := writeTemp(tmp, whole()); err != nil {
		return err
	}

	same, err := sameContent(tmp, whole())
	if err != nil || !same {
		return errors.Join(errors.New("the copy is not equal"), err, os.Remove(tmp))
	}
	return diskio.Replace(tmp, target)
}

// missingNewline returns what must be added to make the last line whole:
// nothing, unless the line is a complete object that lacks only its newline.
func missingNewline(f io.ReaderAt, size int64) (string, error) {
	for line, err := range diskio.LinesBackward(f, size) {
		if err != nil {
			return "", err
		}
		if !line.Whole && json.Valid(line.Bytes) && bytes.HasPrefix(bytes.TrimSpace(line.Bytes), []byte{'{'}) {
			return "\n", nil
		}
		break
	}
	return "", nil
}

// sameContent compares a file with what r yields.
func sameContent(path string, r io.Reader) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}

	a, b := sha256.New(), sha256.New()
	_, err = io.Copy(a, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	if _, err := io.Copy(b, r); err != nil {
		return false, err
	}
	return bytes.Equal(a.Sum(nil), b.Sum(nil)), nil
}
