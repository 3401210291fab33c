package settings

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// versionState is the file as it is, or as it was. A copy is named by the time
// at which another version took its place.
type versionState struct {
	ID      string   `json:"id"` // "current", or of a copy
	Saved   string   `json:"saved_at,omitempty"`
	Bytes   int      `json:"bytes"`
	Changed []string `json:"changed"`          // against the version before
	Broken  bool     `json:"broken,omitempty"` // it cannot be used
}

const versionPage = 20

// copies returns the names and texts of the versions, newest first.
func (w *whole) copies() (ids []string, texts [][]byte, err error) {
	path, now, err := w.onDisk()
	if err != nil {
		return nil, nil, err
	}

	ids, texts = []string{"current"}, [][]byte{now}
	names, err := config.Backups(path)
	if err != nil {
		return nil, nil, err
	}

	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it was removed meanwhile
		}
		ids, texts = append(ids, strings.TrimPrefix(filepath.Base(name), filepath.Base(path)+".bak-")), append(texts, b)
	}

	return ids, texts, nil
}

// version returns the text of one.
func (w *whole) version(id string) ([]byte, error) {
	ids, texts, err := w.copies()
	if err != nil {
		return nil, err
	}
	if i := slices.Index(ids, id); i >= 0 {
		return texts[i], nil
	}
	return nil, web.Refuse(http.StatusNotFound, "there is no such version of the configuration, or it is no longer kept")
}

func (w *whole) readVersions(_ context.Context, r *http.Request) (any, error) {
	ids, texts, err := w.copies()
	if err != nil {
		return nil, err
	}

	from, limit := 0, versionPage
	if c := r.URL.Query().Get("cursor"); c != "" {
		if from = slices.Index(ids, c); from < 0 {
			return nil, web.Refuse(http.StatusBadRequest, "the cursor is not one of ours")
		}
	}

	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && n > 0 {
		limit = min(n, versionPage)
	}

	out, next := []versionState{}, ""
	for i := from; i < len(ids); i++ {
		if i == from+limit {
			next = ids[i]
			break
		}

		v := versionState{ID: ids[i], Bytes: len(texts[i]), Changed: []string{}}
		is := w.load(texts[i])
		v.Broken = is == nil

		if i+1 < len(ids) { // it began when the one before ended
			stamp, _, _ := strings.Cut(ids[i+1], "-")
			if at, err := time.Parse("20060102T150405Z", stamp); err == nil {
				v.Saved = at.Format(time.RFC3339)
			}
			if was := w.load(texts[i+1]); is != nil && was != nil {
				v.Changed = append(v.Changed, is.Changed(was)...)
			}
		}

		out = append(out, v)
	}

	return map[string]any{"versions": out, "cursor": next}, nil
}

// load reads a text as the file; nil: it cannot be used.
func (w *whole) load(text []byte) *config.Loaded {
	o := w.File
	if o.Text = text; text == nil {
		o.Text = config.NewFile()
	}
	l, err := config.Load(o)
	if err != nil {
		return nil
	}
	return l
}

// readDiff returns the difference between two versions, credentials hidden.
func (w *whole) readDiff(_ context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	to := q.Get("to")
	if to == "" {
		to = "current"
	}

	var raw, shown [2]string
	for i, id := range []string{q.Get("version"), to} {
		b, err := w.version(id)
		if err != nil {
			return nil, err
		}
		raw[i] = string(b)
		if shown[i], err = w.masked(b); err != nil {
			return nil, err
		}
	}

	diff, added, removed := text.UnifiedDiff(q.Get("version"), to, shown[0], shown[1])
	return map[string]any{"diff": diff, "added": added, "removed": removed, "hidden": raw[0] != raw[1] && diff == ""}, nil
}

// restore replaces the file by an earlier version.
func (w *whole) restore(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Version string `json:"version"`
		Base    string `json:"base"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	text, err := w.version(in.Version)
	if err != nil {
		return nil, err
	}
	return w.replaceText(ctx, in.Base, func([]byte) ([]byte, error) { return text, nil })
}
