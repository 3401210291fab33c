//go:build !linux

package daemon

import "runtime/debug"

// ReleaseMemory gives back what a process does not need while it has nothing
// to do.
func ReleaseMemory() { debug.FreeOSMemory() }
