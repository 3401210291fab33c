package security_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/test/program"
)

// binDir holds what is built for the tests; scratch is removed at the end.
var binDir string

func TestMain(m *testing.M) { os.Exit(run(m)) } //nolint:forbidigo // how tests end

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nanobot-security-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) // best effort
	binDir = dir
	// What runs inside this process must not take the real home for its own.
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("HOME", home); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if isInside() {
		if err := enterInternet(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return notInside
		}
	}
	return m.Run()
}

// goEnv is the environment of the go command: its caches are in the real home.
var goEnv = os.Environ()

// binVariable names a program to test instead of one that is built.
const binVariable = "NANOBOT_SECURITY_BIN"

// binary builds the real program once.
var binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv(binVariable); bin != "" {
		return bin, nil
	}
	bin := filepath.Join(binDir, "nanobot")
	return bin, program.Build(context.Background(), goEnv, bin, "./cmd/nanobot")
})

// level is what sandbox a mode gives on this machine.
func level(t *testing.T, mode sandbox.Mode) sandbox.Level {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	box, err := sandbox.Open(context.WithoutCancel(t.Context()), sandbox.Options{Mode: mode, Self: bin})
	if err != nil {
		t.Skipf("no sandbox %s here: %v", mode, err)
	}
	return box.Level()
}
