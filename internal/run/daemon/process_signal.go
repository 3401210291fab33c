//go:build unix && !linux

package daemon

import (
	"errors"
	"os"
	"syscall"
)

// alive asks the system about a process that may belong to another user.
func alive(p *os.Process) error {
	if err := p.Signal(syscall.Signal(0)); err != nil && !errors.Is(err, syscall.EPERM) {
		return err
	}
	return nil
}
