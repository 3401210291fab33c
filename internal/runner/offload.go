package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/text"
)

// Limits of the folder that keeps long tool results.
const (
	previewChars   = 1200
	keepBuckets    = 32
	keepBucketsFor = 7 * 24 * time.Hour
)

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
		bucket := filepath.Join(r.OffloadDir, text.SafeName(r.Call.SessionKey))
		file := filepath.Join(bucket, text.SafeName(p.call.ID)+ext)
		err := keepResult(r.OffloadDir, bucket, file, body)
		if err == nil {
			return llm.Text(fmt.Sprintf("[tool output persisted]\nFull output: %s (%d characters). Read it in pages with read_file or search it with grep; commands cannot read it.\nPreview:\n%s\n...",
				file, utf8.RuneCountInString(body), text.Cut(body, previewChars)))
		}
		r.log.WarnContext(ctx, "keep long tool result", "tool", p.call.Name, "err", err)
	}
	return llm.Text(text.CutMiddle(body, limit))
}

func keepResult(dir, bucket, file, body string) error {
	if _, err := os.Stat(bucket); err != nil {
		if err := os.MkdirAll(bucket, 0o700); err != nil {
			return err
		}
		pruneBuckets(dir, bucket)
	}
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	return diskio.WriteFile(file, []byte(body), 0o600)
}

// pruneBuckets removes the results of old conversations. It runs only when a
// new conversation gets its first long result.
func pruneBuckets(dir, current string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type bucket struct {
		path string
		at   time.Time
	}
	var all []bucket
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && e.IsDir() && path != current {
			all = append(all, bucket{path, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b bucket) int { return b.at.Compare(a.at) })
	for i, b := range all {
		if i >= keepBuckets-1 || time.Since(b.at) > keepBucketsFor {
			_ = os.RemoveAll(b.path) // best effort: the next run tries again
		}
	}
}
