//go:build !windows

package journal

// renameNeedsClosed says whether a file must be closed to be renamed or replaced.
const renameNeedsClosed = false
