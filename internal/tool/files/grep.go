package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Size limits of searched files, in bytes: those met on a walk, and one that
// was named.
const (
	maxWalkedBytes = 2_000_000
	maxNamedBytes  = 100_000_000
)

type grepInput struct {
	Pattern   string `json:"pattern" min:"1" desc:"RE2, matched per line"`
	Path      string `json:"path,omitempty" desc:"file or dir, default ." alias:"file_path|dir|directory"`
	Glob      string `json:"glob,omitempty" alias:"include"`
	Type      string `json:"type,omitempty" desc:"py, go, ts, ..."`
	Fold      bool   `json:"case_insensitive,omitempty" alias:"ignore_case"`
	Fixed     bool   `json:"fixed_strings,omitempty"`
	Mode      string `json:"output_mode,omitempty" enum:"files_with_matches|content|count"`
	Before    int    `json:"context_before,omitempty" min:"0" max:"20"`
	After     int    `json:"context_after,omitempty" min:"0" max:"20"`
	HeadLimit *int   `json:"head_limit,omitempty" min:"0" max:"1000" desc:"default 250, 0 = all" alias:"max_matches|max_results|limit"`
	Offset    int    `json:"offset,omitempty" min:"0" max:"100000" hidden:"1"`
}

func (f *family) grep(ctx context.Context, _ tool.Call, in grepInput) (tool.Result, error) {
	m, err := compileMatcher(in.Pattern, in.Fixed, in.Fold)
	if err != nil {
		return tool.Fail(tool.InvalidArgs, "%v", err), nil
	}

	g := &grepRun{in: in, m: m, f: f, win: newWindow(in.HeadLimit, in.Offset)}
	if g.want, err = in.filter(); err != nil {
		return tool.Fail(tool.InvalidArgs, "%v", err), nil
	}

	dir := cmp.Or(in.Path, ".")
	g.blocks.limit = g.win.offset + maxBlocks
	if g.win.limit > 0 {
		g.blocks.limit = g.win.offset + g.win.limit + 1
	}

	if info, err := f.jail.Stat(dir); err == nil && !info.IsDir() {
		return f.grepFile(ctx, g, dir)
	}

	s, res, err := f.openSearch(ctx, dir)
	if s == nil {
		return res, err
	}

	defer s.close()
	g.s, g.shown = s, s.shown
	g.workers = make([]grepWorker, diskio.WalkWorkers())
	w := s.walker()
	w.File = g.visit
	late, err := s.run(ctx, w)
	if err != nil {
		return tool.Result{}, err
	}
	return g.result(late), nil
}

// filter combines glob and type.
func (in grepInput) filter() (func(dir, name string) bool, error) {
	var tests []*pattern
	for _, p := range []string{in.Glob, typePattern(in.Type)} {
		if p == "" {
			continue
		}
		c, err := compilePattern(p)
		if err != nil {
			return nil, err
		}
		tests = append(tests, c)
	}

	return func(dir, name string) bool {
		for _, t := range tests {
			if !t.match(dir, name) {
				return false
			}
		}
		return true
	}, nil
}

// typePattern returns the glob of a file type.
func typePattern(typ string) string {
	typ = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(typ), "."))
	switch typ {
	case "":
		return ""
	case "py", "python":
		return "*.{py,pyi}"
	case "js", "javascript":
		return "*.{js,jsx,mjs,cjs}"
	case "ts", "typescript":
		return "*.{ts,tsx,mts,cts}"
	case "md", "markdown":
		return "*.{md,mdx}"
	case "rs", "rust":
		return "*.rs"
	case "sh", "shell":
		return "*.{sh,bash}"
	case "yaml", "yml":
		return "*.{yaml,yml}"
	case "html":
		return "*.{html,htm}"
	case "css":
		return "*.{css,scss,sass}"
	case "c":
		return "*.{c,h}"
	case "cpp":
		return "*.{cpp,cc,cxx,hpp,hh,hxx,h}"
	}

	return "*." + typ
}

