package search

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// A year leaves hundreds of logs, of which a few are written to. Looking at
// each of them for every message would cost more than the message does.
const (
	hotLogs  = 8           // of a directory, the last to change: looked at every time
	fullLook = time.Second // how long the others are taken to be as they were
)

// dirArchive is the folder of ended conversations below that of the others.
const dirArchive = "archive"

// logDir holds what was seen in a folder of logs.
type logDir struct {
	changed time.Time    // of the folder: logs came, went or were replaced
	looked  time.Time    // when all logs were looked at
	logs    []store.Info // the last to change first
}

// folder is a place where logs are.
type folder struct {
	stat func(name string) (store.Info, error) // "" is the folder itself
	all  func() ([]store.Info, error)
}

// list finds the files there are. Where there are many logs, one that was
// silent for long and is written to again is noticed within a second.
func (x *Index) list(ctx context.Context) ([]*source, error) {
	var out []*source
	var errs []error
	logs := func(prefix string, in folder) {
		seen, err := x.logs(prefix, in)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		out = slices.Grow(out, len(seen))
		for _, info := range seen {
			out = append(out, &source{label: prefix + path.Base(info.Name), kind: kindLog, info: info})
		}
	}
	if x.opt.Sessions != "" {
		logs("s/", x.inStore(ctx, x.opt.Sessions))
		logs("a/", x.inStore(ctx, path.Join(x.opt.Sessions, dirArchive)))
	}

	for i, dir := range x.opt.OldSessions {
		if err := x.oldLogs(dir, func(in folder) { logs("o"+strconv.Itoa(i)+"/", in) }); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}

	if x.opt.History != "" {
		if info, err := x.opt.Store.Stat(ctx, x.opt.History); err == nil && info.Exists() {
			out = append(out, &source{label: "h", kind: kindHistory, info: info})
		}
	}

	notes, err := x.notes()
	return append(out, notes...), errors.Join(append(errs, err)...)
}

// inStore returns a folder of the store.
func (x *Index) inStore(ctx context.Context, dir string) folder {
	return folder{
		stat: func(name string) (store.Info, error) { return x.opt.Store.Stat(ctx, path.Join(dir, name)) },
		all: func() (logs []store.Info, err error) {
			for info, err := range x.opt.Store.Logs(ctx, dir) {
				if err != nil {
					return nil, err
				}
				logs = append(logs, info)
			}
			return logs, nil
		},
	}
}

// oldLogs calls do with a folder that commands may change.
func (x *Index) oldLogs(dir string, do func(folder)) error {
	root, err := diskio.OpenFolder(dir)
	if err != nil {
		return err
	}

	defer root.Close() //nolint:errcheck // only read from
	stat := func(name string) (store.Info, error) {
		fi, err := root.Lstat(path.Join(".", name))
		if err != nil {
			return store.Info{}, err
		}
		return fileInfo(name, fi), nil
	}

	do(folder{stat, func() (logs []store.Info, err error) {
		d, err := root.Open(".")
		if err != nil {
			return nil, err
		}

		defer d.Close() //nolint:errcheck // only read from
		entries, err := d.ReadDir(-1)
		for _, e := range entries {
			if info, err := stat(e.Name()); err == nil && e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".jsonl") {
				logs = append(logs, info)
			}
		}
		return logs, err
	}})
	return nil
}

// logs finds the logs of a folder. The result is the caller's to read.
func (x *Index) logs(prefix string, in folder) ([]store.Info, error) {
	self, err := in.stat("")
	if err != nil {
		return nil, err
	}

	x.mu.Lock()
	last := x.dirs[prefix]
	x.mu.Unlock()
	now := time.Now()
	next := logDir{changed: self.Changed, looked: now}
	if self.Exists() && last.changed.Equal(next.changed) && now.Sub(last.looked) < fullLook && len(last.logs) > hotLogs {
		next.looked = last.looked
		next.logs = slices.Clone(last.logs)
		for i := range next.logs[:hotLogs] {
			if info, err := in.stat(path.Base(next.logs[i].Name)); err == nil {
				next.logs[i] = info
			}
		}
	} else if next.logs, err = in.all(); err != nil {
		return nil, err
	}

	slices.SortStableFunc(next.logs, func(a, b store.Info) int { return b.Changed.Compare(a.Changed) })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dirs[prefix] = next
	return next.logs, nil
}
