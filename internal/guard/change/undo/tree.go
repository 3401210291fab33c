package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

const (
	maxDepth = 128
	// provenAge is how old a time stamp must be before an unchanged one proves
	// an unchanged file: coarse clocks give two writes the same stamp.
	provenAge = 100 * time.Millisecond
)

// tooLargeError says that the workspace is more than the store watches.
type tooLargeError struct{ why string }

func (e tooLargeError) Error() string { return e.why }

// skippedFolder recognises folders that are made by programs from other things
// and can be made again, or that have a history of their own.
func skippedFolder(name string) bool {
	switch name {
	case ".git", ".hg", ".svn", ".jj", ".nanobot", "node_modules", "__pycache__", ".venv", ".tox", ".cache",
		".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".terraform":
		return true
	}
	return false
}

// cacheTag marks a folder that its program calls a cache.
const cacheTag = "CACHEDIR.TAG"

// walker looks at the workspace once.
type walker struct {
	s       *Store
	ctx     context.Context //nolint:containedctx // a walker lives inside one call
	b       *batch
	tree    map[string]entry
	skipped []string
	bytes   int64
	young   int64 // time stamps from here on, in nanoseconds, prove nothing
}

func (s *Store) walker(ctx context.Context, b *batch) *walker {
	return &walker{
		s: s, ctx: ctx, b: b, tree: make(map[string]entry, len(s.log.model.tree)+16),
		young: time.Now().Add(-provenAge).UnixNano(), // compared with the disk's clock
	}
}

// walk looks at the whole workspace and keeps in b what was not kept before.
// Files that look as they did the last time are not read.
func (s *Store) walk(ctx context.Context, b *batch) (*walker, error) {
	w := s.walker(ctx, b)
	root, err := diskio.OpenFolder(s.area.workspace)
	if err != nil {
		return nil, err
	}

	defer root.Close() //nolint:errcheck // nothing was written through it
	if err := w.folder(root, "", 0); err != nil {
		return nil, err
	}

	slices.Sort(w.skipped)
	w.ask()
	return w, nil
}

func (w *walker) folder(dir *os.Root, rel string, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return context.Cause(w.ctx)
	}

	f, err := dir.Open(".")
	if err != nil {
		return err
	}

	names, err := f.Readdirnames(-1)
	_ = f.Close()
	if err != nil {
		return err
	}
	if rel != "" && slices.Contains(names, cacheTag) {
		w.skip(rel)
		return nil
	}

	prefix := ""
	if rel != "" {
		prefix = rel + "/"
	}

	for _, base := range names {
		name := prefix + base
		if slices.Contains(w.s.exclude, name) || strings.HasPrefix(base, ".nanobot-") && strings.HasSuffix(base, ".tmp") {
			continue
		}
		if err := w.child(spot{dir, base}, name, depth); err != nil {
			return err
		}
		if len(w.tree) > w.s.MaxFiles {
			return tooLargeError{fmt.Sprintf("the workspace holds more than %d files and folders", w.s.MaxFiles)}
		}
		if w.bytes > w.s.MaxBytes/2 {
			return tooLargeError{fmt.Sprintf("the workspace holds more than %d MiB", w.s.MaxBytes>>21)}
		}
	}

	return nil
}

// child looks at an entry of a folder.
func (w *walker) child(sp spot, rel string, depth int) error {
	info, err := sp.dir.Lstat(sp.name)
	switch {
	case diskio.IsMissing(err):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return w.name(sp, rel, info)
	case skippedFolder(sp.name):
		w.skip(rel)
		return nil
	}

	return w.subfolder(sp, rel, info, depth)
}

