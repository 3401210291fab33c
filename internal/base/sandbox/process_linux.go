package sandbox

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// firstChild returns the oldest child of a process, 0 without.
func firstChild(pid int) int {
	if list := children(pid); len(list) > 0 {
		return list[0]
	}
	return 0
}

func children(pid int) []int {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}

	var out []int
	for _, t := range tasks {
		data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + t.Name() + "/children")
		n := 0
		for _, b := range append(data, ' ') { // decimal numbers, each followed by a space
			if b >= '0' && b <= '9' {
				n = 10*n + int(b-'0')
			} else if n > 0 {
				out, n = append(out, n), 0
			}
		}
	}

	return out
}

// countBelow counts the descendants of a process, up to a number that is enough.
func countBelow(pid, enough int) int {
	n := 0
	for _, c := range children(pid) {
		if n++; n < enough {
			n += countBelow(c, enough-n)
		}
		if n >= enough {
			return n
		}
	}

	return n
}

// killBelow kills the descendants of a process. A parent comes before its
// children, so it cannot make more once it was seen.
func killBelow(pid int) {
	for _, c := range children(pid) {
		_ = syscall.Kill(c, syscall.SIGKILL)
		killBelow(c)
	}
}

// killOrphans kills what the command left behind. The helper is the reaper of
// all its descendants, so each that ends hands its children up, until none is
// left.
func killOrphans() {
	for {
		killBelow(os.Getpid())
		options := 0
		for {
			pid, err := syscall.Wait4(-1, nil, options, nil)
			if errors.Is(err, syscall.ECHILD) {
				return
			}
			if pid == 0 {
				break // some are still ending, or new ones have come
			}
			options = syscall.WNOHANG
		}
	}
}
