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
	default:
		fmt.Println("no such role: " + role)
		return 2, true
	}
}
