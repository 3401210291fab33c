// Package program builds our programs for tests and benchmarks exactly as the
// Makefile does, so that what they watch is what people run.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build compiles a package of this module, such as ./cmd/nanobot, to the file
// out. The environment is that of the go command; nil is our own.
func Build(ctx context.Context, env []string, out, pkg string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	var flags []byte
	for { // a test runs in the folder of its package
		if flags, err = os.ReadFile(filepath.Join(root, "deploy", "build.flags")); err == nil {
			break
		}
		up := filepath.Dir(root)
		if up == root {
			return fmt.Errorf("build %s: the working folder is not below the folder of deploy/build.flags: %w", pkg, err)
		}
		root = up
	}
	if env == nil {
		env = os.Environ()
	}

	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir = root
	cmd.Env = append(env, "CGO_ENABLED=0", "GOFLAGS="+strings.Join(strings.Fields(string(flags)), " "))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}
