package memory

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/store"
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

// write makes the copies agree with the truth. They hold the owner's own
// entries only: whoever can read the workspace is not thereby entitled to what
// was said in other people's chats. It reports whether something had to be
// changed.
func (m mirror) write(entries []Entry, cursor, dreamCursor int64) (changed bool, err error) {
	root, err := diskio.OpenTree(m.workspace)
	if diskio.IsMissing(err) {
		return false, nil // without a workspace there is nothing to copy to
	}
	if err != nil {
		return false, err
	}
	defer root.Close() //nolint:errcheck // nothing is pending
	if err := root.MkdirAll(dirMirror, 0o700); err != nil {
		return false, err
	}
	home := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if e.Scope == "" {
			home = append(home, e)
		}
	}
	for name, data := range map[string][]byte{
		fileHistory:     render(home),
		fileCursor:      strconv.AppendInt(nil, cursor, 10),
		fileDreamCursor: strconv.AppendInt(nil, dreamCursor, 10),
	} {
		wrote, err := replaceIn(root, dirMirror+"/"+name, data)
		if err != nil {
			return changed, err
		}
		changed = changed || wrote
	}
	return changed, nil
}

// replaceIn makes a file below root hold data. Links are replaced, never
// followed; what is equal already stays.
func replaceIn(root *diskio.Tree, name string, data []byte) (changed bool, err error) {
	if old, err := root.ReadHead(name, int64(len(data))+1); err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	if len(root.Links(name)) > 0 {
		if err := root.Remove(name); err != nil {
			return false, err
		}
	}
	return true, root.WriteFile(name, data, 0o600)
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

// cursor is the number in a copy, if it is one.
func (m mirror) cursor(name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(string(m.read(name))), 10, 64)
	return usable(n), err == nil && usable(n) == n
}

// keepAside saves the original of a file that is about to be replaced, byte
// for byte, under a name that is still free. An equal copy is not made twice.
func keepAside(ctx context.Context, st store.Store, name string, data []byte) error {
	for n := 1; ; n++ {
		aside := dirImported + "/" + name
		if n > 1 {
			aside += "." + strconv.Itoa(n)
		}
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
