package llmtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// NodeFolder returns where a script of the folder source can run: beside the
// npm packages that the folder names, which are installed once. Without them
// the test is skipped. The folder is hidden because their documents are not
// ours to check.
func NodeFolder(t *testing.T, source, script string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(source, ".installed"))
	if err != nil {
		t.Fatal(err)
	}

	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}

	_, missing := os.Stat(filepath.Join(dir, "node_modules", "openai"))
	if missing != nil && os.Getenv("NANOBOT_SDK") == "" && os.Getenv("CI") == "" {
		t.Skipf("the packages for %s are not installed; set NANOBOT_SDK=1 to install them", script)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"package.json", "package-lock.json", script} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil { //nolint:gosec // names of this test
			t.Fatal(err)
		}
	}

	if missing == nil {
		return dir
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--fetch-timeout=10000", "--fetch-retries=0")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the registry cannot be reached: %v\n%s", err, out)
	}
	return dir
}
