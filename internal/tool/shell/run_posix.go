//go:build unix && !linux

package shell

import (
	"syscall"
	"time"
)

func startTime(int) uint64 { return 0 }

// members names the process group of the call while it has members. Without
// /proc, a process that made a session of its own is out of reach.
func (k *kin) members() (pids []int, inGroup bool) {
	if syscall.Kill(-k.leader, 0) != nil {
		return nil, false
	}
	return []int{-k.leader}, true
}

// kill ends the group at once, until nothing is left of it.
func (k *kin) kill() {
	for range 200 {
		if syscall.Kill(-k.leader, syscall.SIGKILL) != nil {
			return
		}
		<-time.After(pollEvery)
	}
}

func (k *kin) signal(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }
