package diskio

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
)

// Remove deletes a regular file that still holds exactly the expected content,
// under the same rules and locks as Update; else it is ErrChanged. A missing
// file is an error as for os.Remove.
func (j *Jail) Remove(ctx context.Context, name string, expect []byte) error {
	t, err := j.target(name)
	if err != nil {
		return err
	}

	defer t.close()
	unlock, err := j.locks.lock(ctx, t.path)
	if err != nil {
		return err
	}

	defer unlock()
	if err := t.look(); err != nil {
		return err
	}
	if t.dir == nil || t.info == nil {
		return &fs.PathError{Op: "remove", Path: t.path, Err: fs.ErrNotExist}
	}

	now, err := t.read(int64(len(expect)))
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return err
	}
	if err != nil || !bytes.Equal(now, expect) {
		return refuse(t.path, ErrChanged, "was changed by something else just now; read it again")
	}
	if err := t.dir.Remove(t.base); err != nil {
		return err
	}

	t.syncDir()
	return nil
}
