package diskio

import (
	"os"
	"strconv"
	"strings"
)

// realPath asks the kernel what an open file is called, which no later change
// of names can falsify.
func realPath(f *os.File, abs string) (string, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return "", err
	}

	var resolved string
	var inner error
	if err := c.Control(func(fd uintptr) { resolved, inner = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd))) }); err != nil {
		return "", err
	}
	if inner != nil || !strings.HasPrefix(resolved, "/") || strings.HasSuffix(resolved, " (deleted)") {
		return realPathByName(f, abs)
	}
	return resolved, nil
}
