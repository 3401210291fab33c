package sandbox

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Watch looks after what all processes of a running command use together. The
// kernel bounds single processes and single files; only a control group bounds
// sums, and not every machine has one for us.
type Watch struct {
	// Members lists the processes of the command as they are now.
	Members func() []int
	// Memory bounds their memory in bytes, shared memory and files in memory
	// included; 0 or less is no bound.
	Memory int64
	// Disk bounds what the command adds to Dirs, in bytes of the disk; 0 or
	// less is no bound. Dirs are looked up when they are needed.
	Disk int64
	Dirs func() []string
	// FileLimit is the size at which the kernel stops a file of the command, in
	// bytes; 0 if it stops none.
	FileLimit int64
	// Hold stops the command for the time of a measurement, which takes longer
	// than it takes to write much; nil lets it go on.
	Hold func() (release func())
	// Free returns what is left on the disk of a folder, where the system does
	// not tell this package itself.
	Free func(dir string) (uint64, bool)
	// Began is when the command was started.
	Began time.Time
}

// OverError is why a command was ended by a Watch.
type OverError struct {
	What  string // "memory" or "disk space"
	Used  int64
	Limit int64
	Low   bool // the machine ran out of it
}

func (o *OverError) Error() string {
	if o.Low {
		return fmt.Sprintf("the machine is running out of %s, and %s of it went since the command began; it may use %s",
			o.What, mebibytes(o.Used), mebibytes(o.Limit))
	}
	return fmt.Sprintf("all its processes together used %s of %s; the limit is %s", mebibytes(o.Used), o.What, mebibytes(o.Limit))
}

// Largest names the largest files that the command added, at most n, for a person
// who wants the space back.
func (w Watch) Largest(n int) []string {
	type file struct {
		path string
		size int64
	}
	var all []file
	w.grown(func(path string, size, _ int64) {
		if size >= mebibyte {
			all = append(all, file{path, size})
		}
	})

	slices.SortFunc(all, func(a, b file) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.path, b.path)) })
	var out []string
	for _, f := range all[:min(n, len(all))] {
		out = append(out, fmt.Sprintf("%s (%s)", f.path, mebibytes(f.size)))
	}
	return out
}

// Added returns what the command added to its directories: everything that was
// written since it began. Full means that a file among it has exactly the size at
// which the kernel stops it: what wrote to it failed there.
func (w Watch) Added() (used int64, full bool) {
	add := func(_ string, size, length int64) {
		used += size
		full = full || length == w.FileLimit && length > 0
	}
	w.grown(add)
	w.nameless(add)
	return used, full
}

// exceeded judges what was added. What went from the disks bounds it, since other
// programs write into these folders as well. Where a file met the limit of the
// kernel, it was the command, also if other programs freed space meanwhile.
func (w Watch) exceeded(used, gone int64, full bool) *OverError {
	bounded := min(used, gone)
	if full {
		bounded = used
	}
	if bounded < w.Disk {
		return nil
	}
	return &OverError{What: "disk space", Used: bounded, Limit: w.Disk}
}

// walks knows the last look into the folders, which takes long.
type walks struct {
	gone int64 // what was gone from the disks then
	done time.Time
	took time.Duration
}

// walkEvery is how soon a look is worth it after the last one if little has changed.
const walkEvery = time.Second

// due reports whether another look is worth it: half of the limit is gone from the
// disks, and since the last look either much went or anything changed a while ago.
// Looks take at most a twentieth of the time then.
func (l walks) due(gone, limit int64) bool {
	switch {
	case limit <= 0 || gone < limit/2:
		return false
	case l.done.IsZero() || gone-l.gone >= limit/16:
		return true
	}
	return gone != l.gone && time.Since(l.done) >= max(walkEvery, 20*l.took)
}

// walk measures what was added.
func (w Watch) walk(gone int64) (*OverError, walks) {
	began := time.Now()
	used, full := w.Added()
	return w.exceeded(used, gone, full), walks{gone: gone, done: time.Now(), took: time.Since(began)}
}

const mebibyte = 1 << 20

// outermost leaves out folders that lie in other ones, so that nothing counts
// twice.
func outermost(dirs []string) []string {
	dirs = slices.Clone(dirs)
	slices.Sort(dirs)
	var out []string
	for _, dir := range dirs {
		inside := slices.ContainsFunc(out, func(outer string) bool {
			return dir == outer || strings.HasPrefix(dir, strings.TrimSuffix(outer, string(filepath.Separator))+string(filepath.Separator))
		})
		if dir != "" && !inside {
			out = append(out, dir)
		}
	}

	return out
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