func (w *walker) subfolder(sp spot, rel string, info fs.FileInfo, depth int) error {
	sub, err := enterFolder(sp.dir, sp.name, info)
	switch {
	case diskio.IsMissing(err) || errors.Is(err, errDetour):
		return nil // it is changing right now
	case errors.Is(err, fs.ErrPermission) || depth >= maxDepth:
		if err == nil {
			_ = sub.Close()
		}
		w.skip(rel)
		return nil

	case err != nil:
		return err
	}

	defer sub.Close() //nolint:errcheck // nothing was written through it
	w.tree[rel] = entry{state: w.s.area.plain(info)}
	err = w.folder(sub, rel, depth+1)
	if errors.Is(err, fs.ErrPermission) {
		w.skip(rel)
		return nil
	}
	return err
}

// maxSkipped bounds how many left-out folders are named.
const maxSkipped = 20

func (w *walker) skip(rel string) {
	if base := path.Base(rel); base == ".nanobot" || base == "__pycache__" {
		return // caches, and our own folder: not reported
	}
	if len(w.skipped) < maxSkipped {
		w.skipped = append(w.skipped, rel)
	}
}

// name looks at something that is not a folder; info is what it seems to be.
func (w *walker) name(sp spot, rel string, info fs.FileInfo) error {
	now := w.s.area.plain(info)
	switch now.Kind {
	case kindOther, kindDir: // a folder by now: it is changing
		return nil
	case kindFile:
		if old, ok := w.s.log.model.tree[rel]; ok && sameFile(old, now, info) {
			w.tree[rel] = old
			w.bytes += old.Size
			return nil
		}
	}

	st, data, info, err := w.s.area.inspect(sp)
	for range 3 { // it is being replaced right now
		if !errors.Is(err, diskio.ErrChanged) {
			break
		}
		st, data, info, err = w.s.area.inspect(sp)
	}

	switch {
	case errors.Is(err, diskio.ErrChanged):
		w.tree[rel] = entry{state: state{Kind: kindShut}}
		return nil
	case err != nil:
		return err
	case st.Kind == kindGone:
		return nil
	}

	if st.Kind == kindFile {
		if w.bytes += st.Size; w.bytes <= w.s.MaxBytes/2 {
			w.b.blob(st.Hash, data)
		}
	}

	w.tree[rel] = w.entry(st, info)
	return w.b.err
}

func (w *walker) entry(st state, info fs.FileInfo) entry {
	e := entry{state: st}
	e.Mtime, e.Ctime, e.Inode = stamps(info)
	if e.Ctime == 0 {
		e.At = e.Mtime
	}
	if max(e.Mtime, e.Ctime) >= w.young {
		e.Mtime = 0
	}
	return e
}

// sameFile reports whether a file is the one that was read before.
func sameFile(old entry, now state, info fs.FileInfo) bool {
	mtime, ctime, inode := stamps(info)
	return old.Kind == kindFile && old.Mtime != 0 && old.Mtime == mtime && old.Ctime == ctime && old.Inode == inode &&
		old.Size == now.Size && old.Mode == now.Mode
}

// delta lists what differs from an older look, by path.
func (w *walker) delta(old map[string]entry) (out []delta) {
	for p, e := range w.tree {
		if was, ok := old[p]; !ok || was != e {
			out = append(out, delta{Path: p, Entry: &e})
		}
	}

	for p := range old {
		if _, ok := w.tree[p]; !ok {
			out = append(out, delta{Path: p})
		}
	}

	slices.SortStableFunc(out, func(a, b delta) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// recheck looks only at the names that are known, for a workspace that has
// become too large to be walked.
func (s *Store) recheck(ctx context.Context, b *batch) (*walker, error) {
	w := s.walker(ctx, b)
	for p := range s.log.model.tree {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		sp, err := s.area.spot(p)
		if diskio.IsMissing(err) || errors.Is(err, errDetour) {
			continue
		}
		if err != nil {
			return nil, err
		}

		info, err := sp.dir.Lstat(sp.name)
		switch {
		case err != nil:
		case info.IsDir():
			w.tree[p] = entry{state: s.area.plain(info)}
		default:
			err = w.name(sp, p, info)
		}

		sp.close()
		if err != nil && !diskio.IsMissing(err) {
			return nil, err
		}
	}

	w.ask()
	return w, nil
}
