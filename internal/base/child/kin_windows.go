package child

import (
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/windows"
)

// Kin is a program and what it started, held by a job object that ends them all, also
// when we are killed. The zero value is ready for one program.
type Kin struct {
	cmd *exec.Cmd
	mu  sync.Mutex // it may be killed twice at once
	job Job
}

// Prepare keeps a program that is about to start away from our console.
func (*Kin) Prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP
	cmd.SysProcAttr.HideWindow = true
}

// Started puts the program into its job. Without a job only the program itself can be
// ended.
func (k *Kin) Started(cmd *exec.Cmd) {
	k.cmd = cmd
	k.job, _ = Hold(cmd.Process.Pid)
}

// Ask does nothing: Windows has no polite request for programs without a window.
func (*Kin) Ask() {}

// Kill ends the program and what it started.
func (k *Kin) Kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.job.End()
	_ = k.cmd.Process.Kill() // an error when it has ended
}
