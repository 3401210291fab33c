package mcp

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/nanobot-go/nanobot/internal/base/winjob"
)

// kin is the job object of a server, which kills all its processes when it is
// closed, also if the agent dies.
type kin struct {
	job  winjob.Job
	proc *exec.Cmd
}

func (k *kin) prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP
	cmd.SysProcAttr.HideWindow = true
}

// started puts the server into its job. Without a job only the server itself
// can be ended.
func (k *kin) started(cmd *exec.Cmd) {
	k.proc = cmd
	k.job, _ = winjob.Hold(cmd.Process.Pid)
}

// ask does nothing: Windows has no polite request for programs without a window.
func (k *kin) ask() {}

func (k *kin) kill() {
	k.job.End()
	_ = k.proc.Process.Kill() // an error when it has ended
}

// program finds the command. Batch files and the package runners, which are
// batch files, are run by the command interpreter.
func program(command string, args, _ []string) (path string, argv []string, err error) {
	base := strings.ToLower(filepath.Base(command))
	ext := filepath.Ext(base)
	if ext == ".cmd" || ext == ".bat" || slices.Contains([]string{"npx", "npm", "pnpm", "yarn", "bunx"}, base) {
		return "cmd.exe", append([]string{"/d", "/c", command}, args...), nil
	}
	if path, err = exec.LookPath(command); err != nil {
		return "", nil, fmt.Errorf("program %q is not in PATH", command)
	}
	return path, args, nil
}
