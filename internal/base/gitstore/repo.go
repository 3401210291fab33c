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

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// lockName is the file in a repository that says that it is ours, keeps our
// processes apart and holds a word while one of them is changing something.
const lockName = "gitstore.lock"

// open opens the repository's folder, which may be made first.
func (s *Store) open(create bool) (*diskio.Tree, error) {
	if create {
		if err := diskio.MkdirAll(s.o.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	return diskio.OpenTree(s.o.Dir)
}

// maxWalk bounds a walk along commits.
const maxWalk = 100_000

// repo is an opened repository.
type repo struct {
	root    *diskio.Tree
	shallow map[hash]bool // commits whose parents are not kept
	packs   []*pack       // read when first needed
	looked  bool          // packs were read
	indexed int64         // bytes of the packs' indexes
	room    int64         // bytes that the object being read may still unpack to
	into    *packer       // takes new objects; nil: they become files
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
	r, err := s.openRepo(ctx, true)
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

// write is locked with a first commit made if there is none.
func (s *Store) write(ctx context.Context, fn func(*repo, *tip) error) error {
	return s.locked(ctx, func(r *repo, t *tip) error {
		if t.id.zero() {
			if _, err := s.record(ctx, r, t, s.o.First, ""); err != nil {
				return err
			}
			t.made = true
		}
		return fn(r, t)
	})
}

// locked calls fn under the lock, after making what is missing and clearing up
// what a crash left behind.
func (s *Store) locked(ctx context.Context, fn func(*repo, *tip) error) (err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}

	defer leave()
	r, err := s.openRepo(ctx, false)
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
	return fn(r, t)
}

// openRepo opens the repository and takes its lock. A reader that may not write
// there goes without; it fails with errNoRepo where there is nothing to read.
func (s *Store) openRepo(ctx context.Context, reading bool) (*repo, error) {
	root, err := s.open(!reading)
	if reading && diskio.IsMissing(err) {
		return nil, errNoRepo
	}
	if err != nil {
		return nil, fmt.Errorf("open the repository: %w", err)
	}
	if _, err := root.Lstat("HEAD"); reading && diskio.IsMissing(err) {
		return nil, errors.Join(errNoRepo, root.Close())
	}

	r := &repo{root: root}
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
		if err := wait.For(ctx, lockPause); err != nil {
			return err
		}
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
		err = s.completeMove(ctx, r, t)
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

	config := "[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n\tautocrlf = false\n\tworktree = " +
		quoteConfig(s.o.WorkTree) + "\n"
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
const maxPart = 16 << 20

// parentDir returns the folder of a slash-separated path.
func parentDir(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return "."
}
