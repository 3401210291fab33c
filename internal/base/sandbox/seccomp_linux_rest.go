//go:build linux && !amd64 && !arm64

package sandbox

import "golang.org/x/sys/unix"

// filter is nil here: the lists of system calls were only checked for two
// machines.
func filter(Network, bool, bool, ...int) []unix.SockFilter { return nil }
