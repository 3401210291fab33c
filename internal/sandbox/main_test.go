package sandbox_test

import (
	"os"
	"testing"

	"github.com/nanobot-go/nanobot/internal/sandbox"
)

func TestMain(m *testing.M) {
	if handled, code := sandbox.Main(os.Args); handled {
		os.Exit(code) //nolint:forbidigo // the test program is the helper
	}
	os.Exit(m.Run()) //nolint:forbidigo // as every TestMain
}
