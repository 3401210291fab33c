//go:build race

package sandbox

import "syscall"

// leave ends a helper at once. A program with the race detector would wait a
// second at its exit, and with it everybody who waits for the command.
func leave(code int) { syscall.Exit(code) }
