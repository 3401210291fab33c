//go:build unix

package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// program finds the command in the PATH the server will see, which its
// configuration may change.
func program(command string, args, env []string) (path string, argv []string, err error) {
	if strings.ContainsRune(command, '/') {
		return command, args, nil
	}

	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}

		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) {
				continue // the folder we happen to be in decides nothing
			}

			p := filepath.Join(dir, command)
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return p, args, nil
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrPermission) {
				return "", nil, err
			}
		}
	}

	return "", nil, fmt.Errorf("program %q is not in PATH", command)
}
