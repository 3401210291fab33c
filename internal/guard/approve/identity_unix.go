//go:build unix

package approve

import (
	"io/fs"
	"syscall"
)

// identity returns what makes a file the same file under any name.
func identity(info fs.FileInfo) (dev, ino uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), uint64(st.Ino) //nolint:unconvert // the types differ between systems
	}
	return 0, 0
}
