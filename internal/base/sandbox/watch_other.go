//go:build !linux

package sandbox

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const watchEvery = 100 * time.Millisecond

// Run looks after what the command adds to the disk until the context ends, or
// returns what it used too much of. Only Linux tells what processes use.
func (w Watch) Run(ctx context.Context) *OverError {
	began := w.freeNow()
	var walked walks
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}

		var gone int64
		for dir, free := range w.freeNow() {
			if was, ok := began[dir]; ok && was > free {
				gone = max(gone, int64(was-free)) //nolint:gosec // a size
			}
		}

		if !walked.due(gone, w.Disk) {
			continue
		}

		over, now := w.walk(gone)
		if over != nil {
			return over
		}
		walked = now
	}
}

// freeNow returns what is left on each disk that counts.
func (w Watch) freeNow() map[string]uint64 {
	out := map[string]uint64{}
	if w.Disk <= 0 || w.Dirs == nil || w.Free == nil {
		return out
	}

	for _, dir := range append(w.Dirs(), os.TempDir()) {
		if free, ok := w.Free(dir); ok {
			out[dir] = free
		}
	}
	return out
}

// nameless does nothing: only Linux tells what processes have open.
func (w Watch) nameless(func(path string, size, length int64)) {}

// grown calls fn with the files that were written since the command began. A
// program can set the time of a file back; such a file does not count here.
func (w Watch) grown(fn func(path string, size, length int64)) {
	if w.Dirs == nil {
		return
	}

	began := w.Began.Add(-2 * time.Second) // clocks of file systems are coarse
	for _, dir := range outermost(w.Dirs()) {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what cannot be read is not counted
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what cannot be read is not counted
			}
			if info, err := d.Info(); err == nil && !info.ModTime().Before(began) {
				fn(path, info.Size(), info.Size())
			}
			return nil
		})
	}
}

func machineMemory() int64 { return 0 }

// PrivateDirs returns the private temporary directories that commands got since.
func PrivateDirs(time.Time) []string { return nil }
