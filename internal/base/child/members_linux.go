package child

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// CanSee says that other processes can be looked at.
const CanSee = true

// Members returns the processes as they are now: those of the session, and whatever
// descends from them.
func (k *Kin) Members() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}

	parent := map[int]int{}
	in := map[int]bool{k.group: true}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}

		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it ended
		}

		// The name is in brackets and may contain anything.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) < 4 {
			continue
		}

		parent[pid], _ = strconv.Atoi(string(f[1]))
		if session, _ := strconv.Atoi(string(f[3])); session == k.group {
			in[pid] = true
		}
	}

	var out []int
	for pid := range parent {
		for p := pid; p > 1; p = parent[p] {
			if in[p] {
				out = append(out, pid)
				break
			}
		}
	}

	return out
}

// KillAll ends every member at once, also those that left the group.
func (k *Kin) KillAll() {
	for _, pid := range k.Members() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one that ended meanwhile
	}
	k.Kill()
}
