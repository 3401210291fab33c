// Package gitstore keeps the history of a handful of text files in a real git
// repository outside of their folder. It hides the repository's format and how
// several processes and a crash at any moment leave it whole; what it writes can
// be read and changed with git itself. It does not need a git program, runs no
// hooks and follows no link out of the repository or the work tree.
//
// Only the tracked files are ever looked at or written. A repository in the work
// tree is read once, by Import, and never written.
package gitstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"
)

// Options describe a store.
type Options struct {
	// WorkTree is the folder of the files, as an absolute path.
	WorkTree string
	// Writer writes files of the work tree.
	Writer Writer
	// Dir is the repository. It lies where nothing but this program writes.
	Dir string
	// Files are the tracked files: slash-separated paths below the work tree, in
	// which * and ? stand for parts of a name and ** for any number of folders.
	Files []string
	// Name and Email sign commits. Import takes a repository whose first commit
	// has this address.
	Name, Email string
	// First is the subject of the first commit.
	First string
	// MaxCommits is how many commits are kept, 500 if zero. When there are more,
	// the oldest fifth is dropped.
	MaxCommits int

	Now func() time.Time // time.Now if nil
	Log *slog.Logger     // names files that cannot be tracked; nil is silent
}

// Writer writes files of the work tree, and records where their contents come from.
// Names are relative to it, with slashes. It follows no links.
type Writer interface {
	// Keeping is called with the content of a file before a version of it is saved.
	Keeping(name string, data []byte) error
	// Write replaces a file or makes it, with its folder. from are contents that
	// parts of data were taken from, besides what the file holds until now. An
	// existing file keeps its permissions; a crash leaves the old or the new content.
	Write(name string, data []byte, from ...[]byte) error
	// Remove deletes a file, a link or an empty folder.
	Remove(name string) error
}

// Store is a history of files. It is safe for concurrent use, also by several
// processes.
type Store struct {
	o    Options
	turn chan struct{} // holds a token while no operation runs

	// Tests end an operation here, and have lower limits of what is imported.
	broken     func(step string) error
	importTime time.Duration
	importSize int
}

// Errors of looking for a commit.
var (
	ErrNoCommit  = errors.New("there is no such commit")
	ErrAmbiguous = errors.New("several commits begin like this")
	ErrFirst     = errors.New("nothing is kept from before this commit")
	errBusy      = errors.New("another program is working on the memory repository")
	errCorrupt   = errors.New("damaged git object")
	errNoRepo    = errors.New("there is no repository yet")
)

// Open prepares a store. It does no I/O: the repository is found when it is
// needed and made by the first commit.
func Open(o Options) (*Store, error) {
	if o.WorkTree == "" || o.Writer == nil || o.Dir == "" || o.Email == "" || len(o.Files) == 0 {
		return nil, errors.New("gitstore: WorkTree, Writer, Dir, Email and Files are needed")
	}

	for _, f := range o.Files {
		if path.Clean(f) != f || path.IsAbs(f) || strings.HasPrefix(f, "..") {
			return nil, fmt.Errorf("gitstore: %q is not a path below the work tree", f)
		}
	}

	o.Files = slices.Clone(o.Files)
	if o.Name == "" {
		o.Name, _, _ = strings.Cut(o.Email, "@")
	}
	if o.First == "" {
		o.First = "init: file history"
	}
	if o.MaxCommits <= 0 {
		o.MaxCommits = 500
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	s := &Store{
		o:          o,
		turn:       make(chan struct{}, 1),
		broken:     func(string) error { return nil },
		importTime: importTime,
		importSize: importSize,
	}

	s.turn <- struct{}{}
	return s, nil
}

// Commit is a state of the files and how it came about.
type Commit struct {
	ID     string    `json:"id"` // 40 hexadecimal digits
	Parent string    `json:"parent,omitempty"`
	Time   time.Time `json:"time"`
	Author string    `json:"author"`
	Email  string    `json:"email"`
	// Subject is the first line of the message, Body the rest.
	Subject string `json:"subject"`
	Body    string `json:"body,omitempty"`

	tree    hash
	parents []hash
	written bool // its files are written after it
}

// Short returns the form of a commit's id that people see.
func Short(id string) string {
	if len(id) > 8 {
		return id[:8]
	}
	return id
}

// Commit records the tracked files as they are now. It reports false, and the
// newest commit, when nothing changed since then.
func (s *Store) Commit(ctx context.Context, subject, body string) (id string, changed bool, err error) {
	err = s.write(ctx, func(r *repo, t *tip) error {
		changed = t.made
		if !changed {
			changed, err = s.record(ctx, r, t, subject, body)
		}
		id = t.id.String()
		return err
	})
	return id, changed, err
}

// Log returns the newest n commits, newest first; all if n is not positive.
func (s *Store) Log(ctx context.Context, n int) (out []Commit, err error) {
	err = s.read(ctx, func(r *repo, t *tip) error {
		out, err = r.history(ctx, t.id, n)
		return err
	})
	if errors.Is(err, errNoRepo) {
		return nil, nil
	}
	return out, err
}

// Find returns the commit whose id begins with prefix; an empty prefix or HEAD
// is the newest.
func (s *Store) Find(ctx context.Context, prefix string) (c Commit, err error) {
	err = s.read(ctx, func(r *repo, t *tip) error {
		c, err = r.find(ctx, t, prefix)
		return err
	})
	return c, noRepo(err)
}

// noRepo turns the lack of a repository into what a caller knows.
func noRepo(err error) error {
	if errors.Is(err, errNoRepo) {
		return ErrNoCommit
	}
	return err
}

// Path returns the folder of the repository, which the first commit makes.
func (s *Store) Path() string { return s.o.Dir }
