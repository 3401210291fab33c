package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/api"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/text"
)

// wordSearch finds words in what the agent wrote down and in what was said.
type wordSearch struct {
	workspace string
	store     *session.Store
}

// Limits of a search, so that it ends on any disk.
const (
	searchFiles    = 200       // memory files
	searchFileMost = 1 << 20   // bytes of one
	searchSessions = 200       // conversations, the last used first
	searchBytes    = 128 << 20 // of all of them
	searchShown    = 400       // characters of a hit
)

// search finds the passages in which all words occur: paragraphs of memory
// files first, then messages, the newest conversation first.
func (m wordSearch) search(ctx context.Context, query string, limit int) ([]api.Hit, error) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil, errors.New("nothing to search for")
	}
	hits, err := m.files(ctx, words, limit)
	if err != nil || len(hits) >= limit {
		return hits, err
	}
	more, err := m.sessions(ctx, words, limit-len(hits))
	return append(hits, more...), err
}

// files searches <workspace>/memory. A link that leads out of the workspace is
// not followed: the model may have made it.
func (m wordSearch) files(ctx context.Context, words []string, limit int) ([]api.Hit, error) {
	root, err := os.OpenRoot(filepath.Join(m.workspace, "memory"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read from
	names, err := fs.Glob(root.FS(), "*.md")
	if err != nil {
		return nil, err
	}
	var hits []api.Hit
	for _, name := range names[:min(len(names), searchFiles)] {
		if err := context.Cause(ctx); err != nil {
			return hits, err
		}
		body, ok := readMemory(root, name)
		if !ok {
			continue // gone, or not a file
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(body, "\r\n", "\n"), "\n\n") {
			if shown, ok := passage(part, words); ok {
				if hits = append(hits, api.Hit{Source: path.Join("memory", name), Text: shown}); len(hits) == limit {
					return hits, nil
				}
			}
		}
	}
	return hits, nil
}

func readMemory(root *os.Root, name string) (string, bool) {
	if fi, err := root.Lstat(name); err != nil || !fi.Mode().IsRegular() {
		return "", false
	}
	f, err := root.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close() //nolint:errcheck // only read from
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", false
	}
	b, err := io.ReadAll(io.LimitReader(f, searchFileMost))
	return text.Valid(string(b)), err == nil
}

// sessions searches what people and the agent said to each other.
func (m wordSearch) sessions(ctx context.Context, words []string, limit int) ([]api.Hit, error) {
	list, err := m.store.List(ctx)
	if err != nil && len(list) == 0 {
		return nil, err
	}
	var hits []api.Hit
	left := int64(searchBytes)
	for _, s := range list[:min(len(list), searchSessions)] {
		if left -= s.Bytes; left < 0 {
			break
		}
		var found []api.Hit
		for r, err := range m.store.Records(ctx, s.Key) {
			if err != nil {
				if cause := context.Cause(ctx); cause != nil {
					return hits, cause
				}
				break // removed meanwhile
			}
			if r.Role != llm.User && r.Role != llm.Assistant || r.Command || r.Internal || r.Hidden {
				continue
			}
			if shown, ok := passage(r.Display(), words); ok {
				found = append(found, api.Hit{Source: "session " + s.Key, At: moment(r.Time), Text: string(r.Role) + ": " + shown})
			}
		}
		slices.Reverse(found) // the newest first
		if hits = append(hits, found[:min(len(found), limit-len(hits))]...); len(hits) == limit {
			break
		}
	}
	return hits, nil
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// passage reports whether all words occur in a text, and shows the place of
// the first one.
func passage(s string, words []string) (string, bool) {
	lower := strings.ToLower(s)
	for _, w := range words {
		if !strings.Contains(lower, w) {
			return "", false
		}
	}
	at := strings.Index(lower, words[0])
	if len(lower) != len(s) {
		at = 0 // places differ in the two
	}
	if from := max(0, at-searchShown/4); from > 0 {
		s = "..." + text.Valid(s[from:])
	}
	return text.Ellipsis(strings.TrimSpace(s), searchShown), true
}
