//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// Kin is a program and what it started. The zero value is ready for one program.
type Kin struct{ group int }

// Prepare puts a program that is about to start into a session of its own: no
// terminal, none of the signals of ours, and one group that can be ended as a whole.
func (*Kin) Prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}

// Started says that the program runs.
func (k *Kin) Started(cmd *exec.Cmd) { k.group = cmd.Process.Pid }

// Ask requests the end.
func (k *Kin) Ask() { _ = syscall.Kill(-k.group, syscall.SIGTERM) }

// Kill ends every process that is left in the group. A group with members keeps its
// number, so no other process is hit.
func (k *Kin) Kill() { _ = syscall.Kill(-k.group, syscall.SIGKILL) }
