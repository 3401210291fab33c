package diskio

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// maxLinkSearch bounds the files that are looked at for further names.
	maxLinkSearch = 50_000
	// linkTick is more than the clocks of file systems are late.
	linkTick = 50 * time.Millisecond
)

// linkIndex knows the files of some folders that have more than one name. They
// are looked for when a file with several names is opened whose inode changed
// after the last look: making a name changes the inode.
type linkIndex struct {
	dirs []string

	mu    sync.Mutex
	at    time.Time // of the last look
	found []fs.FileInfo
}

// has reports whether a file with several names, told by same, is one of them.
func (x *linkIndex) has(changed time.Time, same func(fs.FileInfo) bool) bool {
	if x == nil || len(x.dirs) == 0 || runtime.GOOS == "windows" { // which does not tell how many names a file has
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !changed.Add(linkTick).Before(x.at) {
		x.look()
	}
	return slices.ContainsFunc(x.found, same)
}

func (x *linkIndex) look() {
	x.at, x.found = time.Now(), nil
	left := maxLinkSearch
	for _, dir := range x.dirs {
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // what cannot be read has no names that matter
			if left--; left < 0 {
				return fs.SkipAll
			}
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // the rest still counts
			}

			if info, err := d.Info(); err == nil && linkCount(info) > 1 {
				x.found = append(x.found, info)
			}
			return nil
		})
	}
}
