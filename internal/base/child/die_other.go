//go:build !linux

package child

import "os/exec"

// DieWithUs does nothing: on Windows the job does it, elsewhere a program ends when
// its input does.
func DieWithUs(*exec.Cmd) {}