// grepRun is one search.
type grepRun struct {
	in      grepInput
	m       *matcher
	want    func(dir, name string) bool
	win     window
	s       *search
	shown   string // where was searched
	workers []grepWorker
	blocks  blockList // content mode
	f       *family
	foreign bool // something shown came from outside
	binary  atomic.Int64
	large   atomic.Int64
	failed  atomic.Int64
}

// grepWorker holds what one goroutine of the walk keeps to itself.
type grepWorker struct {
	buf  []byte
	hits []hit
	_    [64]byte // keeps neighbours off each other's cache line
}

// visit searches one file of a walk.
func (g *grepRun) visit(d *diskio.Dir, rel string, e fs.DirEntry, worker int) {
	if !e.Type().IsRegular() || !g.want(rel, e.Name()) {
		return
	}
	if last := g.blocks.last.Load(); last != nil && comparePaths(g.s.path(rel, e.Name()), *last) > 0 {
		return
	}

	w := &g.workers[worker]
	if w.buf == nil {
		w.buf = make([]byte, 0, 64<<10)
	}

	noNUL := true
	data, meta, err := d.ReadFile(e.Name(), maxWalkedBytes, w.buf, func(head []byte) bool {
		noNUL = textual(head)
		return noNUL
	})
	switch {
	case errors.Is(err, diskio.ErrTooLarge):
		g.large.Add(1)
		return
	case errors.Is(err, diskio.ErrNotRegular), errors.Is(err, diskio.ErrProtected):
		return
	case err != nil:
		g.failed.Add(1)
		return
	}

	w.buf = data[:0]
	if !noNUL {
		g.binary.Add(1)
		return
	}

	from := fileBlocks{abs: func() string { return filepath.Join(g.s.dir.Path(), rel, e.Name()) }}
	if h, ok := g.search(data, from, func() string { return g.s.path(rel, e.Name()) }); ok {
		h.at = meta.ModTime.UnixNano()
		w.hits = append(w.hits, h)
	}
}

// textual judges by the first piece of a file whether to read on.
func textual(head []byte) bool {
	if len(head) >= 2 && (head[0] == 0xFF && head[1] == 0xFE || head[0] == 0xFE && head[1] == 0xFF) {
		return true
	}
	return bytes.IndexByte(head, 0) < 0
}

// search looks through one text. The path is only made when something is found.
func (g *grepRun) search(data []byte, from fileBlocks, name func() string) (h hit, ok bool) {
	if enc := sniff(data[:min(len(data), 2)], true, ""); enc == utf16LE || enc == utf16BE {
		data = decodeAll(data, enc)
	}

	checked, count := false, 0
	var found []block
	content := g.in.Mode == "content"
	data = dropCR(data)
	g.m.scan(data, content, func(l lineMatch) bool {
		if !checked {
			if looksBinary(data) {
				g.binary.Add(1)
				count = 0
				return false
			}
			checked = true
		}

		count++
		if content {
			found = append(found, makeBlock(data, l, g.in.Before, g.in.After))
			return len(found) < g.blocks.limit
		}
		return g.in.Mode == "count"
	})
	if count == 0 {
		return hit{}, false
	}

	h = hit{path: name(), count: count}
	if content {
		from.path, from.blocks = h.path, found
		g.blocks.add(from)
	}
	return h, true
}

