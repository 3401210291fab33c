package main

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"
)

// findHome sets HOME where a service manager or a container left it out, to the folder
// that the user database names. Without an entry it stays unset, and what needs it says so.
func findHome(lookup func() (*user.User, error)) {
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) || runtime.GOOS == "windows" {
		return
	}
	u, err := lookup()
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return
	}
	_ = os.Setenv("HOME", u.HomeDir) // fails for names that cannot be set only
}
