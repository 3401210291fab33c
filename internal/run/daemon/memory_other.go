//go:build !linux

package daemon

import "runtime/debug"

// releaseMemory gives back what a process does not need while it has nothing
// to do.
func releaseMemory() { debug.FreeOSMemory() }
