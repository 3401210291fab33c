package search

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// A year leaves hundreds of logs, of which a few are written to. Looking at
// each of them for every message would cost more than the message does.
const (
	hotLogs  = 8           // of a directory, the last to change: looked at every time
	fullLook = time.Second // how long the others are taken to be as they were
)

// logDir is what was seen in a directory of logs.
type logDir struct {
	changed time.Time // of the directory: logs came, went or were replaced
	looked  time.Time // when all logs were looked at
	logs    []logFile // the last to change first
}

type logFile struct {
	name string
	info os.FileInfo
}

// list finds the files there are. Where there are many logs, one that was
// silent for long and is written to again is noticed within a second.
func (x *Index) list() ([]*source, error) {
	var out []*source
	var errs []error
	logs := func(prefix, dir string) {
		seen, err := x.logs(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		out = slices.Grow(out, len(seen))
		for _, l := range seen {
			out = append(out, &source{label: prefix + l.name, kind: kindLog, info: l.info})
		}
	}
	if x.opt.Sessions != "" {
		logs("s/", x.opt.Sessions)
		logs("a/", filepath.Join(x.opt.Sessions, "archive"))
	}
	for i, dir := range x.opt.OldSessions {
		logs("o"+strconv.Itoa(i)+"/", dir)
	}
	if x.opt.History != "" {
		if fi, err := os.Lstat(x.opt.History); err == nil && fi.Mode().IsRegular() {
			out = append(out, &source{label: "h", kind: kindHistory, info: fi})
		}
	}
	notes, err := x.notes()
	return append(out, notes...), errors.Join(append(errs, err)...)
}

// logs finds the logs of a directory. The result is the caller's to read.
func (x *Index) logs(dir string) ([]logFile, error) {
	root, err := diskio.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read from
	self, err := root.Lstat(".")
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	last := x.dirs[dir]
	x.mu.Unlock()
	now := time.Now()
	next := logDir{changed: self.ModTime(), looked: now}
	if last.changed.Equal(next.changed) && now.Sub(last.looked) < fullLook && len(last.logs) > hotLogs {
		next.looked = last.looked
		next.logs = slices.Clone(last.logs)
		for i := range next.logs[:hotLogs] {
			if fi, err := root.Lstat(next.logs[i].name); err == nil {
				next.logs[i].info = fi
			}
		}
	} else if next.logs, err = allLogs(root); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dirs[dir] = next
	return next.logs, nil
}

func allLogs(root *os.Root) ([]logFile, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // only read from
	entries, err := d.ReadDir(-1)
	out := make([]logFile, 0, len(entries))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".jsonl") || !e.Type().IsRegular() {
			continue
		}
		if fi, err := root.Lstat(e.Name()); err == nil {
			out = append(out, logFile{e.Name(), fi})
		}
	}
	slices.SortFunc(out, func(a, b logFile) int { return b.info.ModTime().Compare(a.info.ModTime()) })
	return out, err
}
