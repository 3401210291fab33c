package shell_test

import (
	"fmt"
	"os"

	"github.com/nanobot-go/nanobot/internal/sandbox"
)

// play runs a part that a test gave to a copy of this program.
func play() (code int, played bool) {
	if handled, code := sandbox.Main(os.Args); handled {
		return code, true
	}
	switch role := os.Getenv(roleVariable); role {
	case "":
		return 0, false
	case "harden":
		return hardened(), true
	case "adversary":
		return playAdversary(), true
	default:
		fmt.Println("no such role: " + role)
		return 2, true
	}
}
