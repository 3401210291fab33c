package skill

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// Why Install and Remove leave a skill alone.
var (
	ErrExists   = errors.New("exists already")
	ErrNotFound = errors.New("there is no such skill in the workspace")
	ErrOwn      = errors.New("was not installed but written in the workspace")
)

// staging is where a skill is put together before it gets its name. Nothing
// looks for skills there.
const staging = ".nanobot"

// Place says where skills are installed.
type Place struct {
	Workspace string
	Ledger    store.Store // outside the workspace; it records what was installed
	Force     bool        // replace or remove what is there, whoever made it
	// Files writes files of the workspace; nil records nothing about them.
	Files *change.Writer
}

// files returns what writes files of the workspace.
func (p Place) files() *change.Writer {
	if p.Files == nil {
		return change.NewWriter(p.Workspace, nil)
	}
	return p.Files
}

// Install puts the skill in an archive or a directory into the workspace.
// Everything is read and checked before the first byte is written, and the
// skill appears under its name in one step. The problems are what is odd about
// it; with an error among them, which comes back as an *InvalidError, nothing
// is installed. always lets the skill be in every prompt if it asks for that.
func Install(p Place, source string, always bool, now time.Time) (Installed, []Problem, error) {
	b, err := readSource(source)
	if err != nil {
		return Installed{}, nil, err
	}
	from, err := filepath.Abs(source)
	if err != nil {
		return Installed{}, nil, err
	}
	return p.install(b, Parcel{From: from}, always, now)
}

// Parcel is a skill that the caller holds in memory: an archive, or the files
// of a directory.
type Parcel struct {
	Name    string // of the archive or directory; the skill's own name comes first
	From    string // where it came from, for the record
	Only    string // the name it must have; "" is any
	Archive []byte // nil: Files
	Files   []File
}

// File is a file of a skill. Path is relative, with slashes.
type File struct {
	Path string
	Data []byte
	Exec bool
}

// InstallFrom is Install for a skill that is in memory.
func InstallFrom(p Place, src Parcel, always bool, now time.Time) (Installed, []Problem, error) {
	b, err := src.read()
	if err != nil {
		return Installed{}, nil, err
	}
	return p.install(b, src, always, now)
}

func (s Parcel) read() (*bundle, error) {
	if len(s.Archive) > MaxTotal {
		return nil, fmt.Errorf("the archive has more than %d MiB", MaxTotal>>20)
	}
	if s.Archive != nil {
		return unpack(archiveName(s.Name), s.Archive)
	}

	b := &bundle{name: s.Name}
	for _, f := range s.Files {
		if junk(f.Path) {
			continue
		}
		if err := b.add(f.Path, f.Exec, bytes.NewReader(f.Data)); err != nil {
			return nil, err
		}
	}

	return b, b.arrange()
}

func (p Place) install(b *bundle, src Parcel, always bool, now time.Time) (Installed, []Problem, error) {
	b.name = b.givenName()
	problems := b.validate()
	if hasErrors(problems) {
		return Installed{}, problems, &InvalidError{b.name, problems}
	}
	if src.Only != "" && src.Only != b.name {
		return Installed{}, problems, fmt.Errorf("it is the skill %s, not %s", b.name, src.Only)
	}

	rec := Installed{
		Name: b.name, SHA256: b.hash(), From: src.From, At: now.UTC().Truncate(time.Second), Files: len(b.files), Bytes: b.total, Always: always,
	}
	err := p.change(func(root *diskio.Tree, dir string, book ledger) error {
		if err := p.free(root, b.name); err != nil {
			return err
		}

		at := path.Join(folder, b.name)
		temp := path.Join(staging, "skill-"+rand.Text())
		defer root.RemoveAll(temp) //nolint:errcheck // what is left there does no harm
		if err := root.MkdirAll(staging, 0o755); err != nil {
			return err
		}

		rec.Dir = filepath.Join(dir, b.name)
		return p.files().Replace(b.at(at), func(root *diskio.Tree) error {
			if err := b.write(root, temp); err != nil {
				return err
			}
			// The record comes first: a skill that a crash leaves without its label
			// would pass for the user's own.
			if err := book.with(rec.Dir, &rec).save(p.Ledger); err != nil {
				return err
			}
			if err := swap(root, temp, at); err != nil {
				return errors.Join(err, book.save(p.Ledger))
			}
			return nil
		})
	})
	return rec, problems, err
}

// at returns the files of a skill in a folder of the workspace.
func (b *bundle) at(dir string) []change.File {
	out := make([]change.File, len(b.files))
	for i, f := range b.files {
		out[i] = change.File{Name: path.Join(dir, f.path), Data: f.data}
	}
	return out
}

// free checks that nothing is in the way of a new skill.
func (p Place) free(root *diskio.Tree, name string) error {
	if p.Force {
		return nil
	}
	if _, err := fs.Stat(builtin, folder+"/"+name); err == nil {
		return fmt.Errorf("the built-in skill %s %w and would be hidden", name, ErrExists)
	}

	list, err := root.ReadDir(folder)
	if err != nil {
		return err
	}

	for _, d := range list {
		if strings.EqualFold(d.Name(), name) {
			return fmt.Errorf("the skill %s %w", d.Name(), ErrExists)
		}
	}
	return nil
}

// Remove takes a skill out of the workspace; one that was not installed only
// by force.
func Remove(p Place, name string) error {
	if badPath(name) != "" || strings.Contains(name, "/") {
		return fmt.Errorf("%.100q: %w", name, ErrNotFound)
	}
	return p.change(func(root *diskio.Tree, dir string, book ledger) error {
		at := path.Join(folder, name)
		_, known := book.find(filepath.Join(dir, name))
		_, err := root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !known:
			return fmt.Errorf("%s: %w", name, ErrNotFound)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err == nil && !known && !p.Force:
			return fmt.Errorf("%s %w", name, ErrOwn)
		case err == nil:
			if err := root.RemoveAll(at); err != nil {
				return err
			}
		}

		return book.with(filepath.Join(dir, name), nil).save(p.Ledger)
	})
}

// change calls fn while no other process changes the ledger.
func (p Place) change(fn func(root *diskio.Tree, dir string, book ledger) error) (err error) {
	release, err := p.Ledger.Lock(context.Background(), ledgerLock)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, release()) }()
	book, err := readLedger(p.Ledger)
	if err != nil {
		return err
	}
	if err := diskio.MkdirAll(p.Workspace, 0o755); err != nil {
		return err
	}

	root, err := diskio.OpenTree(p.Workspace)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return fn(root, filepath.Join(root.Path(), folder), book)
}

// swap gives temp the name at, in place of whatever has it.
func swap(root *diskio.Tree, temp, at string) error {
	old := temp + "-old"
	err := root.Rename(at, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	replaced := err == nil
	if err := root.Rename(temp, at); err != nil {
		if replaced {
			err = errors.Join(err, root.Rename(old, at))
		}
		return err
	}

	if replaced {
		_ = root.RemoveAll(old) // the new one is in its place; nothing looks at this one
	}
	return nil
}
