package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// KindHistory is the kind of the history in what a workspace was searched for.
const KindHistory = "history"

// fileForeign holds entries of another program that versions before took out of
// the copy in the workspace.
const fileForeign = "foreign.jsonl"

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

// Leftovers returns the files with a history in a workspace.
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

// writeCopies brings the copies in the workspace up to date. If another program,
// such as the Python version, wrote entries there, all of them stay as they are,
// cursors included, until a person imports the entries: that program goes on from
// what it wrote, and nothing else has it.
func (h *History) writeCopies(ctx context.Context) (changed bool, err error) {
	if found := h.foreign(h.copies.read(fileHistory)); len(found) > 0 {
		h.warnForeign(ctx, len(found))
		return false, nil
	}
	return h.copies.write(h.entries, h.high(), h.dreamCursor())
}

// warnForeign logs that there are entries of another program, once for each number of them.
func (h *History) warnForeign(ctx context.Context, n int) {
	if h.warned == n {
		return
	}
	h.warned = n
	h.o.Log.WarnContext(ctx, "another program wrote history entries; they are not used, and the copy of the history is not written until they are imported, see: nanobot migrate",
		"file", filepath.Join(h.o.Workspace, dirMirror, fileHistory), "entries", n)
}

// foreign returns the entries in a copy that are not in the history.
func (h *History) foreign(data []byte) []Entry {
	if len(data) == 0 || bytes.HasPrefix(copied(h.entries), data) {
		return nil
	}
	return newKnown(h.entries).others(readEntries(data))
}

// known tells the entries of a history from those of other programs. Cursors say
// nothing: two programs that do not see each other give the same ones.
type known struct {
	exact   map[words]bool
	content map[string]bool
}

type words struct{ time, content string }

func newKnown(entries []Entry) known {
	k := known{map[words]bool{}, map[string]bool{}}
	for _, e := range entries {
		k.add(e)
	}
	return k
}

func (k known) add(e Entry) {
	k.exact[words{e.Time, e.Content}] = true
	k.content[e.Content] = true
}

// has reports whether an entry is known. One without a time got another when it
// was imported.
func (k known) has(e Entry) bool {
	if e.Time == "" {
		return k.content[e.Content]
	}
	return k.exact[words{e.Time, e.Content}]
}

// others returns the entries that are not known yet, each once.
func (k known) others(entries []Entry) (out []Entry) {
	for _, e := range entries {
		if !k.has(e) {
			k.add(e)
			out = append(out, e)
		}
	}
	return out
}

func readEntries(data []byte) (out []Entry) {
	for line := range bytes.Lines(data) {
		if e, ok := readEntry(line); ok {
			out = append(out, e)
		}
	}
	return out
}

// readEntry reads a line that another program wrote.
func readEntry(line []byte) (Entry, bool) {
	e, ok := parseEntry(bytes.ToValidUTF8(line, []byte("\uFFFD")))
	e.Content = tidy(e.Content, maxEntryChars)
	return e, ok && e.Content != ""
}

// Unimported returns the entries of other programs that are not part of the history.
func (h *History) Unimported(ctx context.Context) (out []Entry, err error) {
	err = h.view(ctx, func() error {
		out, err = h.unimported(ctx)
		return err
	})
	return out, err
}

func (h *History) unimported(ctx context.Context) ([]Entry, error) {
	kept, _, err := h.o.Store.Doc(ctx, fileForeign) // versions before moved them there
	if err != nil {
		return nil, err
	}

	k := newKnown(h.entries)
	out := k.others(append(readEntries(kept), readEntries(h.copies.read(fileHistory))...))

	old := importText(h.copies.read(fileOldHist))
	if len(old) == 0 {
		return out, nil
	}
	if err := h.importedText(ctx, k); err != nil {
		return nil, err
	}
	return append(out, k.others(old)...), nil
}

// importedText adds what a HISTORY.md held when it was imported.
func (h *History) importedText(ctx context.Context, k known) error {
	for n := 1; ; n++ {
		data, version, err := h.o.Store.Doc(ctx, asideName(fileOldHist, n))
		if err != nil || version == store.Missing {
			return err
		}
		for _, e := range importText(data) {
			k.add(e)
		}
	}
}

// Waiting is Unimported without changing anything.
func Waiting(ctx context.Context, o HistoryOptions) (out []Entry, err error) {
	h, err := OpenHistory(o)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, h.Close()) }()

	info, err := h.log.Info(ctx)
	if err != nil {
		return nil, err
	}

	ours := make([]byte, info.Size)
	if _, err := h.log.ReadAt(ours, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	kept, err := o.Store.Stat(ctx, fileForeign)
	if err != nil {
		return nil, err
	}
	if !kept.Exists() && len(h.copies.read(fileOldHist)) == 0 && sameLines(ours, h.copies.read(fileHistory)) {
		return nil, nil // as at nearly every start, and fast
	}

	for line := range bytes.Lines(ours) {
		if e, ok := parseEntry(line); ok && e.Cursor > 0 {
			h.insert(e)
		}
	}
	return h.unimported(ctx)
}

// sameLines reports whether all lines of a copy are among ours.
func sameLines(ours, lines []byte) bool {
	set := map[string]bool{}
	for line := range bytes.Lines(ours) {
		set[string(line)] = true
	}

	for line := range bytes.Lines(lines) {
		if !set[string(line)] {
			return false
		}
	}
	return true
}

// Written returns when another program or nanobot last wrote to the history in
// a workspace.
func Written(workspace string) (last time.Time) {
	tree, err := diskio.OpenTree(workspace)
	if err != nil {
		return last
	}

	defer tree.Close() //nolint:errcheck // only looked at
	for _, name := range []string{fileHistory, fileOldHist} {
		if info, err := tree.Lstat(dirMirror + "/" + name); err == nil && info.Mode().IsRegular() && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// Import adds what Unimported returned. Entries get cursors of their own and count
// as coming from outside: what they hold is data for Dream, not the owner's word.
func (h *History) Import(ctx context.Context, entries []Entry) (int, error) {
	n := 0
	for _, e := range entries {
		e.Cursor = 0
		e.Tainted = true
		e.Range = ""
		e.Scope = ""
		if e.Time == "" {
			e.Time = h.copies.oldTime(h.o.Now()).Format(timeLayout)
		}

		if _, err := h.Append(ctx, e); err != nil {
			return n, err
		}
		n++
	}

	if err := h.update(ctx, func() error { return h.tookAll(ctx) }); err != nil {
		return n, err
	}
	return n, nil
}

// tookAll cleans up when nothing waits any more. What appeared meanwhile keeps
// everything as it is.
func (h *History) tookAll(ctx context.Context) error {
	left, err := h.unimported(ctx)
	if err != nil || len(left) > 0 {
		return err
	}

	if data := h.copies.read(fileOldHist); len(data) > 0 { // it is known also when its entries are gone
		if err := saveAside(ctx, h.o.Store, fileOldHist, data); err != nil {
			return err
		}
	}
	return h.o.Store.Remove(ctx, fileForeign)
}
