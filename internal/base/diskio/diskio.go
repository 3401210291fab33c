// Package diskio hides how files are changed without ever losing what they
// held: whole files replaced atomically (WriteFile), line logs that only grow
// and whose torn end is kept aside (Lines, LinesBackward, RepairTail), file
// locks that name their owner and leave no litter (TryLock), and the jail that
// keeps paths inside a directory. It knows no product words.
//
// Functions are safe for concurrent use on different files. Two writers of one
// file must agree on a lock first.
package diskio

import (
	"path/filepath"
	"strings"
)

// Within reports whether a path is a folder or below it. Both are clean.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}
