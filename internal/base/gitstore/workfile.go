package gitstore

import (
	"context"
	"fmt"
	"io/fs"
)

// Names lists the tracked files that are in the work tree now, sorted.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	w, err := s.openWork()
	if err != nil {
		return nil, err
	}

	defer w.close()
	names, err := w.names(ctx, s.patterns())
	if err != nil {
		return nil, err
	}

	var out []string
	for _, name := range names {
		if _, err := w.root.Lstat(name); err == nil {
			out = append(out, name)
		}
	}
	return out, nil
}

// ReadWork reads a tracked file of the work tree. The error is fs.ErrNotExist
// when it is not there.
func (s *Store) ReadWork(name string) ([]byte, error) {
	w, err := s.workOf(name)
	if err != nil {
		return nil, err
	}

	defer w.close()
	data, there, err := w.read(name)
	if err == nil && !there {
		err = fs.ErrNotExist
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// WriteWork replaces a tracked file of the work tree as a whole, without
// committing it. A link at its place is replaced, not followed.
func (s *Store) WriteWork(name string, data []byte) error {
	w, err := s.workOf(name)
	if err != nil {
		return err
	}

	defer w.close()
	if len(data) > maxFile {
		return fmt.Errorf("%s: %w", name, errUntrackable)
	}
	if err := w.write(name, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (s *Store) workOf(name string) (*work, error) {
	if !tracks(s.patterns(), name) {
		return nil, fmt.Errorf("%s is not tracked", name)
	}
	return s.openWork()
}
