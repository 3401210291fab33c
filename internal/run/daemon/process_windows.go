package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Windows has no gentle signal for a process without a console.
func terminate(pid int) error { return kill(pid) }

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

func alive(p *os.Process) error {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(p.Pid)) //nolint:gosec // a process id
	if err != nil {
		return err
	}

	defer windows.CloseHandle(h) //nolint:errcheck // only asked
	var code uint32
	if err := windows.GetExitCodeProcess(h, &code); err != nil {
		return err
	}
	if code != 259 { // STILL_ACTIVE
		return os.ErrProcessDone
	}
	return nil
}

// Start runs a program on its own: it outlives us and the terminal, and what it
// writes goes to the end of a file. The result is done when it ends.
func Start(exe string, args, env []string, log string) (pid int, done <-chan error, err error) {
	if err := diskio.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return 0, nil, err
	}

	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, nil, fmt.Errorf("open the log: %w", err)
	}

	defer out.Close()                 //nolint:errcheck // the child has its own
	cmd := exec.Command(exe, args...) //nolint:gosec,noctx // our own binary, which is to live on
	cmd.Env = env
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd.Process.Pid, ended, nil
}
