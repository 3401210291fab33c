//go:build unix

package skill

import "syscall"

const nonBlocking = syscall.O_NONBLOCK
