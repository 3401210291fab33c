package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Bounds of a recursive listing.
const (
	maxListed   = 50_000
	maxListTime = 5 * time.Second
)

type listInput struct {
	Path      string `json:"path" alias:"dir|directory"`
	Recursive bool   `json:"recursive,omitempty"`
	Max       int    `json:"max_entries,omitempty" min:"1" hidden:"1"` // default 200
}

func (f *family) listDir(ctx context.Context, _ tool.Call, in listInput) (tool.Result, error) {
	if in.Max == 0 {
		in.Max = 200
	}

	if name, ok := f.builtin(in.Path); ok {
		return f.listVirtual(name, in), nil
	}

	d, err := f.jail.OpenDir(in.Path)
	if err != nil {
		if name, ok := f.fallback(in.Path); ok && diskio.IsMissing(err) {
			return f.listVirtual(name, in), nil
		}
		if errors.Is(err, diskio.ErrNotRegular) {
			return tool.Fail(tool.InvalidArgs, "%s is a file; use read_file", in.Path), nil
		}
		return f.fail(ctx, in.Path, err)
	}

	defer func() { _ = d.Close() }()
	var rows []string
	l, note := &lister{f: f}, ""
	if in.Recursive {
		rows, note, err = l.tree(ctx, d)
	} else {
		rows, err = l.flat(d)
	}

	if err != nil {
		return f.fail(ctx, in.Path, err)
	}

	res := listing(f.show(d.Path()), rows, in.Max, note)
	res.Untrusted = l.foreign.Load()
	return res, nil
}

// lister lists a directory of the jail.
type lister struct {
	f       *family
	foreign atomic.Bool // a name from outside was shown
}

func listing(dir string, rows []string, limit int, note string) tool.Result {
	if len(rows) == 0 {
		return tool.Textf("(%s is empty, apart from ignored names such as .git or node_modules)%s", dir, note)
	}
	out := strings.Join(rows[:min(len(rows), limit)], "\n")
	if len(rows) > limit {
		out += fmt.Sprintf("\n\n(%d of %d entries; raise max_entries or list a subdirectory)", limit, len(rows))
	}
	return tool.Text(out + note)
}

func (l *lister) flat(d *diskio.Dir) ([]string, error) {
	entries, err := d.Entries()
	if err != nil {
		return nil, err
	}

	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var rows []string
	for _, e := range entries {
		if noiseName(e.Name()) {
			continue
		}
		rows = append(rows, icon(e)+l.entryName(d, "", e))
		l.named(d, e)
	}

	return rows, nil
}

// named notes that the name of an entry is shown: names from outside may be
// words, too.
func (l *lister) named(d *diskio.Dir, e fs.DirEntry) {
	if !l.foreign.Load() && l.f.foreign(filepath.Join(d.Path(), e.Name())) {
		l.foreign.Store(true)
	}
}

func icon(e fs.DirEntry) string {
	switch {
	case e.IsDir():
		return "📁 "
	case e.Type()&fs.ModeSymlink != 0:
		return "🔗 "
	}
	return "📄 "
}

// entryName returns the relative path of an entry, with the target of a link.
func (l *lister) entryName(d *diskio.Dir, rel string, e fs.DirEntry) string {
	name := printable(path.Join(rel, e.Name()))
	if e.Type()&fs.ModeSymlink != 0 {
		if target, err := l.f.jail.Readlink(filepath.Join(d.Path(), e.Name())); err == nil {
			return name + " -> " + printable(target)
		}
	}
	return name
}

// tree lists everything below a directory, each once, links not followed.
func (l *lister) tree(ctx context.Context, d *diskio.Dir) (rows []string, note string, err error) {
	limited, cancel := context.WithTimeout(ctx, maxListTime)
	defer cancel()
	var mu sync.Mutex
	failed := 0
	full := false
	add := func(row string) {
		mu.Lock()
		defer mu.Unlock()
		if len(rows) >= maxListed {
			full = true
			cancel()
			return
		}
		rows = append(rows, row)
	}

	w := diskio.Walk[struct{}]{
		Enter: func(d *diskio.Dir, rel string, _ struct{}, entries []fs.DirEntry) (struct{}, []fs.DirEntry) {
			entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return noiseName(e.Name()) })
			for _, e := range entries {
				l.named(d, e)
				if e.IsDir() {
					add(printable(path.Join(rel, e.Name())) + "/")
				}
			}
			return struct{}{}, entries
		},
		File:   func(d *diskio.Dir, rel string, e fs.DirEntry, _ int) { add(l.entryName(d, rel, e)) },
		Failed: func(string, error) { mu.Lock(); failed++; mu.Unlock() },
	}

	err = w.Run(limited, d, struct{}{})
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}

	slices.SortStableFunc(rows, comparePaths)
	switch {
	case full:
		note = fmt.Sprintf("\n(Stopped after %d entries; list a subdirectory.)", maxListed)
	case err != nil:
		note = "\n(Stopped after 5 s, incomplete; list a subdirectory.)"
	}

	if failed > 0 {
		note += fmt.Sprintf("\n(%d of the directories could not be read.)", failed)
	}
	return rows, note, nil
}

// comparePaths orders slash paths element by element, so that a directory's
// content follows it directly.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/', b[i] != '/' && a[i] < b[i]:
			return -1
		default:
			return 1
		}
	}
	return len(a) - len(b)
}

func (f *family) listVirtual(name string, in listInput) tool.Result {
	missing := tool.Fail(tool.NotFound, "%s does not exist; list_dir builtin:// shows what is built in", in.Path)
	if f.virtual == nil {
		return missing
	}

	var rows []string
	err := fs.WalkDir(f.virtual, name, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == name {
			return err
		}

		rel := strings.TrimPrefix(strings.TrimPrefix(p, name), "/")
		switch {
		case !in.Recursive:
			rows = append(rows, icon(e)+rel)
			if e.IsDir() {
				return fs.SkipDir
			}

		case e.IsDir():
			rows = append(rows, rel+"/")
		default:
			rows = append(rows, rel)
		}

		return nil
	})
	if err != nil {
		return missing
	}
	if len(rows) == 0 {
		return tool.Fail(tool.InvalidArgs, "%s is a file; use read_file", in.Path)
	}
	return listing(in.Path, rows, in.Max, "")
}
