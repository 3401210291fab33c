//go:build unix

package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
func kill(pid int) error      { return syscall.Kill(pid, syscall.SIGKILL) }

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
	cmd := exec.Command(exe, args...) //nolint:noctx // our own binary, which is to live on
	cmd.Env = env
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd.Process.Pid, ended, nil
}
