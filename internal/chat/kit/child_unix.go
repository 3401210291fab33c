//go:build unix

package kit

import (
	"os/exec"
	"syscall"
)

// kin is the process group of a program.
type kin struct{ group int }

// prepare puts the program into a group of its own, which can be ended as a
// whole and does not get the signals of our terminal.
func (*kin) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
}

func (k *kin) started(cmd *exec.Cmd) { k.group = cmd.Process.Pid }

// ask requests the end.
func (k *kin) ask() { _ = syscall.Kill(-k.group, syscall.SIGTERM) }

func (k *kin) kill() { _ = syscall.Kill(-k.group, syscall.SIGKILL) }
