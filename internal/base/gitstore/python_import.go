package gitstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Bounds of an import: whoever wrote the repository may have wanted to hold up
// the program that reads it.
const (
	importTime = 10 * time.Second
	importWalk = 20_000   // commits that are looked at to find the first one
	importSize = 64 << 20 // bytes of what is taken, compressed
)

// gitFolder is where programs before this one kept the repository.
const gitFolder = ".git"

// Imported says what Import took.
type Imported struct {
	Versions int
	IDs      map[string]string // new ids of commits by their old ones
}

// SourceError says why a repository that looks like ours was not imported.
type SourceError struct {
	Dir string
	Err error
}

// Error implements error.
func (e *SourceError) Error() string { return e.Dir + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

var errForeign = errors.New("it came from outside")

// Import begins the history with the versions that a program before this one
// kept in the .git folder of the work tree. Of those it reads the newest, and of
// each only the tracked files, the time, the author and the message, to make
// commits of its own from them. No setting is read, nothing is run, and nothing
// is written there.
//
// A history that has begun stays as it is. A repository that was not made by
// this program or its predecessor is left alone. One that was made by them, but
// cannot be read or is foreign, is a *SourceError. foreign reports whether a file
// came from outside; it is asked for the files that say which commit is the
// newest, which is the name of everything before it.
func (s *Store) Import(ctx context.Context, foreign func(path string) bool) (out Imported, err error) {
	if log, err := s.Log(ctx, 1); err != nil || len(log) > 0 {
		return out, err
	}

	in := importer{s: s, dir: filepath.Join(s.o.WorkTree, gitFolder), to: &packer{most: s.importSize}, trees: map[hash]hash{}, ids: map[string]string{}}
	timed, cancel := context.WithTimeout(ctx, s.importTime)
	defer cancel()
	ours, err := in.read(timed, foreign)
	switch {
	case err != nil && ours:
		return out, &SourceError{in.dir, err}
	case err != nil:
		s.o.Log.WarnContext(ctx, "the git repository in the workspace cannot be read; if it holds versions of the memory files, they are not imported", "repository", in.dir, "err", err)
		return out, nil
	case in.tip.zero():
		return out, nil
	}

	err = s.locked(ctx, func(r *repo, t *tip) error {
		if !t.id.zero() {
			return nil // another process was faster
		}
		if err := in.to.write(r); err != nil {
			return err
		}
		if err := r.setRef(ctx, t.ref, t.id, in.tip); err != nil {
			return err
		}

		t.id = in.tip
		out = Imported{in.taken, in.ids}
		return s.refreshIndex(r, t)
	})
	return out, err
}

// importer makes commits from those of another repository.
type importer struct {
	s     *Store
	dir   string
	from  *repo
	to    *packer
	trees map[hash]hash // new ones by those they were made from
	tip   hash
	ids   map[string]string
	taken int
}

// read collects the versions. It reports whether the repository is one that is
// imported, as far as that is known.
func (in *importer) read(ctx context.Context, foreign func(path string) bool) (ours bool, err error) {
	w, err := diskio.OpenTree(in.s.o.WorkTree)
	if diskio.IsMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	defer w.Close() //nolint:errcheck // only read
	root, err := w.Sub(gitFolder)
	if diskio.IsMissing(err) || errors.Is(err, diskio.ErrLink) || errors.Is(err, diskio.ErrNotRegular) {
		return false, nil // none, or one that lies elsewhere
	}
	if err != nil {
		return false, err
	}

	defer root.Close() //nolint:errcheck // only read

	in.from = &repo{root: root}
	ref, chain, ours, err := in.chain(ctx)
	if err != nil || !ours {
		return ours, err
	}

	var last hash
	for _, h := range slices.Backward(chain) {
		if err := ctx.Err(); err != nil {
			return true, fmt.Errorf("reading it takes too long: %w", err)
		}
		tree, err := in.commit(h, last)
		if err != nil {
			return true, err
		}
		last = tree
	}

	// Asked last, so that a command that is changing them now is noticed.
	for _, name := range []string{"HEAD", ref, "packed-refs", "shallow"} {
		if _, err := root.Lstat(name); err == nil && foreign(filepath.Join(in.dir, filepath.FromSlash(name))) {
			return true, errForeign
		}
	}
	return true, nil
}

// chain lists the newest commits, newest first, and reports whether they are
// ours: the repository has our mark, or its first commit is signed by us.
func (in *importer) chain(ctx context.Context) (ref string, out []hash, ours bool, err error) {
	if _, err := in.from.root.Lstat("HEAD"); diskio.IsMissing(err) {
		return "", nil, false, nil
	}

	info, err := in.from.root.Lstat(lockName)
	marked := err == nil && info.Mode().IsRegular()
	if err := in.from.readShallow(); err != nil {
		return "", nil, marked, err
	}

	ref, at, err := in.from.head()
	if err != nil || at.zero() {
		return ref, nil, marked, err
	}

	newest, err := in.from.commit(at)
	if err != nil {
		return ref, nil, marked, err
	}
	// A project of the user has none of the files: its commits are not counted.
	if files, err := in.from.tracked(newest.tree, in.s.patterns()); err != nil || len(files) == 0 {
		return ref, nil, marked && err != nil, err
	}

	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return ref, nil, marked, err
		}

		c, err := in.from.commit(at)
		if err != nil {
			return ref, nil, marked, err
		}

		full := len(out) == in.s.o.MaxCommits
		if !full {
			out = append(out, at)
		}

		switch {
		case len(c.parents) == 0:
			return ref, out, marked || c.Email == in.s.o.Email, nil
		case full && marked, n == importWalk:
			return ref, out, marked, nil
		}

		at = c.parents[0]
	}
}

// commit takes a version, unless it changed nothing since the last one, and
// returns its tree.
func (in *importer) commit(h, last hash) (hash, error) {
	c, err := in.from.commit(h)
	if err != nil {
		return hash{}, err
	}

	tree, err := in.tree(c.tree)
	if err != nil {
		return hash{}, err
	}

	if tree != last {
		c.tree, c.parents = tree, nil
		if !in.tip.zero() {
			c.parents = []hash{in.tip}
		}
		if in.tip, err = (&repo{into: in.to}).storeCommit(c); err != nil {
			return hash{}, err
		}
		in.taken++
	}

	in.ids[h.String()] = in.tip.String()
	return tree, nil
}

// tree takes the tracked files of a tree. One that is too large now is left out.
func (in *importer) tree(old hash) (id hash, err error) {
	if id, ok := in.trees[old]; ok {
		return id, nil
	}

	files, err := in.from.tracked(old, in.s.patterns())
	if err != nil {
		return id, err
	}

	to, changes := &repo{into: in.to}, map[string]*entry{}
	for name, e := range files {
		if !in.to.held[e.id] {
			_, data, err := in.from.object(e.id, blobKind)
			if err != nil {
				return id, err
			}
			if len(data) > maxFile {
				continue
			}
			if _, err := in.to.add(blobKind, data); err != nil {
				return id, err
			}
		}
		changes[name] = &entry{mode: modeFile, id: e.id}
	}

	if id, err = to.change(hash{}, changes); err == nil && id.zero() {
		id, err = to.storeTree(nil)
	}

	in.trees[old] = id
	return id, err
}
