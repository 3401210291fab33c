package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// work is the opened work tree. Links in it lead nowhere.
type work struct {
	root  *diskio.Tree // only read through
	files Writer
	log   *slog.Logger
}

func (s *Store) openWork() (*work, error) {
	root, err := diskio.OpenTree(s.o.WorkTree)
	if err != nil {
		return nil, fmt.Errorf("open the work tree: %w", err)
	}
	return &work{root: root, files: s.o.Writer, log: s.o.Log}, nil
}

func (w *work) close() { _ = w.root.Close() } // nothing is written through it

const (
	maxFile  = 1 << 20 // bytes of a tracked file
	maxNames = 20_000  // names looked at for one pattern, or in one tree
)

// errUntrackable says that something lies at a path that is not versioned: a
// folder, a device, a link that leads away, a file that is too large.
var errUntrackable = errors.New("not an ordinary file of at most 1 MiB inside the work tree")

// read returns a file and whether it is there.
func (w *work) read(name string) (data []byte, there bool, err error) {
	data, err = w.root.ReadFile(name, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case errors.Is(err, diskio.ErrLink):
		return nil, false, err // its words say what to do
	case errors.Is(err, diskio.ErrNotRegular), errors.Is(err, diskio.ErrTooLarge):
		return nil, false, errUntrackable
	}

	return data, err == nil, err
}

// write replaces a file. A link at its place is replaced, not followed.
func (w *work) write(name string, data []byte, from ...[]byte) error {
	info, err := w.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		if err := w.files.Remove(name); err != nil {
			return err
		}
	}
	return w.files.Write(name, data, from...)
}

// remove deletes a file and the folders it leaves empty, except those on top.
func (w *work) remove(name string) error {
	if err := w.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := parentDir(name); strings.Contains(dir, "/"); dir = parentDir(dir) {
		if w.files.Remove(dir) != nil {
			return nil //nolint:nilerr // a folder that stays has other files in it
		}
	}
	return nil
}

// names lists the tracked files that are there or have a fixed name.
func (w *work) names(ctx context.Context, ps []pattern) ([]string, error) {
	found := map[string]bool{}
	for _, p := range ps {
		if !p.wild() {
			found[strings.Join(p, "/")] = true
			continue
		}

		start, seen := path.Join(p.fixed()...), 0
		err := fs.WalkDir(w.root.FS(), start, func(name string, d fs.DirEntry, err error) error {
			if seen++; seen > maxNames {
				w.log.WarnContext(ctx, "too many files to track all", "folder", start)
				return fs.SkipAll
			}

			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && name == start:
				return fs.SkipAll // not there, or nothing that can be listed
			case err != nil:
				return nil //nolint:nilerr // what cannot be listed is not tracked
			case d.IsDir() && name != start && (d.Name()[0] == '.' || !leads([]pattern{p}, name)):
				return fs.SkipDir
			case !d.IsDir() && tracks([]pattern{p}, name):
				found[name] = true
			}

			return nil
		})
		if err != nil {
			return nil, err
		}
	}

	return slices.Sorted(maps.Keys(found)), nil
}

// filesOf are tracked files and their content.
type filesOf map[string][]byte

// snapshot reads the tracked files. What cannot be tracked now counts as
// unchanged and is returned by name.
func (w *work) snapshot(ctx context.Context, ps []pattern) (files filesOf, odd map[string]bool, err error) {
	names, err := w.names(ctx, ps)
	if err != nil {
		return nil, nil, err
	}

	files, odd = filesOf{}, map[string]bool{}
	for _, name := range names {
		data, there, err := w.read(name)
		switch {
		case err != nil:
			w.log.WarnContext(ctx, "a file is not versioned", "file", name, "err", err)
			odd[name] = true
		case there:
			files[name] = data
		}
	}

	return files, odd, nil
}

// tracked lists the tracked files of a tree.
func (r *repo) tracked(tree hash, ps []pattern) (map[string]entry, error) {
	out := map[string]entry{}
	return out, r.walk(tree, func(name string, e entry) bool {
		if e.dir() {
			return leads(ps, name)
		}
		if (e.mode == modeFile || e.mode == modeExec) && tracks(ps, name) {
			out[name] = e
		}
		return false
	})
}

// walk calls fn with every name of a tree; fn says whether to go into a folder.
// Folders may share one tree, so that few objects make more names than can be
// looked at: too many are an error.
func (r *repo) walk(tree hash, fn func(name string, e entry) bool) error {
	seen := 0
	var below func(tree hash, prefix string) error
	below = func(tree hash, prefix string) error {
		entries, err := r.tree(tree)
		if err != nil {
			return err
		}
		if seen += len(entries); seen > maxNames || strings.Count(prefix, "/") > 64 {
			return fmt.Errorf("more than %d names, or folders that are too deep: %w", maxNames, errCorrupt)
		}

		for _, e := range entries {
			if fn(prefix+e.name, e) && e.dir() {
				if err := below(e.id, prefix+e.name+"/"); err != nil {
					return err
				}
			}
		}

		return nil
	}
	return below(tree, "")
}

// content reads one of the files tracked found.
func (r *repo) content(files map[string]entry, name string) ([]byte, error) {
	e, ok := files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	_, data, err := r.object(e.id, blobKind)
	return data, err
}

// contents reads all tracked files of a tree.
func (r *repo) contents(tree hash, ps []pattern) (filesOf, error) {
	entries, err := r.tracked(tree, ps)
	if err != nil {
		return nil, err
	}

	out := filesOf{}
	for name := range entries {
		if out[name], err = r.content(entries, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// change puts new objects into a tree; a nil one takes the name away. Other
// names stay, so that what others committed here is kept.
func (r *repo) change(tree hash, changes map[string]*entry) (hash, error) {
	entries, err := r.tree(tree)
	if err != nil {
		return hash{}, err
	}

	below := map[string]map[string]*entry{}
	set := func(name string, e *entry) {
		entries = slices.DeleteFunc(entries, func(o entry) bool { return o.name == name })
		if e != nil {
			entries = append(entries, entry{name, e.mode, e.id})
		}
	}
	for name, e := range changes {
		dir, rest, deep := strings.Cut(name, "/")
		if !deep {
			set(name, e)
			continue
		}

		if below[dir] == nil {
			below[dir] = map[string]*entry{}
		}
		below[dir][rest] = e
	}

	for dir, inner := range below {
		var old hash
		if i := slices.IndexFunc(entries, func(e entry) bool { return e.name == dir && e.dir() }); i >= 0 {
			old = entries[i].id
		}

		id, err := r.change(old, inner)
		if err != nil {
			return hash{}, err
		}

		if id.zero() {
			set(dir, nil)
		} else {
			set(dir, &entry{mode: modeDir, id: id})
		}
	}

	if len(entries) == 0 {
		return hash{}, nil
	}
	return r.storeTree(entries)
}
