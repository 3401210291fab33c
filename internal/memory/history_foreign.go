package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// KindHistory is the kind of the history in what a workspace was searched for.
const KindHistory = "history"

const (
	fileForeign = "foreign.jsonl" // entries that another program wrote into the copy
	maxForeign  = 1 << 20         // bytes of it
)

// TakeOver begins the history of a workspace with what older versions left
// there, and returns how many entries that are. One that exists stays as it is.
func TakeOver(ctx context.Context, o HistoryOptions) (int, error) {
	if _, err := os.Lstat(filepath.Join(o.Dir, fileHistory)); !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if !leftSomething(o.Workspace) {
		return 0, nil
	}
	o.Import = true
	h, err := OpenHistory(o)
	if err != nil {
		return 0, err
	}
	entries, err := h.Recent(ctx, 0, nil)
	return len(entries), errors.Join(err, h.Close())
}

// leftSomething reports whether a workspace has a history.
func leftSomething(workspace string) bool { return len(Leftovers(workspace)) > 0 }

// Leftovers are the files with a history in a workspace.
func Leftovers(workspace string) []string {
	tree, err := diskio.OpenTree(workspace)
	if err != nil {
		return nil
	}
	defer tree.Close() //nolint:errcheck // only looked at
	var out []string
	for _, name := range []string{fileHistory, fileOldHist} {
		if info, err := tree.Lstat(dirMirror + "/" + name); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			out = append(out, filepath.Join(workspace, dirMirror, name))
		}
	}
	return out
}

// beginLog makes the log that does not exist.
func (h *History) beginLog(ctx context.Context) error {
	if h.o.Import {
		if err := h.importOld(ctx); err != nil {
			return fmt.Errorf("take in the history of the workspace: %w", err)
		}
		return nil
	}
	if err := h.readState(ctx); err != nil {
		return err
	}
	if h.st.Cursor > 0 {
		h.o.Log.ErrorContext(ctx, "the history is lost and begins again; what the workspace has of it can be taken in with: nanobot migrate", "file", h.log.path)
	}
	h.log.seen = nil
	return diskio.WriteFile(h.log.path, nil, 0o600)
}

// noteForeign keeps what another program, such as the Python version, wrote
// into the copy while we did not run, before the copy is made right again. It
// becomes part of the history only when a person takes it.
func (h *History) noteForeign(ctx context.Context) error {
	if h.o.Import {
		return nil
	}
	found := h.foreign(h.readMirror(fileHistory))
	if len(found) == 0 {
		return nil
	}
	path := filepath.Join(h.o.Dir, fileForeign)
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var more []byte
	for _, e := range found {
		if line := append(e.line(), '\n'); !bytes.Contains(kept, line) && len(kept)+len(more)+len(line) <= maxForeign {
			more = append(more, line...)
		}
	}
	if len(more) == 0 {
		return nil
	}
	h.o.Log.WarnContext(ctx, "another program wrote history entries; they are not used, see: nanobot migrate", "file", path)
	return appendFile(path, more)
}

// foreign are the entries in data that are not in the history: those behind its
// end or, if the history was lost, all of them.
func (h *History) foreign(data []byte) []Entry {
	return slices.DeleteFunc(readEntries(data), func(e Entry) bool { return e.Cursor <= h.high() && len(h.entries) > 0 })
}

func readEntries(data []byte) (out []Entry) {
	for line := range bytes.Lines(data) {
		e, ok := parseEntry(line)
		if e.Content = tidy(e.Content, MaxEntryChars); ok && e.Content != "" {
			out = append(out, e)
		}
	}
	return out
}

// Untaken are the entries of other programs that are not part of the history.
func (h *History) Untaken(ctx context.Context) ([]Entry, error) {
	var out []Entry
	err := h.view(ctx, func() error {
		kept, err := os.ReadFile(filepath.Join(h.o.Dir, fileForeign))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		type what struct{ time, content string }
		known := map[what]bool{}
		for _, e := range h.entries {
			known[what{e.Time, e.Content}] = true
		}
		for _, e := range append(readEntries(kept), h.foreign(h.readMirror(fileHistory))...) {
			if w := (what{e.Time, e.Content}); !known[w] {
				known[w] = true
				out = append(out, e)
			}
		}
		return nil
	})
	return out, err
}

// Take adds what Untaken returned. Entries get cursors of their own and count
// as coming from outside: what they hold is data for Dream, not the owner's word.
func (h *History) Take(ctx context.Context, entries []Entry) (int, error) {
	n := 0
	for _, e := range entries {
		e.Cursor, e.Tainted, e.Range, e.Scope = 0, true, "", ""
		if _, err := h.Append(ctx, e); err != nil {
			return n, err
		}
		n++
	}
	err := os.Remove(filepath.Join(h.o.Dir, fileForeign))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return n, err
}
