//go:build unix

package mcp

import (
	"fmt"
	"os"
	"os/exec"
)

// leaveChild starts a process that would outlive us in our group.
func leaveChild() {
	cmd := exec.Command("sleep", "600")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // holds our pipes
	if cmd.Start() == nil {
		_ = os.WriteFile(os.Getenv("FAKE_CHILD"), fmt.Append(nil, cmd.Process.Pid), 0o600)
	}
}
