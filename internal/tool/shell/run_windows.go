package shell

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/nanobot-go/nanobot/internal/base/child"
)

// shellFor is PowerShell without profiles. The command goes in as one
// argument; output is UTF-8 and the exit code of the last program is passed on.
func shellFor(_ func(string) string, in input) (program string, args []string, err error) {
	const prologue = "[Console]::OutputEncoding = [System.Text.UTF8Encoding]::new(); $OutputEncoding = [Console]::OutputEncoding; "
	const epilogue = "\nif ($null -ne $LASTEXITCODE) { exit $LASTEXITCODE } elseif (-not $?) { exit 1 }"
	switch strings.TrimSuffix(strings.ToLower(in.Shell), ".exe") {
	case "", "powershell":
		program = "powershell.exe"
	case "pwsh":
		program = "pwsh.exe"
	case "cmd":
		return "cmd.exe", []string{"/d", "/s", "/c", in.Command}, nil
	default:
		return "", nil, fmt.Errorf("shell %q is not supported; use powershell, pwsh or cmd", in.Shell)
	}

	return program, []string{"-NoProfile", "-NonInteractive", "-Command", prologue + in.Command + epilogue}, nil
}

// boundFiles does nothing: there is no limit for files of one process.
func boundFiles(*exec.Cmd, int64) {}

// kin are the processes of one call, held by a job object that kills them all
// when it is closed, also if the agent dies.
type kin struct {
	job    child.Job
	leader int
}

func newKin(string) *kin { return &kin{} }

// openTerminal always fails: there are no pseudo terminals of this kind.
func openTerminal() (ours, theirs *os.File, err error) {
	return nil, nil, errors.New("pty is not available on Windows; leave it out")
}

func (k *kin) prepare(cmd *exec.Cmd, _ bool) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP
	cmd.SysProcAttr.HideWindow = true
}

// started puts the shell into the job. A child it starts before that is not
// in the job; ask reaches it through the process tree.
func (k *kin) started(cmd *exec.Cmd) {
	k.leader = cmd.Process.Pid
	k.job, _ = child.Hold(k.leader) // without a job ask ends the tree
}

// ask ends the tree at once: Windows has no polite request for programs
// without a window.
func (k *kin) ask(cmd *exec.Cmd) error {
	// The tree is walked while the shell still lives.
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run() //nolint:gosec,noctx // fixed program, ends by itself
	return cmd.Process.Kill()
}

// kill ends the tree at once; what has left it ends with the job.
func (k *kin) kill() {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(k.leader)).Run() //nolint:gosec,noctx // fixed program, ends by itself
}

func (k *kin) stop() (found, left int) {
	k.job.End()
	return 0, 0
}

func exitCode(e *exec.ExitError) int { return e.ExitCode() }
