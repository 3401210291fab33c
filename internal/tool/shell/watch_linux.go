package shell

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const canWatch = true

// twin finds the same processes, for another goroutine.
func (k *kin) twin() *kin { return &kin{mark: k.mark, leader: k.leader, since: k.since} }

func (k *kin) alive() []int {
	pids, _ := k.members()
	return pids
}

// hold stops the command until release is called: its group, and what is in a
// session of its own. What is forked meanwhile is looked for a few times.
func (k *kin) hold() (release func()) {
	group := func(sig syscall.Signal) {
		if p, ok := readProcess(k.leader); ok && p.start == k.since {
			_ = syscall.Kill(-k.leader, sig)
		}
	}

	group(syscall.SIGSTOP)

	stopped := map[int]bool{}
	for range 5 {
		before := len(stopped)
		for _, pid := range k.alive() {
			if !stopped[pid] {
				k.signal(pid, syscall.SIGSTOP)
				stopped[pid] = true
			}
		}

		if len(stopped) == before {
			break
		}
	}

	return func() {
		for pid := range stopped {
			k.signal(pid, syscall.SIGCONT)
		}
		group(syscall.SIGCONT)
	}
}

// kill ends all processes at once, without asking, until none is left: what
// they use would only grow. The leader was not waited for yet or is gone with
// its group.
func (k *kin) kill() {
	if p, ok := readProcess(k.leader); ok && p.start == k.since { // the search below takes time
		_ = syscall.Kill(-k.leader, syscall.SIGKILL)
	}
	for range 200 {
		pids, inGroup := k.members()
		if len(pids) == 0 {
			return
		}

		if inGroup {
			_ = syscall.Kill(-k.leader, syscall.SIGKILL)
		}

		for _, pid := range pids {
			k.signal(pid, syscall.SIGKILL)
		}
		<-time.After(pollEvery)
	}
}

// freeSpace returns what is left on the disk of a folder, with what only root
// may use. diskio.FreeBytes is without: it stays at zero while root goes on
// writing, and here the difference before and after a command counts.
func freeSpace(dir string) uint64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return st.Bfree * uint64(st.Bsize) //nolint:gosec // a size
}
