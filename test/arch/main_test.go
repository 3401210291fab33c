// Package arch holds the rules of the repository: who may import whom, which
// programs may be started and which files opened where, that documents, lists
// and generated files match the code. It has tests only, which read the
// repository from its root.
package arch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(run(m)) } //nolint:forbidigo // how tests end

func run(m *testing.M) int {
	root, err := moduleRoot()
	if err == nil {
		err = os.Chdir(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// moduleRoot is the nearest folder above the working folder with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the working folder")
		}
		dir = up
	}
}
