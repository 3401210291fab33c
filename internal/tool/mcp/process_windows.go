package mcp

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

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
