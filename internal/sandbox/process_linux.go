package sandbox

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstChild is the oldest child of a process, 0 without.
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
		for f := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// endOrphans kills what the command left behind. The helper is the reaper of
// all its descendants, so each that ends hands its children up, until none is
// left.
func endOrphans() {
	for {
		for _, pid := range children(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// raiseOOMScore makes the kernel end the command before the agent when memory
// runs out.
func raiseOOMScore() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
}

// letGoOfStreams leaves the streams to the command, so that their readers see
// the end when the command closes them.
func letGoOfStreams() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = unix.Dup3(null, fd, 0)
	}
	_ = unix.Close(null)
}

func boolInt(b bool) uintptr {
	if b {
		return 1
	}
	return 0
}
