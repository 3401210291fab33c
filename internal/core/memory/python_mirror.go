package memory

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Names of the copies below the workspace, which are the files of the Python
// generations.
const (
	dirMirror       = "memory"
	fileCursor      = ".cursor"
	fileDreamCursor = ".dream_cursor"
)

// maxMirror bounds what is read of a file in the workspace, in bytes.
const maxMirror = 256 << 20

// mirror is the copies of the history in a workspace.
type mirror struct{ workspace string }

// write makes the copies agree with the truth. It reports whether something had
// to be changed.
func (m mirror) write(entries []Entry, cursor, dreamCursor int64) (changed bool, err error) {
	root, err := diskio.OpenTree(m.workspace)
	if diskio.IsMissing(err) {
		return false, nil // without a workspace there is nothing to copy to
	}
	if err != nil {
		return false, err
	}

	defer root.Close() //nolint:errcheck // nothing is pending

	history := copied(entries)
	if _, err := root.Lstat(dirMirror); len(history) == 0 && diskio.IsMissing(err) {
		return false, nil // without entries, do not make a folder in a project
	}
	if err := root.MkdirAll(dirMirror, 0o700); err != nil {
		return false, err
	}

	// The Python version goes on from its cursors: they never go back.
	if n, ok := m.cursor(fileCursor); ok {
		cursor = max(cursor, n)
	}
	if n, ok := m.cursor(fileDreamCursor); ok {
		// What it has dreamt of, it must not dream of again.
		dreamCursor = max(dreamCursor, min(n, cursor))
	}

	// The cursor is written first: one that is too high leaves a gap, one that
	// is too low is given to a second entry.
	for _, c := range []struct {
		name string
		data []byte
	}{
		{fileCursor, strconv.AppendInt(nil, cursor, 10)},
		{fileHistory, history},
		{fileDreamCursor, strconv.AppendInt(nil, dreamCursor, 10)},
	} {
		wrote, err := replaceIn(root, dirMirror+"/"+c.name, c.data)
		if err != nil {
			return changed, err
		}
		changed = changed || wrote
	}

	return changed, nil
}

// copied returns what the copy of the history holds: the owner's own entries
// only. Whoever can read the workspace is not thereby entitled to what was
// said in other people's chats.
func copied(entries []Entry) []byte {
	home := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if e.Scope == "" {
			home = append(home, e)
		}
	}
	return render(home)
}

// replaceIn makes a file below root hold data. Links are replaced, never
// followed; what is equal already stays, and what is only longer is appended, so
// that nothing is lost of another program that appends at the same time.
func replaceIn(root *diskio.Tree, name string, data []byte) (changed bool, err error) {
	if len(root.Links(name)) > 0 {
		if err := root.Remove(name); err != nil {
			return false, err
		}
	}

	old, err := root.Open(name)
	if err != nil {
		return true, root.WriteFile(name, data, 0o600)
	}

	defer old.Close() //nolint:errcheck // only read

	before, err := io.ReadAll(io.LimitReader(old, maxMirror))
	if err != nil {
		return false, err
	}

	rest, longer := bytes.CutPrefix(data, before)
	switch {
	case longer && len(rest) == 0:
		return false, nil
	case longer && len(before) > 0 && bytes.HasSuffix(before, []byte("\n")):
		return true, appendIn(root, name, rest)
	}

	if err := root.WriteFile(name, data, 0o600); err != nil {
		return false, err
	}

	// What was appended to the old file between the look and now.
	late, err := io.ReadAll(io.LimitReader(old, maxMirror))
	if err != nil || len(late) == 0 {
		return true, err
	}
	return true, appendIn(root, name, late)
}

func appendIn(root *diskio.Tree, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// edit changes entries where they stand in the copy: each becomes what change
// returns, or goes when keep is false. Other lines stay as they are.
func (m mirror) edit(change func(Entry) (e Entry, keep bool)) error {
	before := m.read(fileHistory)
	var after []byte
	for line := range bytes.Lines(before) {
		e, ok := readEntry(line)
		if !ok {
			after = append(after, line...)
			continue
		}

		now, keep := change(e)
		switch {
		case !keep:
		case now.Content == e.Content:
			after = append(after, line...)
		default:
			now.Cursor = e.Cursor
			after = append(append(after, now.line()...), '\n')
		}
	}

	if bytes.Equal(before, after) {
		return nil
	}

	root, err := diskio.OpenTree(m.workspace)
	if err != nil {
		return err
	}

	_, err = replaceIn(root, dirMirror+"/"+fileHistory, after)
	return errors.Join(err, root.Close())
}

// read reads one of the copies; nil when it is not there or no file.
func (m mirror) read(name string) []byte {
	root, err := diskio.OpenTree(m.workspace)
	if err != nil {
		return nil
	}

	defer root.Close() //nolint:errcheck // only read from
	data, err := root.ReadHead(dirMirror+"/"+name, maxMirror)
	if err != nil {
		return nil
	}
	return data
}

// cursor returns the number in a copy, if it is one.
func (m mirror) cursor(name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(string(m.read(name))), 10, 64)
	return usable(n), err == nil && usable(n) == n
}

// saveAside saves the original of a file that is about to be replaced, byte
// for byte, under a name that is still free. An equal copy is not made twice.
func saveAside(ctx context.Context, st store.Store, name string, data []byte) error {
	for n := 1; ; n++ {
		aside := asideName(name, n)
		_, err := st.Put(ctx, aside, data, store.Missing, true)
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
		if old, _, err := st.Doc(ctx, aside); err != nil || bytes.Equal(old, data) {
			return err
		}
	}
}

func asideName(name string, n int) string {
	if n == 1 {
		return dirImported + "/" + name
	}
	return dirImported + "/" + name + "." + strconv.Itoa(n)
}
