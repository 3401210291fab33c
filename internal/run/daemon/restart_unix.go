//go:build unix

package daemon

import (
	"fmt"
	"syscall"
)

// canReplace says whether a program can take the place of another.
const canReplace = true

// ReplaceProcess runs another program instead of this one, in the same
// process.
func ReplaceProcess(exe string, args, env []string) error {
	return fmt.Errorf("restart: %w", syscall.Exec(exe, args, env))
}
