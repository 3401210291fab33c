package kit

import (
	"os/exec"
	"sync"
	"syscall"

	"github.com/nanobot-go/nanobot/internal/base/winjob"
)

// kin is a program and what it started. A job object ends them all, also when
// we are killed.
type kin struct {
	cmd *exec.Cmd
	mu  sync.Mutex // it may be killed twice at once
	job winjob.Job
}

func (*kin) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

func (k *kin) started(cmd *exec.Cmd) {
	k.cmd = cmd
	k.job, _ = winjob.Hold(cmd.Process.Pid) // without a job it ends when its input does
}

// ask does nothing: Windows has no polite request for programs without a window.
func (*kin) ask() {}

func (k *kin) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.job.End()
	_ = k.cmd.Process.Kill() // an error when it has ended
}
