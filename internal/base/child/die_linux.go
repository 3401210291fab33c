package child

import (
	"os/exec"
	"syscall"
)

// DieWithUs lets the kernel end a prepared program when we are killed. The kernel
// looks at the thread that started it, so that one must stay (runtime.LockOSThread).
func DieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
