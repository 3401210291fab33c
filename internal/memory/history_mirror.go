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

// mirror makes the copies in the workspace agree with the truth. They hold the
// owner's own entries only: whoever can read the workspace is not thereby
// entitled to what was said in other people's chats. It reports whether
// something had to be changed.
func (h *History) mirror() (changed bool, err error) {
	root, err := diskio.OpenTree(h.o.Workspace)
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
	home := make([]Entry, 0, len(h.entries))
	for _, e := range h.entries {
		if e.Scope == "" {
			home = append(home, e)
		}
	}
	for name, data := range map[string][]byte{
		fileHistory:     render(home),
		fileCursor:      strconv.AppendInt(nil, h.high(), 10),
		fileDreamCursor: strconv.AppendInt(nil, h.dreamCursor(), 10),
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

// readMirror reads one of the copies; nil when it is not there or no file.
func (h *History) readMirror(name string) []byte {
	root, err := diskio.OpenTree(h.o.Workspace)
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

// mirroredCursor is the number in a copy, if it is one.
func (h *History) mirroredCursor(name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(string(h.readMirror(name))), 10, 64)
	return usable(n), err == nil && usable(n) == n
}

// keepAside saves the original of a file that is about to be replaced, byte
// for byte, under a name that is still free. An equal copy is not made twice.
func (h *History) keepAside(ctx context.Context, name string, data []byte) error {
	for n := 1; ; n++ {
		aside := dirImported + "/" + name
		if n > 1 {
			aside += "." + strconv.Itoa(n)
		}
		_, err := h.o.Store.Put(ctx, aside, data, store.Missing, true)
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
		if old, _, err := h.o.Store.Doc(ctx, aside); err != nil || bytes.Equal(old, data) {
			return err
		}
	}
}
