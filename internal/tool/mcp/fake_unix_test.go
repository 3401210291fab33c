//go:build unix

package mcp

import (
	"os"
	"os/exec"
)

// leaveChild starts a process that would outlive us in our group.
func leaveChild(holdsPipes bool) {
	cmd := exec.Command("sleep", "600") //nolint:noctx // it is meant to stay
	if holdsPipes {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}
