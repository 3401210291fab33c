package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// identity returns when a process started, in the kernel's ticks since boot.
func identity(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}

	// The name in parentheses may hold anything; what follows it does not.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", errors.New("the kernel does not tell when the process started")
	}
	if fields[0][0] == 'Z' {
		return "", os.ErrProcessDone
	}
	return "start:" + string(fields[19]), nil
}
