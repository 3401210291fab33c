package memory

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	dirImported   = "imported" // originals of what was taken in
	fileOldHist   = "HISTORY.md"
	oldHistBackup = "HISTORY.md.bak"
)

// importOld makes the authoritative log from what the workspace holds: the
// history.jsonl of any generation, else the HISTORY.md of the oldest. Originals
// are kept byte for byte. The log is written last, so a crash before it means
// that everything is done again.
func (h *History) importOld(ctx context.Context) error {
	if err := h.readState(ctx); err != nil {
		return err
	}

	raw := h.copies.read(fileHistory)
	dream := int64(0)
	if n, ok := h.copies.cursor(fileDreamCursor); ok {
		dream = n
	}

	entries, bad, read := importLines(raw, dream)
	if err := h.saveOriginals(ctx); err != nil {
		return err
	}

	fromText := len(entries) == 0 && len(bytes.TrimSpace(raw)) == 0
	if fromText {
		entries = importText(h.copies.read(fileOldHist))
		for i := range entries {
			if entries[i].Time == "" {
				entries[i].Time = h.copies.oldTime(h.o.Now()).Format(timeLayout)
			}
		}

		if n := len(entries); n > 0 {
			read = entries[n-1].Cursor // Dream has seen none of it and need not
		}
	}

	if len(bad) > 0 {
		if err := store.AppendLines(ctx, h.o.Store, fileRejected, bad); err != nil {
			return err
		}
	}

	for _, e := range entries {
		h.st.Cursor = max(h.st.Cursor, e.Cursor)
	}

	if n, ok := h.copies.cursor(fileCursor); ok {
		h.st.Cursor = max(h.st.Cursor, n)
	}

	h.st.DreamCursor = max(h.st.DreamCursor, read)
	if err := h.saveState(ctx); err != nil {
		return err
	}
	if err := h.log.Replace(ctx, 0, render(entries)); err != nil {
		return err
	}

	h.read = store.Cursor{}
	if fromText && len(entries) > 0 {
		if err := h.copies.setOldAside(); err != nil {
			h.o.Log.WarnContext(ctx, "cannot rename the old history", "err", err)
		}
	}

	if len(entries) > 0 {
		h.o.Log.InfoContext(ctx, "took in the history of the workspace", "entries", len(entries), "unreadable_bytes", len(bad))
	}
	return nil
}

// saveOriginals saves the files that the import reads and the copy replaces.
func (h *History) saveOriginals(ctx context.Context) error {
	for _, name := range []string{fileHistory, fileCursor, fileDreamCursor, fileOldHist} {
		if data := h.copies.read(name); len(data) > 0 {
			if err := saveAside(ctx, h.o.Store, strings.TrimPrefix(name, "."), data); err != nil {
				return err
			}
		}
	}
	return nil
}

// importLines reads a history.jsonl that others wrote. Entries keep their order
// and, where it increases, their cursor; the others get the next free one. read
// is the new cursor of the last entry that dream, an old cursor, covers. bad
// holds the lines that are not entries.
func importLines(data []byte, dream int64) (entries []Entry, bad []byte, read int64) {
	last := int64(0)
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		e, ok := parseEntry(bytes.ToValidUTF8(line, []byte("\uFFFD")))
		if e.Content = tidy(e.Content, maxEntryChars); !ok || e.Content == "" {
			if len(bytes.TrimSpace(line)) > 0 {
				bad = append(append(bad, line...), '\n')
			}
			continue
		}

		covered := e.Cursor > 0 && e.Cursor <= dream
		if e.Cursor <= last {
			e.Cursor = last + 1
		}

		last = e.Cursor
		if covered {
			read = last
		}
		entries = append(entries, e)
	}

	return entries, bad, read
}

var (
	stampedLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\[\d{4}-\d{2}-\d{2}[^\]]*\]`) })
	stampedRaw  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\[\d{4}-\d{2}-\d{2}[^\]]*\]\s+\[RAW\]`) })
	rawMessage  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\[\d{4}-\d{2}-\d{2}[^\]]*\]\s+[A-Z][A-Z0-9_]*(\s+\[tools:\s*[^\]]+\])?:`)
	})
	leadingStamp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\[(\d{4}-\d{2}-\d{2} \d{2}:\d{2})[^\]]*\]\s*`) })
)

// importText cuts a HISTORY.md into entries. One begins after a blank line or
// with a date, except for the messages inside a raw dump, which have dates too.
// Entries without a date have no time.
func importText(data []byte) []Entry {
	body := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text.Valid(string(data)))
	var chunks [][]string
	blank := false
	for line := range strings.SplitSeq(strings.TrimSpace(body), "\n") {
		if strings.TrimSpace(line) == "" {
			blank = true
			continue
		}

		n := len(chunks)
		if n == 0 || startsEntry(chunks[n-1], line, blank) {
			chunks = append(chunks, []string{line})
		} else {
			chunks[n-1] = append(chunks[n-1], line)
		}

		blank = false
	}

	var out []Entry
	for _, c := range chunks {
		e := Entry{Content: strings.TrimSpace(strings.Join(c, "\n"))}
		if m := leadingStamp().FindStringSubmatch(e.Content); m != nil {
			e.Time = m[1]
			if rest := strings.TrimSpace(e.Content[len(m[0]):]); rest != "" {
				e.Content = rest
			}
		}

		if e.Content = tidy(e.Content, maxEntryChars); e.Content == "" {
			continue
		}

		e.Cursor = int64(len(out) + 1)
		out = append(out, e)
	}

	return out
}

func startsEntry(chunk []string, line string, afterBlank bool) bool {
	if afterBlank {
		return true
	}
	if !stampedLine().MatchString(line) {
		return false
	}
	return !stampedRaw().MatchString(chunk[0]) || !rawMessage().MatchString(line)
}

// oldTime returns when a HISTORY.md was written, else the fallback.
func (m mirror) oldTime(fallback time.Time) time.Time {
	root, err := diskio.OpenTree(m.workspace)
	if err != nil {
		return fallback
	}

	defer root.Close() //nolint:errcheck // only read from
	fi, err := root.Lstat(dirMirror + "/" + fileOldHist)
	if err != nil {
		return fallback
	}
	return fi.ModTime()
}

// setOldAside renames a HISTORY.md that was taken in, as the Python version
// does. When that fails it only stays where it is.
func (m mirror) setOldAside() error {
	root, err := diskio.OpenTree(m.workspace)
	if err != nil {
		return err
	}

	defer root.Close() //nolint:errcheck // nothing is pending
	name := dirMirror + "/" + oldHistBackup
	for n := 2; ; n++ {
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = dirMirror + "/" + oldHistBackup + "." + strconv.Itoa(n)
	}
	return root.Rename(dirMirror+"/"+fileOldHist, name)
}
