package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// place is where a repository lies.
type place struct {
	dir     string
	private bool // not the .git of the work tree
	exists  bool
}

// lockName is the file in a repository that says that it is ours, keeps our
// processes apart and holds a word while one of them is changing something.
const lockName = "gitstore.lock"

// locate decides which repository to use.
func (s *Store) locate() (place, error) {
	private := place{dir: s.o.Dir, private: true}
	if _, err := os.Lstat(filepath.Join(s.o.Dir, "HEAD")); err == nil {
		private.exists = true
		return private, nil
	}

	w, err := diskio.OpenTree(s.o.WorkTree)
	if err != nil {
		return place{}, fmt.Errorf("look for a repository: %w", err)
	}
	defer w.Close() //nolint:errcheck // only read
	root, err := w.Sub(gitFolder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if insideRepo(s.o.WorkTree) {
			return private, nil
		}
		return place{dir: filepath.Join(s.o.WorkTree, gitFolder)}, nil
	case errors.Is(err, diskio.ErrLink), errors.Is(err, diskio.ErrNotRegular):
		return private, nil // a link, a submodule or a linked work tree
	case err != nil:
		return place{}, fmt.Errorf("look for a repository: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read

	ours, exists := s.ours(root)
	if !ours {
		return private, nil
	}
	return place{dir: filepath.Join(s.o.WorkTree, gitFolder), exists: exists}, nil
}

// gitFolder is the repository of a work tree.
const gitFolder = ".git"

// open opens the repository's folder, which may be made first. No link leads to
// the one in the work tree.
func (s *Store) open(p place, create bool) (*diskio.Tree, error) {
	if p.private {
		if create {
			if err := diskio.MkdirAll(p.dir, 0o700); err != nil {
				return nil, err
			}
		}
		return diskio.OpenTree(p.dir)
	}

	w, err := diskio.OpenTree(s.o.WorkTree)
	if err != nil {
		return nil, err
	}
	defer w.Close() //nolint:errcheck // only a way
	if create {
		if err := w.MkdirAll(gitFolder, 0o700); err != nil {
			return nil, err
		}
	}
	return w.Sub(gitFolder)
}

// insideRepo reports whether a folder above holds a repository.
func insideRepo(dir string) bool {
	for {
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
	}
}

// ours reports whether a repository is one of ours: it bears our mark, nothing
// is in it yet, or its first commit was signed by us, as in the repositories
// of older versions.
func (s *Store) ours(root *diskio.Tree) (ours, exists bool) {
	_, headErr := root.Lstat("HEAD")
	if info, err := root.Lstat(lockName); err == nil && info.Mode().IsRegular() {
		return true, headErr == nil
	}
	if headErr != nil {
		names, err := root.ReadDir(".")
		return err == nil && len(names) == 0, false
	}
	r := &repo{root: root}
	if err := r.readShallow(); err != nil {
		return false, true // what we cannot read is not ours
	}
	_, at, err := r.head()
	for n := 0; err == nil && !at.zero() && n < maxWalk; n++ {
		var c Commit
		if c, err = r.commit(at); err != nil {
			break
		}
		if len(c.parents) == 0 {
			return c.Email == s.o.Email, true
		}
		at = c.parents[0]
	}
	return false, true
}

// maxWalk bounds a walk along commits.
const maxWalk = 100_000

// repo is an opened repository.
type repo struct {
	root    *diskio.Tree
	private bool
	shallow map[hash]bool // commits whose parents are not kept
	packs   []*pack       // read when first needed
	looked  bool          // packs were read
	temps   int
	lock    *os.File // nil while only reading without one
}

// tip is the newest commit.
type tip struct {
	ref  string // the branch, or HEAD when none is checked out
	id   hash
	made bool // just now, as the first
}

// enter waits for this store's turn inside the process.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	select {
	case <-s.turn:
		return func() { s.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read calls fn with the newest commit, or fails with errNoRepo.
func (s *Store) read(ctx context.Context, fn func(*repo, *tip) error) (err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	p, err := s.locate()
	if err != nil {
		return err
	}
	if !p.exists {
		return errNoRepo
	}
	r, err := s.openRepo(ctx, p, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	t, err := r.start()
	if err != nil {
		return err
	}
	if t.id.zero() {
		return errNoRepo
	}
	return fn(r, t)
}

// write calls fn under the lock, after making what is missing and clearing up
// what a crash left behind.
func (s *Store) write(ctx context.Context, fn func(*repo, *tip) error) (err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	p, err := s.locate()
	if err != nil {
		return err
	}
	r, err := s.openRepo(ctx, p, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := s.prepare(r); err != nil {
		return fmt.Errorf("make the repository: %w", err)
	}
	t, err := r.start()
	if err != nil {
		return err
	}
	if err := s.recover(ctx, r, t); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if err := r.mark("working"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.mark("")) }()
	if t.id.zero() {
		if _, err := s.record(ctx, r, t, s.o.First, ""); err != nil {
			return err
		}
		t.made = true
	}
	return fn(r, t)
}

// openRepo opens a repository and takes its lock. A reader that may not write
// there goes without.
func (s *Store) openRepo(ctx context.Context, p place, reading bool) (*repo, error) {
	root, err := s.open(p, !reading)
	if err != nil {
		return nil, fmt.Errorf("open the repository: %w", err)
	}
	r := &repo{root: root, private: p.private}
	r.lock, err = root.OpenFile(lockName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		if reading {
			return r, nil
		}
		return nil, errors.Join(fmt.Errorf("lock the repository: %w", err), root.Close())
	}
	if err := waitLock(ctx, r.lock); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the repository: %w", err), r.lock.Close(), root.Close())
	}
	return r, nil
}

// lockPause is how long to wait between two looks at a lock.
const lockPause = 10 * time.Millisecond

func waitLock(ctx context.Context, f *os.File) error {
	for {
		ok, err := tryLock(f)
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, lockPause); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close gives the lock up; the system does so with the last descriptor.
func (r *repo) close() error {
	err := r.root.Close()
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	return err
}

// start finds the newest commit.
func (r *repo) start() (*tip, error) {
	if err := r.readShallow(); err != nil {
		return nil, err
	}
	t := &tip{}
	var err error
	t.ref, t.id, err = r.head()
	return t, err
}

// mark says in the lock file what is going on; it is empty between operations,
// so that whoever finds a word there knows that its writer died.
func (r *repo) mark(word string) error {
	if word != "" {
		word += "\n"
	}
	if err := r.lock.Truncate(0); err != nil {
		return err
	}
	if _, err := r.lock.WriteAt([]byte(word), 0); err != nil {
		return err
	}
	if strings.Contains(word, " ") { // more than a hint
		return r.lock.Sync()
	}
	return nil
}

// pruneMark with a commit behind it means that it and what it is based on goes.
const pruneMark = "prune "

// recover clears up after a process that died at work. Objects nothing names do
// no harm; what a commit names was on the disk before it.
func (s *Store) recover(ctx context.Context, r *repo, t *tip) error {
	b, err := io.ReadAll(io.LimitReader(io.NewSectionReader(r.lock, 0, 1<<10), 1<<10))
	if err != nil || len(b) == 0 {
		return err
	}
	for _, name := range []string{t.ref + ".lock", "index.lock"} {
		if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	names, err := r.root.ReadDir("objects")
	if err != nil {
		return err
	}
	for _, d := range names {
		if strings.HasPrefix(d.Name(), "tmp_obj_") && strings.Count(d.Name(), "_") == 4 {
			if err := r.root.Remove("objects/" + d.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if t.id.zero() {
		return nil
	}
	what, of, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	h, known := parseHash(of)
	switch what += " "; {
	case !known:
	case what == checkoutMark && h == t.id:
		err = s.finish(ctx, r, t)
	case what == pruneMark:
		err = s.prune(ctx, r, h)
	case what == purgeMark:
		err = s.purge(ctx, r, t, h)
	}
	return errors.Join(err, s.refreshIndex(r, t))
}

// prepare makes the parts of a repository that are missing.
func (s *Store) prepare(r *repo) error {
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := r.mkdir(dir); err != nil {
			return err
		}
	}
	if err := s.ignoreRest(r); err != nil {
		return err
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n\tautocrlf = false\n"
	if r.private {
		config += "\tworktree = " + quoteConfig(s.o.WorkTree) + "\n"
	}
	for _, f := range []struct{ name, body string }{{"config", config}, {"HEAD", "ref: refs/heads/main\n"}} { // HEAD last: it makes it a repository
		if _, err := r.root.Lstat(f.name); err == nil {
			continue
		}
		if err := r.replace(f.name, []byte(f.body)); err != nil {
			return err
		}
	}
	return nil
}

// quoteConfig writes a value as git's configuration wants it.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(filepath.ToSlash(s)) + `"`
}

// mkdir makes a folder of the repository and makes its name durable.
func (r *repo) mkdir(name string) error { return r.root.MkdirAll(name, 0o700) }

// maxPart bounds a file of a repository that is read as a whole, in bytes.
const maxPart = 256 << 20

// parentDir is the folder of a slash-separated path.
func parentDir(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return "."
}
