package files

import (
	"cmp"
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

// maxSearchTime bounds glob and grep; what was found until then is shown.
const maxSearchTime = 10 * time.Second

type globInput struct {
	Pattern   string `json:"pattern" min:"1" desc:"e.g. *.go, src/**/*.{ts,tsx}, or words of the path" alias:"query"`
	Path      string `json:"path,omitempty" desc:"default ." alias:"dir|directory"`
	HeadLimit *int   `json:"head_limit,omitempty" min:"0" max:"1000" hidden:"1" alias:"max_results|limit"` // default 250, 0 is all
	Offset    int    `json:"offset,omitempty" min:"0" max:"100000" hidden:"1"`
	EntryType string `json:"entry_type,omitempty" enum:"files|dirs|both" hidden:"1"`
}

// olderGlob makes a call of find_files one of glob. Words of the path are more
// than the pattern beside them says, so the pattern may be left out then.
func olderGlob(name string, in map[string]any) (map[string]any, bool) {
	if name != "find_files" {
		return nil, false
	}

	out := map[string]any{}
	for _, key := range []string{"path", "head_limit", "offset"} {
		if v, ok := in[key]; ok {
			out[key] = v
		}
	}

	text := func(key string) string {
		s, _ := in[key].(string)
		return strings.TrimSpace(s)
	}
	out["pattern"] = cmp.Or(text("query"), text("glob"), typePattern(text("type")), "**")
	if dirs, _ := in["include_dirs"].(bool); dirs {
		out["entry_type"] = "both"
	}
	return out, true
}

// window is the part of a long result that is shown.
type window struct{ offset, limit int }

func newWindow(headLimit *int, offset int) window {
	w := window{offset: offset, limit: 250}
	if headLimit != nil {
		w.limit = *headLimit
	}
	return w
}

// of cuts a result of n entries to the window.
func (w window) of(n int) (from, to int) {
	from = min(w.offset, n)
	if w.limit == 0 {
		return from, n
	}
	return from, min(n, from+w.limit)
}

// footer says what the window leaves out.
func (w window) footer(n int, what string) string {
	from, to := w.of(n)
	switch {
	case to < n:
		return fmt.Sprintf("\n\n(%s %d-%d of %d; next: offset=%d)", what, from+1, to, n, to)
	case w.offset > 0:
		return fmt.Sprintf("\n\n(%s %d-%d of %d)", what, min(from+1, n), to, n)
	}
	return ""
}

// hit is a found file.
type hit struct {
	path  string // as shown
	at    int64  // modification time
	count int    // matching lines
}

// anyForeign reports whether one of the files came from outside.
func (f *family) anyForeign(hits []hit) bool {
	return slices.ContainsFunc(hits, func(h hit) bool {
		abs, err := f.jail.Path(strings.TrimSuffix(h.path, "/"))
		return err != nil || f.foreign(abs)
	})
}

func newestFirst(a, b hit) int {
	return cmp.Or(cmp.Compare(b.at, a.at), comparePaths(a.path, b.path))
}

func (f *family) glob(ctx context.Context, _ tool.Call, in globInput) (tool.Result, error) {
	dir, pat := cmp.Or(in.Path, "."), in.Pattern
	if filepath.IsAbs(pat) || strings.HasPrefix(pat, "~/") {
		dir, pat = splitPattern(pat)
	}

	p, err := compilePattern(pat)
	if err != nil {
		return tool.Fail(tool.InvalidArgs, "%v", err), nil
	}

	s, res, err := f.openSearch(ctx, dir)
	if s == nil {
		return res, err
	}

	defer s.close()
	wantFiles, wantDirs := in.EntryType != "dirs", in.EntryType == "dirs" || in.EntryType == "both"
	found := make([][]hit, diskio.WalkWorkers())
	near := make([][]hit, len(found)) // paths that contain the words of a pattern without wildcards
	words := pathWords(pat)
	var dirs hitList
	w := s.walker()
	enter := w.Enter
	w.Enter = func(d *diskio.Dir, rel string, g ignores, entries []fs.DirEntry) (ignores, []fs.DirEntry) {
		g, kept := enter(d, rel, g, entries)
		for _, e := range kept {
			if wantDirs && e.IsDir() && p.match(rel, e.Name()) {
				dirs.add(s.hit(d, rel, e, "/"))
			}
		}
		return g, kept
	}

	w.File = func(d *diskio.Dir, rel string, e fs.DirEntry, worker int) {
		if wantFiles && p.match(rel, e.Name()) {
			found[worker] = append(found[worker], s.hit(d, rel, e, ""))
		} else if wantFiles && words != nil && len(near[worker]) < maxNear && containsAll(path.Join(rel, e.Name()), words) {
			near[worker] = append(near[worker], s.hit(d, rel, e, ""))
		}
	}

	late, err := s.run(ctx, w)
	if err != nil {
		return tool.Result{}, err
	}

	all := append(slices.Concat(found...), dirs.hits...)
	if len(all) == 0 {
		all = slices.Concat(near...)
	}

	slices.SortStableFunc(all, newestFirst)
	if len(all) == 0 {
		return tool.Textf("No match for %s under %s.%s%s", in.Pattern, s.shown, s.ignoredNote(), late), nil
	}

	win := newWindow(in.HeadLimit, in.Offset)
	var b strings.Builder
	from, to := win.of(len(all))
	for _, h := range all[from:to] {
		b.WriteString(h.path + "\n")
	}

	out := tool.Text(strings.TrimSuffix(b.String(), "\n") + win.footer(len(all), "entries") + late)
	out.Untrusted = f.anyForeign(all[from:to])
	return out, nil
}

// maxNear bounds the paths a worker keeps for a pattern that may be words.
const maxNear = 10_000

// pathWords splits a pattern without wildcards into words to look for; nil for
// a real pattern.
func pathWords(pattern string) []string {
	if strings.ContainsAny(pattern, "*?[{") {
		return nil
	}
	return strings.Fields(strings.ToLower(pattern))
}

func containsAll(p string, words []string) bool {
	p = strings.ToLower(p)
	for _, w := range words {
		if !strings.Contains(p, w) {
			return false
		}
	}
	return true
}

// splitPattern separates the fixed directory of an absolute pattern.
func splitPattern(p string) (dir, rest string) {
	elems := strings.Split(filepath.ToSlash(p), "/")
	n := slices.IndexFunc(elems, func(e string) bool { return strings.ContainsAny(e, "*?[{") })
	if n < 0 {
		n = len(elems) - 1
	}
	return cmp.Or(strings.Join(elems[:n], "/"), "/"), strings.Join(elems[n:], "/")
}

// search is a walk over the files worth looking at below a directory.
type search struct {
	f       *family
	dir     *diskio.Dir
	shown   string
	base    string // prefix of shown paths
	ignored atomic.Int64
	failed  atomic.Int64
}

// openSearch starts a search; without one the result or error says why.
func (f *family) openSearch(ctx context.Context, dir string) (*search, tool.Result, error) {
	if strings.HasPrefix(dir, "builtin://") {
		return nil, tool.Fail(tool.Unsupported, "built-in files cannot be searched; use list_dir and read_file"), nil
	}

	d, err := f.jail.OpenDir(dir)
	if err != nil {
		if errors.Is(err, diskio.ErrNotRegular) {
			return nil, tool.Fail(tool.InvalidArgs, "%s is not a directory", dir), nil
		}
		res, err := f.fail(ctx, dir, err)
		return nil, res, err
	}

	s := &search{f: f, dir: d, shown: f.show(d.Path())}
	if s.shown != "." {
		s.base = filepath.ToSlash(f.jail.Display(d.Path()))
	}
	return s, tool.Result{}, nil
}

func (s *search) close() { _ = s.dir.Close() }

// walker walks everything that is not ignored; File is left to the caller.
func (s *search) walker() diskio.Walk[ignores] {
	return diskio.Walk[ignores]{
		Enter: func(d *diskio.Dir, rel string, g ignores, entries []fs.DirEntry) (ignores, []fs.DirEntry) {
			g = g.enter(d, rel, entries, rel == "" && s.base == "")
			kept := slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
				return noiseName(e.Name()) || g.skip(rel, e.Name(), e.IsDir())
			})
			if n := len(entries) - len(kept); n > 0 {
				s.ignored.Add(int64(n))
			}
			return g, kept
		},
		Failed: func(string, error) { s.failed.Add(1) },
	}
}

// run walks and says in late if time ran out.
func (s *search) run(ctx context.Context, w diskio.Walk[ignores]) (late string, err error) {
	limited, cancel := context.WithTimeout(ctx, maxSearchTime)
	defer cancel()
	err = w.Run(limited, s.dir, s.f.inheritedIgnores(s.dir))
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "\n(Stopped after 10 s, incomplete; narrow path or pattern.)", nil
	}
	return "", nil
}

func (s *search) path(rel, name string) string { return printable(path.Join(s.base, rel, name)) }

func (s *search) hit(d *diskio.Dir, rel string, e fs.DirEntry, suffix string) hit {
	h := hit{path: s.path(rel, e.Name()) + suffix}
	if t, err := d.ModTime(e.Name()); err == nil {
		h.at = t.UnixNano()
	}
	return h
}

// ignoredNote reminds that something was left out on purpose.
func (s *search) ignoredNote() string {
	if s.ignored.Load() == 0 {
		return ""
	}
	return " Ignored names (.gitignore, .ignore, node_modules, build, ...) were left out; give path inside one to search it."
}

// hitList collects hits from several goroutines.
type hitList struct {
	mu   sync.Mutex
	hits []hit
}

func (l *hitList) add(h hit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits = append(l.hits, h)
}
