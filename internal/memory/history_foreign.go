package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/store"
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
	if i, err := o.Store.Stat(ctx, fileHistory); err != nil || i.Exists() {
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
		h.o.Log.ErrorContext(ctx, "the history is lost and begins again; what the workspace has of it can be taken in with: nanobot migrate", "file", h.o.Store.Where(fileHistory))
	}
	h.read = store.Cursor{}
	return h.log.Replace(ctx, 0, nil)
}

// noteForeign keeps what another program, such as the Python version, wrote
// into the copy while we did not run, before the copy is made right again. It
// becomes part of the history only when a person takes it.
func (h *History) noteForeign(ctx context.Context) error {
	if h.o.Import {
		return nil
	}
	found := h.foreign(h.copies.read(fileHistory))
	if len(found) == 0 {
		return nil
	}
	kept, _, err := h.o.Store.Doc(ctx, fileForeign)
	if err != nil {
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
	h.o.Log.WarnContext(ctx, "another program wrote history entries; they are not used, see: nanobot migrate", "file", h.o.Store.Where(fileForeign))
	return store.AppendLines(ctx, h.o.Store, fileForeign, more)
}

// foreign are the entries in data that are not in the history: those behind its
// end or, if the history was lost, all of them.
func (h *History) foreign(data []byte) []Entry {
	return slices.DeleteFunc(readEntries(data), func(e Entry) bool { return e.Cursor <= h.high() && len(h.entries) > 0 })
}

func readEntries(data []byte) (out []Entry) {
	for line := range bytes.Lines(data) {
		e, ok := parseEntry(line)
		if e.Content = tidy(e.Content, maxEntryChars); ok && e.Content != "" {
			out = append(out, e)
		}
	}
	return out
}

// Untaken are the entries of other programs that are not part of the history.
func (h *History) Untaken(ctx context.Context) ([]Entry, error) {
	var out []Entry
	err := h.view(ctx, func() error {
		kept, _, err := h.o.Store.Doc(ctx, fileForeign)
		if err != nil {
			return err
		}
		type what struct{ time, content string }
		known := map[what]bool{}
		for _, e := range h.entries {
			known[what{e.Time, e.Content}] = true
		}
		for _, e := range append(readEntries(kept), h.foreign(h.copies.read(fileHistory))...) {
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
	return n, h.o.Store.Remove(ctx, fileForeign)
}
