package shell_test

import (
	"fmt"
	"os"
)

// play runs a part that a test gave to a copy of this program.
func play() (code int, played bool) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		return 0, false
	case "harden":
		return hardened(), true
	case "adversary":
		return playAdversary(), true
	default:
		say("no such role: %s", role)
		return 2, true
	}
}

// say reports to the test that started this process.
func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
