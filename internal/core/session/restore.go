package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
)

// ErrExists says that a conversation cannot come back, because there is one
// under its key.
var ErrExists = errors.New("there is a session with this key")

// maxRestore bounds a log that comes back from the archive.
const maxRestore = 256 << 20

// Archived is a log in the archive: a conversation that was deleted, or an
// earlier part of one.
type Archived struct {
	Info

	ID string
}

// ListArchive lists the archive, the last changed first.
func ListArchive(ctx context.Context, st *Store) ([]Archived, error) {
	var out []Archived
	var errs []error
	for e, err := range st.state.Logs(ctx, dirArchive) {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}

		var info Info
		if err == nil {
			info, err = st.describe(ctx, e.Name)
		}

		if err != nil {
			errs = append(errs, err)
			continue
		}

		id := strings.TrimSuffix(strings.TrimPrefix(e.Name, dirArchive+"/"), suffixLog)
		out = append(out, Archived{info, id})
	}

	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		return a.Updated.After(b.Updated) || a.Updated.Equal(b.Updated) && a.ID < b.ID
	})
	return out, errors.Join(errs...)
}

// Restore brings a conversation back from the archive and says which. The error is
// ErrNotFound if there is nothing under the id, ErrExists if there is a
// conversation under its key.
func Restore(ctx context.Context, st *Store, id string) (key string, err error) {
	all, err := ListArchive(ctx, st)
	if all == nil && err != nil {
		return "", err
	}

	for i := range all {
		if all[i].ID == id {
			key = all[i].Key
		}
	}

	if key == "" {
		return "", ErrNotFound
	}

	s, err := st.Acquire(ctx, key)
	if err != nil {
		return key, err
	}

	err = s.do(func() error {
		if s.j.size > 0 {
			return ErrExists
		}

		lines, err := archivedLines(ctx, st, id)
		if err != nil {
			return err
		}
		if err := s.j.log.Replace(ctx, -1, lines); err != nil {
			return err
		}

		s.j.reset()
		return st.state.Remove(ctx, dirArchive+"/"+id+suffixLog)
	})
	return key, errors.Join(err, s.Release())
}

// Erase removes a conversation for good: its log, what the archive has of it, and
// what a crash tore off. The error is ErrNotFound if there is nothing of it. The
// archive goes first: after a crash the conversation is still in the list.
func Erase(ctx context.Context, st *Store, key string) error {
	s, err := st.Acquire(ctx, key)
	if err != nil {
		return err
	}

	err = s.do(func() error {
		archived, err := st.archivedUnder(ctx, s.j.name)
		if err != nil {
			return err
		}
		if s.j.size == 0 && len(archived) == 0 {
			return ErrNotFound
		}

		for _, name := range append(archived, s.j.name) {
			if err := st.removeLog(ctx, name); err != nil {
				return err
			}
		}

		s.j.reset()
		return nil
	})
	return errors.Join(err, s.Release())
}

// EraseArchived removes a log of the archive for good. The error is ErrNotFound if
// there is none under the id.
func EraseArchived(ctx context.Context, st *Store, id string) error {
	all, err := ListArchive(ctx, st)
	if all == nil && err != nil {
		return err
	}

	for i := range all {
		if all[i].ID == id {
			return st.removeLog(ctx, dirArchive+"/"+id+suffixLog)
		}
	}
	return ErrNotFound
}

// archivedUnder returns the logs of the archive that came from a log of this name.
func (st *Store) archivedUnder(ctx context.Context, name string) (out []string, err error) {
	base := dirArchive + "/" + strings.TrimSuffix(name, suffixLog) + "."
	for e, err := range st.state.Logs(ctx, dirArchive) {
		if err != nil {
			return nil, err
		}
		number, ok := strings.CutPrefix(strings.TrimSuffix(e.Name, suffixLog), base)
		if _, err := strconv.Atoi(number); ok && err == nil {
			out = append(out, e.Name)
		}
	}

	return out, nil
}

// removeLog removes a log and the lines that a crash tore off it.
func (st *Store) removeLog(ctx context.Context, name string) error {
	return errors.Join(st.state.Remove(ctx, name), st.state.Remove(ctx, name+".torn"))
}

// archivedLines returns those of a log in the archive.
func archivedLines(ctx context.Context, st *Store, id string) (lines []byte, err error) {
	f, err := st.state.Log(ctx, dirArchive+"/"+id+suffixLog)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Size > maxRestore {
		return nil, fmt.Errorf("the log has %d MiB, which is too much to bring back", info.Size>>20)
	}

	lines = make([]byte, info.Size)
	_, err = io.ReadFull(io.NewSectionReader(f, 0, info.Size), lines)
	return lines, err
}
