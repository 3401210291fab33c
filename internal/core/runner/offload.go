package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Limits of the folder that keeps long tool results.
const (
	previewChars = 1200
	keepBuckets  = 32 // conversations
	keepFiles    = 64 // of one conversation
	keepBytes    = 64 << 20
	keepFor      = 7 * 24 * time.Hour
)

// offloaded begins a message that stands for a result in a file.
const offloaded = "[tool output persisted]"

// offload keeps a text that is too long for the prompt in a file and returns a
// reference with a preview; without a folder, or when writing fails, the text
// is cut instead.
func (r *run) offload(ctx context.Context, p prepared, c llm.Content) llm.Content {
	limit := r.Limits.ToolResultChars
	body, ext := c.Text, ".txt"
	if c.Blocks != nil {
		for _, b := range c.Blocks {
			if b.Type != "text" {
				return c
			}
		}
		body, ext = llm.Content{Blocks: c.Blocks}.String(), ".txt"
	}

	if len(body) <= limit || utf8.RuneCountInString(body) <= limit {
		return c
	}

	if r.OffloadDir != "" {
		// Providers use ids of calls again, so the result is part of the name.
		sum := sha256.Sum256([]byte(body))
		file := filepath.Join(r.OffloadDir, text.SafeName(r.Call.SessionKey), text.SafeName(p.call.ID)+"-"+hex.EncodeToString(sum[:4])+ext)
		err := keepResult(file, body)
		if err == nil {
			return llm.Text(fmt.Sprintf(offloaded+"\nFull output: %s (%d characters). Read it in pages with read_file or search it with grep; commands cannot read it.\nPreview:\n%s\n...",
				file, utf8.RuneCountInString(body), text.Cut(body, previewChars)))
		}
		r.log.WarnContext(ctx, "keep long tool result", "tool", p.call.Name, "err", err)
	}

	return llm.Text(text.CutMiddle(body, limit))
}

// keepResult writes a result that is not there yet.
func keepResult(file, body string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return diskio.WriteFile(file, []byte(body), 0o600)
}

// Offloaded reports whether one of the messages stands for a result in a file.
func Offloaded(msgs []llm.Message) bool {
	return slices.ContainsFunc(msgs, func(m llm.Message) bool {
		return m.Role == llm.ToolRole && strings.Contains(m.Content.Text, offloaded)
	})
}

// PruneResults removes results that are not needed any more from the folder that
// keeps them: those that no conversation names, if they are old or many. Says
// returns the words of the conversation that a bucket belongs to; it is asked only
// if something could be removed, and if it fails nothing is.
func PruneResults(dir string, now time.Time, says func(bucket string) ([]string, error)) error {
	buckets, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}

	var errs []error
	for i, b := range newestFirst(buckets) {
		bucket := filepath.Join(dir, b.Name())
		files, err := os.ReadDir(bucket)
		if err != nil {
			errs = append(errs, ignoreMissing(err))
			continue
		}

		old := surplus(files, now, i >= keepBuckets)
		if len(old) == 0 {
			continue
		}

		said, err := says(b.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}

		for _, name := range old {
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, name) }) {
				errs = append(errs, ignoreMissing(os.Remove(filepath.Join(bucket, name))))
			}
		}

		_ = os.Remove(bucket) // if it is empty
	}

	return errors.Join(errs...)
}

// surplus names the files of a bucket that are too old or too many.
func surplus(files []fs.DirEntry, now time.Time, all bool) (names []string) {
	size := int64(0)
	for i, f := range newestFirst(files) {
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if size += info.Size(); all || i >= keepFiles || size > keepBytes || now.Sub(info.ModTime()) > keepFor {
			names = append(names, f.Name())
		}
	}

	return names
}

func newestFirst(entries []fs.DirEntry) []fs.DirEntry {
	at := map[string]time.Time{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			at[e.Name()] = info.ModTime()
		}
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return at[b.Name()].Compare(at[a.Name()]) })
	return entries
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	return err
}