// grepFile searches one named file.
func (f *family) grepFile(ctx context.Context, g *grepRun, name string) (tool.Result, error) {
	file, err := f.jail.Open(name)
	if err != nil {
		return f.fail(ctx, name, err)
	}

	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return f.fail(ctx, name, err)
	}

	g.shown = f.show(name)
	if info.Size() > maxNamedBytes {
		return tool.Fail(tool.TooLarge, "%s is %s; at most %s are searched, use exec for larger files", g.shown, byteSize(info.Size()), byteSize(maxNamedBytes)), nil
	}

	data := make([]byte, 0, info.Size()+512)
	for {
		if ctx.Err() != nil {
			return tool.Result{}, ctx.Err()
		}

		n, err := file.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) || len(data) > maxNamedBytes {
			break
		}
		if err != nil {
			return f.fail(ctx, name, err)
		}

		if len(data) == cap(data) {
			data = slices.Grow(data, 64<<10)
		}
	}

	if !textual(data) {
		return tool.Fail(tool.Unsupported, "%s is binary", g.shown), nil
	}

	g.workers = make([]grepWorker, 1)
	abs, err := f.jail.Path(name)
	if err != nil {
		return f.fail(ctx, name, err)
	}

	if h, ok := g.search(data, fileBlocks{abs: func() string { return abs }}, func() string { return g.shown }); ok {
		g.workers[0].hits = []hit{h}
	}
	return g.result(""), nil
}

// result renders what was found.
func (g *grepRun) result(late string) tool.Result {
	var hits []hit
	for i := range g.workers {
		hits = append(hits, g.workers[i].hits...)
	}

	if len(hits) == 0 {
		note := ""
		if g.s != nil {
			note = g.s.ignoredNote()
		}
		return tool.Textf("No match for %s in %s.%s%s%s", g.in.Pattern, g.shown, note, g.skipped(), late)
	}

	if g.in.Mode == "content" {
		res := tool.Text(g.renderBlocks() + late)
		res.Untrusted = g.foreign
		return res
	}

	slices.SortStableFunc(hits, newestFirst)
	from, to := g.win.of(len(hits))
	var b strings.Builder
	for i, h := range hits[from:to] {
		row := h.path
		if g.in.Mode == "count" {
			row = fmt.Sprintf("%s: %d", h.path, h.count)
		}

		if b.Len()+len(row) > maxResultChars {
			to = from + i
			break
		}
		b.WriteString(row + "\n")
	}

	win := window{offset: from, limit: to - from}
	out := strings.TrimSuffix(b.String(), "\n") + win.footer(len(hits), "files")
	if g.in.Mode == "count" {
		total := 0
		for _, h := range hits {
			total += h.count
		}
		out += fmt.Sprintf("\n\n(%s in %s)", plural(total, "matching line"), plural(len(hits), "file"))
	}

	res := tool.Text(out + g.skipped() + late)
	res.Untrusted = g.f.anyForeign(hits[from:to])
	return res
}

// skipped counts the files that were not searched.
func (g *grepRun) skipped() string {
	failed := g.failed.Load()
	if g.s != nil {
		failed += g.s.failed.Load()
	}

	var parts []string
	for _, c := range []struct {
		n    int64
		what string
	}{{g.binary.Load(), "binary"}, {g.large.Load(), "over 2 MB (give such a file as path)"}, {failed, "unreadable"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}

	if len(parts) == 0 {
		return ""
	}
	return "\n(Skipped: " + strings.Join(parts, ", ") + ".)"
}

// maxBlocks is more than fits into a result, whose blocks take at least 10 characters.
const maxBlocks = maxResultChars/10 + 1

// blockList keeps the first blocks in path order, whatever order they come in.
type blockList struct {
	limit int
	last  atomic.Pointer[string] // when full: paths after it cannot be shown

	mu    sync.Mutex
	files []fileBlocks
	n     int
}

type fileBlocks struct {
	path   string // as shown
	abs    func() string
	blocks []block
}

func (l *blockList) add(f fileBlocks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = append(l.files, f)
	if l.n += len(f.blocks); l.n >= 2*l.limit {
		l.trim()
	}
}

// trim sorts and drops what lies beyond the limit.
func (l *blockList) trim() {
	slices.SortStableFunc(l.files, func(a, b fileBlocks) int { return comparePaths(a.path, b.path) })
	n := 0
	for i, f := range l.files {
		if n += len(f.blocks); n >= l.limit {
			clear(l.files[i+1:])
			l.files = l.files[:i+1]
			last := f.path
			l.last.Store(&last)
			break
		}
	}

	l.n = n
}
