// Package store hides where the state of one bot is: its logs, its documents
// and the locks on parts of it. What is below the data folder goes through a
// Store; the workspace, which people and tools work on, does not.
//
// A log is an append-only sequence of lines. A document is a small file that is
// replaced as a whole. Both are known by names, which are the paths below the
// data folder with forward slashes (sessions/<id>/<name>.jsonl,
// cron/<id>/jobs.json), so that moving between two drivers is a copy by name.
// Names of logs end in .jsonl, names of documents that can be listed in .json.
//
// The driver for this machine's disk is store/disk. storetest.Run and
// storetest.RunKill say what a driver promises.
package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Why a write was refused.
var (
	// ErrChanged says that a document has another version by now.
	ErrChanged = errors.New("the document was changed by another process")
	// ErrMoved says that a log has another length by now.
	ErrMoved = errors.New("the log was changed by another process")
	// ErrExists says that the name of an archive is taken by something else.
	ErrExists = errors.New("the name is already in use")
)

// LockedError says that another holder has a lock.
type LockedError = diskio.LockedError

// Version identifies the content of a document.
type Version string

const (
	// Missing is the version of a document that does not exist.
	Missing Version = ""
	// Any lets Put replace whatever is there.
	Any Version = "*"
)

// Info describes a log or a document.
type Info struct {
	Name    string
	ID      string    // tells a log from one that took its name; "" if it does not exist
	Size    int64     // of a log: its whole lines
	Changed time.Time // when it was last written
}

// Exists reports whether there is a log or document.
func (i Info) Exists() bool { return i.ID != "" }

// Store is the state of one bot. It is safe for concurrent use, and several
// processes may use one place. Constructors do no I/O: missing logs and
// documents are empty, and the first write makes what is needed.
type Store interface { //nolint:interfacebloat // the whole seam between state and storage
	// Log opens a log for reading and appending. The caller closes it.
	Log(ctx context.Context, name string) (Log, error)
	// Logs lists the logs of a folder, in the order of their names.
	Logs(ctx context.Context, dir string) iter.Seq2[Info, error]
	// Archive gives the first n bytes of a log a second name. If that name
	// holds these very bytes, it was done before; another content is ErrExists.
	Archive(ctx context.Context, name, as string, n int64) error

	// Doc reads a document; one that does not exist has the version Missing.
	Doc(ctx context.Context, name string) ([]byte, Version, error)
	// Put replaces a document that still has the given version; it fails with
	// ErrChanged if it does not. It survives our death; with sync also a power
	// loss. Readers see the old or the new content.
	Put(ctx context.Context, name string, data []byte, old Version, sync bool) (Version, error)
	// Docs lists the documents of a folder, in the order of their names.
	Docs(ctx context.Context, dir string) iter.Seq2[Info, error]

	// Stat describes a log or a document without reading it. A lock that is
	// held exists, too.
	Stat(ctx context.Context, name string) (Info, error)
	// Remove deletes a log or a document; it may be missing.
	Remove(ctx context.Context, name string) error
	// Where tells people where something is.
	Where(name string) string

	// Lock is exclusive use of a part of the place, such as one conversation
	// or Dream, without waiting: the error is a *LockedError if it is held. The
	// death of the holder releases it.
	Lock(ctx context.Context, name string) (release func() error, err error)

	// Watch calls changed whenever something happens in one of the folders,
	// until the context ends. The first call says that watching has begun.
	Watch(ctx context.Context, dirs []string, changed func()) error
	// Wake says when a process must look at this place; zero is never.
	Wake(ctx context.Context, at time.Time) error
	// Lost is closed when the place belongs to another process.
	Lost() <-chan struct{}
	// Fresh reports whether effects outside of the place may begin.
	Fresh() bool
	Close() error
}

// Log is an append-only log of whole lines. Only a crash can leave half a line
// at its end; no method shows it, and the next write keeps it aside.
type Log interface { //nolint:interfacebloat // seven ways to use one file
	// ReaderAt reads the log as the last Info or write of this Log left it.
	io.ReaderAt
	Info(ctx context.Context) (Info, error)
	// Append adds whole lines behind the first at bytes. It fails with ErrMoved
	// if the log has another length. The lines survive our death; with sync also
	// a power loss.
	Append(ctx context.Context, at int64, lines []byte, sync bool) error
	// Sync makes what was appended survive a power loss. It does not hold up
	// appends that happen meanwhile.
	Sync(ctx context.Context) error
	// Repair keeps half a line of a crash aside now instead of with the next
	// write, and says how long it was.
	Repair(ctx context.Context) (torn int64, err error)
	// Replace puts other lines in place of a log that is at bytes long, or of
	// any with a negative at. Others see the old or the new lines.
	Replace(ctx context.Context, at int64, lines []byte) error
	Close() error
}

// Under returns the part of a store below a folder. Closing it does nothing.
func Under(s Store, dir ...string) Store { return &under{s, path.Join(dir...)} }

type under struct {
	Store
	dir string
}

func (u *under) name(n string) string { return path.Join(u.dir, n) }

func (u *under) Log(ctx context.Context, name string) (Log, error) {
	return u.Store.Log(ctx, u.name(name))
}

func (u *under) Logs(ctx context.Context, dir string) iter.Seq2[Info, error] {
	return u.list(u.Store.Logs(ctx, u.name(dir)))
}

func (u *under) Docs(ctx context.Context, dir string) iter.Seq2[Info, error] {
	return u.list(u.Store.Docs(ctx, u.name(dir)))
}

// list takes the folder off the names.
func (u *under) list(seq iter.Seq2[Info, error]) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for i, err := range seq {
			if len(i.Name) > len(u.dir) {
				i.Name = i.Name[len(u.dir)+1:]
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

func (u *under) Archive(ctx context.Context, name, as string, n int64) error {
	return u.Store.Archive(ctx, u.name(name), u.name(as), n)
}

func (u *under) Doc(ctx context.Context, name string) ([]byte, Version, error) {
	return u.Store.Doc(ctx, u.name(name))
}

func (u *under) Put(ctx context.Context, name string, data []byte, old Version, sync bool) (Version, error) {
	return u.Store.Put(ctx, u.name(name), data, old, sync)
}

func (u *under) Stat(ctx context.Context, name string) (Info, error) {
	i, err := u.Store.Stat(ctx, u.name(name))
	i.Name = name
	return i, err
}

func (u *under) Remove(ctx context.Context, name string) error {
	return u.Store.Remove(ctx, u.name(name))
}

func (u *under) Where(name string) string { return u.Store.Where(u.name(name)) }

func (u *under) Lock(ctx context.Context, name string) (func() error, error) {
	return u.Store.Lock(ctx, u.name(name))
}

func (u *under) Watch(ctx context.Context, dirs []string, changed func()) error {
	full := make([]string, len(dirs))
	for i, dir := range dirs {
		full[i] = u.name(dir)
	}
	return u.Store.Watch(ctx, full, changed)
}

func (u *under) Close() error { return nil }
