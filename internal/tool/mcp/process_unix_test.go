//go:build unix

package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

type execCmd = exec.Cmd

// alive reports whether a process group has members that are not waiting for
// their parent to look at them: nobody may do so in a container.
func alive(group int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(-group, 0) == nil
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		b, _ := os.ReadFile(f)
		rest := string(b)[strings.LastIndexByte(string(b), ')')+1:]
		var state string
		var parent, pgrp int
		if n, _ := fmt.Sscan(rest, &state, &parent, &pgrp); n == 3 && pgrp == group && state != "Z" {
			return true
		}
	}
	return false
}
