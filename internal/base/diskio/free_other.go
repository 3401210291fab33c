//go:build !linux && !darwin && !windows

package diskio

// FreeBytes is not known here.
func FreeBytes(string) (uint64, bool) { return 0, false }
