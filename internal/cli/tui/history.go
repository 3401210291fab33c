package tui

import (
	"bufio"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

const (
	maxHistory      = 1000    // entries kept
	maxHistoryEntry = 8 << 10 // bytes; longer input is remembered only while the program runs
)

// history is the list of earlier inputs, oldest first. The file holds one entry
// per line with line breaks escaped; it is only ever appended to, except that
// an overlong one is cut to the newest entries when it is opened.
type history struct {
	path    string
	entries []string
}

// openHistory reads the file at path; a missing file is an empty history.
func openHistory(path string) (*history, error) {
	h := &history{path: path}
	if path == "" {
		return h, nil
	}

	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}

	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4*maxHistoryEntry)
	n := 0
	for lines.Scan() {
		n++
		if s := unescapeEntry(lines.Text()); s != "" {
			h.remember(s)
		}
	}

	if n > 2*maxHistory {
		return h, cmp.Or(lines.Err(), h.rewrite())
	}
	return h, lines.Err()
}

// remember adds an entry in memory; repeating the last one changes nothing.
func (h *history) remember(s string) bool {
	if n := len(h.entries); n > 0 && h.entries[n-1] == s {
		return false
	}
	if h.entries = append(h.entries, s); len(h.entries) > maxHistory {
		h.entries = h.entries[1:]
	}
	return true
}

// add remembers an entry and appends it to the file.
func (h *history) add(s string) error {
	s, _ = httpsafe.TypedKeys(s)
	if !h.remember(s) || h.path == "" || len(s) > maxHistoryEntry {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}

	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	_, err = f.WriteString(escapeEntry(s) + "\n")
	return cmp.Or(err, f.Close())
}

func (h *history) rewrite() error {
	var b strings.Builder
	for _, s := range h.entries {
		if len(s) <= maxHistoryEntry {
			b.WriteString(escapeEntry(s) + "\n")
		}
	}

	tmp := h.path + ".tmp"
	if err := os.WriteFile(tmp, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, h.path)
}

func escapeEntry(s string) string { return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s) }

func unescapeEntry(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n").Replace(pasted(s))
}

// search returns the newest entry before index from that contains text.
func (h *history) search(text string, from int) (int, bool) {
	for i := min(from, len(h.entries)) - 1; i >= 0; i-- {
		if strings.Contains(h.entries[i], text) {
			return i, true
		}
	}
	return 0, false
}
