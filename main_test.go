package nanobot_test

import (
	"os"
	"testing"

	"github.com/nanobot-go/nanobot/internal/sandbox"
)

func TestMain(m *testing.M) {
	if handled, code := sandbox.Main(os.Args); handled {
		os.Exit(code) // this is the helper that confines a command
	}
	os.Exit(m.Run())
}
