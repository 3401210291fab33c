//go:build !linux && !darwin && !windows

package app

// freeBytes is not known here.
func freeBytes(string) (uint64, bool) { return 0, false }
