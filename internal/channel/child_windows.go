package channel

import (
	"os/exec"
	"syscall"
)

// kin is a program. It ends when its input does; its own children are its
// business.
type kin struct{ cmd *exec.Cmd }

func (*kin) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

func (k *kin) started(cmd *exec.Cmd) { k.cmd = cmd }

func (k *kin) kill() { _ = k.cmd.Process.Kill() } // an error when it has ended
