package diskio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Windows has no FIFOs in the file system and opens devices only by reserved
// names, which are refused earlier.
const openNonblock = 0

func clearNonblock(*os.File) error { return nil }

// linkCount claims several names, so that identity is always compared: the
// count is not part of the information the os package keeps.
func linkCount(fs.FileInfo) uint64 { return 2 }

func notDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ERROR_PATH_NOT_FOUND)
}

func realPath(f *os.File, abs string) (string, error) { return realPathByName(f, abs) }

// volumeRoots are the roots of an unrestricted jail, one for each volume.
type volumeRoots struct {
	mu    sync.Mutex
	roots map[string]*os.Root
}

func (v *volumeRoots) open(abs string) (*os.Root, string, error) {
	vol := strings.ToUpper(filepath.VolumeName(abs)) + `\`
	v.mu.Lock()
	defer v.mu.Unlock()

	if r := v.roots[vol]; r != nil {
		return r, vol, nil
	}

	r, err := os.OpenRoot(vol)
	if err != nil {
		return nil, "", err
	}

	if v.roots == nil {
		v.roots = map[string]*os.Root{}
	}

	v.roots[vol] = r
	return r, vol, nil
}

func (v *volumeRoots) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for _, r := range v.roots {
		errs = append(errs, r.Close())
	}
	v.roots = nil
	return errors.Join(errs...)
}
